#include <algorithm>
#include <cmath>

#include "base/cast.h"
#include "ops/random/draw.h"

namespace sardonyx {
namespace ops {

Outputs LowerMultinomial(Lowering& op) {
  const DType type = op.DTypeAttribute("dtype", DType::kInt32);
  if (type != DType::kInt32 && type != DType::kInt64) {
    op.Fail("Multinomial gives int32 or int64, not {}", Name(type));
  }
  const int64_t count = op.Int("sample_size", 1);
  if (count < 0) op.Fail("attribute sample_size is {}, less than 0", count);
  Attributes attributes{{"dtype", static_cast<int64_t>(type)}, {"samples", count}};
  AddSeed(op, &attributes);
  return op.builder().Make(core::multinomial, {op.in(0)}, std::move(attributes));
}

}  // namespace ops

namespace core {
namespace {

void InferMultinomial(InferContext& context) {
  const DType type = context.dtype(0);
  if (!IsFloat(type)) context.Fail("logarithms of probabilities are {}, not floats", Name(type));
  Dims shape{context.symbols().Fresh(), Dim(context.attributes().Int("samples"))};
  if (context.ranked(0)) {
    const Dims& given = context.shape(0);
    if (given.size() != 2 || given[1] == Dim(0)) {
      context.Fail("samples are drawn from [batch, classes], at least one class, not {}",
                   context.Print(given));
    }
    shape[0] = given[0];
  }
  context.Set(0, static_cast<DType>(context.attributes().Int("dtype")), std::move(shape));
}

// Each sample inverts the cumulative distribution at one uniform number.
void ComputeMultinomial(ComputeContext& context) {
  Tensor& y = context.Allocate(0);
  const std::vector<double> logits = ToDoubles(context.input(0));
  const int64_t rows = y.dims()[0], samples = y.dims()[1], classes = context.input(0).dims()[1];
  RandomStream stream = ops::StreamOf(context.attributes());
  std::vector<double> cumulative(classes);
  std::vector<int64_t> drawn;
  for (int64_t row = 0; row < rows; ++row) {
    const double* line = logits.data() + row * classes;
    const double peak = *std::max_element(line, line + classes);
    double total = 0;
    for (int64_t i = 0; i < classes; ++i) cumulative[i] = total += std::exp(line[i] - peak);
    if (!std::isfinite(total)) {
      Fail(ErrorCode::kInvalidArgument, "row {} is no distribution: NaN, infinity or no class",
           row);
    }
    for (int64_t i = 0; i < samples; ++i) {
      const double at = stream.Uniform() * total;
      auto found = std::upper_bound(cumulative.begin(), cumulative.end(), at);
      // Rounding may lift the number to the total: then it is the last class that can be drawn.
      if (found == cumulative.end()) {
        found = std::lower_bound(cumulative.begin(), cumulative.end(), total);
      }
      drawn.push_back(found - cumulative.begin());
    }
  }
  ConvertElements(DType::kInt64, drawn.data(), y.dtype(), y.raw(), y.size(), true);
}

}  // namespace

const CoreOp multinomial = {.name = "multinomial",
                            .inputs = "t",
                            .infer = InferMultinomial,
                            .reference = ComputeMultinomial,
                            .is_pure = false};

}  // namespace core
}  // namespace sardonyx
