#include <numeric>

#include "ops/lowering.h"
#include "ops/nn/quantization.h"

namespace sardonyx::ops::contrib {

// Inputs: x, its scale and zero point, scale and zero point of y. Zero points may be absent.

namespace {

Val Real(Lowering& op) { return Dequantized(op.in(0), op.in(1), op.in(2)); }

Val Requantized(Lowering& op, Val y) {
  return ToQuantized(y / op.in(3), op.in(4), op.in(0).dtype());
}

// The operator of ai.onnx on real numbers, for images with channels second.
Val Standard(Lowering& op, std::string_view name, int version, Attributes attributes, Val x) {
  Lowering real(op.builder(), "", std::string(name), version, std::move(attributes), {x}, {true});
  return FindOnnxOp("", name)->lower(real).values[0];
}

}  // namespace

Outputs LowerQLinearSigmoid(Lowering& op) { return Requantized(op, Sigmoid(Real(op))); }

Outputs LowerQLinearLeakyRelu(Lowering& op) {
  const Val x = Real(op);
  return Requantized(op, Where(Less(x, 0), x * op.Float("alpha", 0.01), x));
}

// Attribute opset: of the Softmax meant. Before 13 it was over all axes from `axis` on.
Outputs LowerQLinearSoftmax(Lowering& op) {
  const int version = op.Int("opset") < 13 ? 11 : 13;
  const int64_t axis = op.Int("axis", version < 13 ? 1 : -1);
  return Requantized(op, Standard(op, "Softmax", version, {{"axis", axis}}, Real(op)));
}

Outputs LowerQLinearAveragePool(Lowering& op) {
  const bool last = op.Int("channels_last") != 0;
  const Val x = Real(op);
  const Val y = Standard(op, "AveragePool", 19, op.attributes, last ? ToChannelsFirst(x) : x);
  return Requantized(op, last ? ToChannelsLast(y) : y);
}

// The sum of the integers is exact.
Outputs LowerQLinearGlobalAveragePool(Lowering& op) {
  const Val x = op.in(0);
  const int first = op.Int("channels_last") != 0 ? 1 : 2;
  std::vector<int64_t> axes(x.rank() - 2);
  std::iota(axes.begin(), axes.end(), first);
  Val sum = Reduce("byte_sum", x, axes, true);
  const Val count = ReduceAll("prod", ShapeOf(x, first, first + x.rank() - 2), false);
  if (op.in(2)) sum = sum - Cast(op.in(2), DType::kInt32) * Cast(count, DType::kInt32);
  const Val factor = op.in(1) / (op.in(3) * Cast(count, DType::kFloat32));
  return ToQuantized(Cast(sum, DType::kFloat32) * factor, op.in(4), x.dtype());
}

}  // namespace sardonyx::ops::contrib
