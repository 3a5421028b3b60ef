// Layer normalisation over the axes [axis, rank), or its root-mean-square form, which does not
// subtract the mean. ONNX LayerNormalization-17 and RMSNormalization-23; with images as rows and a
// scale and bias for each channel InstanceNormalization and GroupNormalization. `to`: the type of
// the result, if it is not the scale's or, without one, the input's.

#include <cmath>

#include "ops/core/core.h"
#include "ops/core/element_type.h"
#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

// Mean and 1/deviation are float32 where the input is smaller (stash_type 1).
DType StatisticsType(DType type) { return type == DType::kFloat64 ? type : DType::kFloat32; }

void InferLayerNorm(InferContext& context) {
  const DType type = context.dtype(0);
  if (!IsFloat(type)) context.Fail("layer_norm takes floats, not {}", Name(type));
  std::optional<Dims> shape, statistics;
  if (context.ranked(0)) {
    shape = context.shape(0);
    const int axis = context.Axis(context.attributes().Int("axis", -1), context.rank(0));
    statistics = shape;
    std::fill(statistics->begin() + axis, statistics->end(), Dim(1));
    for (size_t i = 1; i <= 2; ++i) {
      if (!context.has(i) || !context.ranked(i)) continue;
      const Dims joined = context.Broadcast(context.shape(i), *shape);
      if (joined.size() != shape->size()) {
        context.Fail("{} {} does not broadcast to {}", i == 1 ? "a scale" : "a bias",
                     context.Print(context.shape(i)), context.Print(*shape));
      }
    }
  }
  const DType plain = context.has(1) ? context.dtype(1) : type;
  const DType to = ElementType(context.attributes(), "to", plain);
  if (!IsFloat(to)) context.Fail("layer_norm gives floats, not {}", Name(to));
  context.Set(0, to, shape);
  for (size_t i = 1; i < context.output_count(); ++i)
    context.Set(i, StatisticsType(type), statistics);
}

void ComputeLayerNorm(ComputeContext& context) {
  const Tensor& x = context.input(0);
  Tensor& y = context.Allocate(0);
  const int64_t given = context.attributes().Int("axis", -1);
  const size_t axis = static_cast<size_t>(given < 0 ? given + x.rank() : given);
  const double epsilon = context.attributes().Float("epsilon", 1e-5);
  const bool rms = context.attributes().Int("rms") != 0;
  const int64_t rows = ProductOf(x.dims(), 0, axis), size = ProductOf(x.dims(), axis, x.rank());
  const std::vector<double> values = ToDoubles(x);
  std::vector<double> result(values.size()), means(rows), inverse_deviations(rows);
  for (int64_t row = 0; row < rows; ++row) {
    const double* in = values.data() + row * size;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < size; ++i) sum += in[i];
    const double mean = rms ? 0 : sum / static_cast<double>(size);
    for (int64_t i = 0; i < size; ++i) squares += (in[i] - mean) * (in[i] - mean);
    means[row] = mean;
    inverse_deviations[row] = 1.0 / std::sqrt(squares / static_cast<double>(size) + epsilon);
    for (int64_t i = 0; i < size; ++i) {
      result[row * size + i] = (in[i] - mean) * inverse_deviations[row];
    }
  }
  for (size_t operand = 1; operand <= 2; ++operand) {
    if (!context.has(operand)) continue;
    const std::vector<double> factors = ToDoubles(context.input(operand));
    Walk walk(x.dims(), {BroadcastStrides(context.input(operand).dims(), x.dims())});
    for (double& value : result) {
      value = operand == 1 ? value * factors[walk[0]] : value + factors[walk[0]];
      walk.Next();
    }
  }
  const auto store = [](const std::vector<double>& from, Tensor& to) {
    ConvertElements(DType::kFloat64, from.data(), to.dtype(), to.raw(), to.size(), false);
  };
  store(result, y);
  if (context.output_count() > 1) store(means, context.Allocate(1));
  if (context.output_count() > 2) store(inverse_deviations, context.Allocate(2));
}

}  // namespace

const CoreOp layer_norm = {.name = "layer_norm",
                           .inputs = "tt?t?",
                           .outputs = {1, 3},
                           .infer = InferLayerNorm,
                           .reference = ComputeLayerNorm};

}  // namespace sardonyx::core
