// MelWeightMatrix: triangular filters whose corners are evenly spaced on the mel scale and lie on
// bins of a transform.

#include <array>
#include <cmath>

#include "ops/core/reference.h"
#include "ops/lowering.h"

namespace sardonyx {
namespace core {
namespace {

constexpr const char* kInputs[] = {"num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz",
                                   "upper_edge_hertz"};

void CheckSizes(int64_t mel_bins, int64_t length) {
  constexpr int64_t kMost = 1 << 20;
  if (mel_bins < 1 || length < 1 || mel_bins > kMost || length > kMost ||
      mel_bins * length > kMost * 256) {
    Fail(ErrorCode::kInvalidModel, "{} mel bins of a transform of {} make no matrix", mel_bins,
         length);
  }
}

void InferMelWeightMatrix(InferContext& context) {
  for (size_t i = 0; i < 5; ++i) {
    const DType type = context.dtype(i);
    if (i < 3 ? !IsInteger(type) : !IsFloat(type)) {
      context.Fail("{} is {}, not {}", kInputs[i], Name(type), i < 3 ? "an integer" : "a float");
    }
    if (!context.ranked(i)) continue;
    for (Dim dim : context.shape(i)) {
      if (dim.known() && dim.value() != 1) {
        context.Fail("{} is not a scalar but {}", kInputs[i], context.Print(context.shape(i)));
      }
    }
  }
  Dims shape{context.symbols().Fresh(), context.symbols().Fresh()};
  std::vector<int64_t> bins, length;
  if (context.Ints(0, &bins) && context.Ints(1, &length)) {
    CheckSizes(bins[0], length[0]);
    shape = {Dim(length[0] / 2 + 1), Dim(bins[0])};
  }
  context.Set(0, static_cast<DType>(context.attributes().Int("dtype")), std::move(shape));
}

double Mel(double hertz) { return 2595 * std::log1p(hertz / 700) / std::log(10.0); }
double Hertz(double mel) { return 700 * std::expm1(mel / 2595 * std::log(10.0)); }

void ComputeMelWeightMatrix(ComputeContext& context) {
  std::array<double, 5> scalars;
  for (size_t i = 0; i < scalars.size(); ++i) {
    const std::vector<double> values = ToDoubles(context.input(i));
    if (values.size() != 1) Fail(ErrorCode::kInvalidModel, "{} is not a scalar", kInputs[i]);
    scalars[i] = values[0];
  }
  const auto [mel_bins, length, rate, lower, upper] = scalars;
  const int64_t columns = static_cast<int64_t>(mel_bins);
  CheckSizes(columns, static_cast<int64_t>(length));
  const int64_t rows = static_cast<int64_t>(length) / 2 + 1;
  const double low = Mel(lower), step = (Mel(upper) - low) / (mel_bins + 2);
  std::vector<int64_t> corners;
  for (int64_t i = 0; i < columns + 2; ++i) {
    const double hertz = Hertz(static_cast<double>(i) * step + low);
    const double bin = std::floor((length + 1) * hertz / rate);
    // The last filter may come down to zero behind the last bin.
    const double least = corners.empty() ? 0 : static_cast<double>(corners.back());
    const double most = static_cast<double>(i <= columns ? rows - 1 : rows);
    if (!(bin >= least && bin <= most)) {
      Fail(ErrorCode::kInvalidArgument,
           "edges of {} and {} hertz lie outside of the spectrum at a sample rate of {}", lower,
           upper, rate);
    }
    corners.push_back(static_cast<int64_t>(bin));
  }
  std::vector<double> weights(rows * columns);
  for (int64_t i = 0; i < columns; ++i) {
    const int64_t left = corners[i], center = corners[i + 1], right = corners[i + 2];
    const auto set = [&](int64_t row, int64_t part, int64_t whole) {
      weights[row * columns + i] = static_cast<double>(part) / static_cast<double>(whole);
    };
    for (int64_t row = left; row < center; ++row) set(row, row - left, center - left);
    set(center, 1, 1);
    for (int64_t row = center; row < right; ++row) set(row, right - row, right - center);
  }
  Tensor& y = context.Allocate(0, context.inferred(0).type.dtype, {rows, columns});
  ConvertElements(DType::kFloat64, weights.data(), y.dtype(), y.raw(), y.size(), false);
}

}  // namespace

const CoreOp mel_weight_matrix = {.name = "mel_weight_matrix",
                                  .inputs = "ttttt",
                                  .infer = InferMelWeightMatrix,
                                  .reference = ComputeMelWeightMatrix};

}  // namespace core

namespace ops {

Outputs LowerMelWeightMatrix(Lowering& op) {
  const DType type = op.DTypeAttribute("output_datatype", DType::kFloat32);
  if (BitWidth(type) < 8 || !(IsFloat(type) || IsInteger(type))) {
    op.Fail("attribute output_datatype is {}, not a float or an integer of a byte or more",
            Name(type));
  }
  return op.builder().Make(core::mel_weight_matrix,
                           {op.in(0), op.in(1), op.in(2), op.in(3), op.in(4)},
                           {{"dtype", static_cast<int64_t>(type)}});
}

}  // namespace ops
}  // namespace sardonyx
