#include "ops/lowering.h"
#include "ops/nn/quantization.h"
#include "ops/nn/window.h"

namespace sardonyx::ops {

// Products of integers are exact in int32; zero points are subtracted before, so that padding with
// zeros pads with the zero point.

namespace {

Val Centered(Val x, Val zero_point) {
  const Val wide = Cast(x, DType::kInt32);
  return zero_point ? wide - Cast(zero_point, DType::kInt32) : wide;
}

// A vector of zero points belongs to the rows of the left operand.
Val Rows(Val zero_point) {
  return zero_point && zero_point.rank() == 1 ? Unsqueeze(zero_point, {1}) : zero_point;
}

// A vector [output channels] against weights [output channels, ...].
Val OverOutputs(Val vector, int rank) {
  return vector && vector.rank() == 1 ? AlongAxis(vector, rank, 0) : vector;
}

// Channels-last product of x and w, both int32.
Val Convolve(Lowering& op, Val x, Val w) {
  Attributes attributes = Window(op, x.rank() - 2, op.Ints("kernel_shape"));
  attributes.Set("group", op.Int("group", 1));
  return op.builder().Make(core::conv, {ToChannelsLast(x), w}, attributes);
}

Val MultiplyMatrices(Val a, Val b) {
  const bool row = a.rank() == 1, column = b.rank() == 1;
  Val y = MatMul(row ? Unsqueeze(a, {0}) : a, column ? Unsqueeze(b, {1}) : b);
  if (column) y = Squeeze(y, {-1});
  return row ? Squeeze(y, {column ? -1 : -2}) : y;
}

}  // namespace

Outputs LowerMatMulInteger(Lowering& op) {
  const Val a = op.in(0), b = op.in(1);
  const Val a_zero = a.rank() > 1 ? Rows(op.in(2)) : op.in(2);
  return MultiplyMatrices(Centered(a, a_zero), Centered(b, op.in(3)));
}

Outputs LowerConvInteger(Lowering& op) {
  const Val x = op.in(0), w = op.in(1);
  return ToChannelsFirst(
      Convolve(op, Centered(x, op.in(2)), Centered(w, OverOutputs(op.in(3), w.rank()))));
}

// Inputs: a, its scale and zero point, b, its scale and zero point, scale and zero point of y.
Outputs LowerQLinearMatMul(Lowering& op) {
  const Val a = op.in(0), b = op.in(3);
  const bool matrix = a.rank() > 1;
  const Val a_scale = matrix ? Rows(op.in(1)) : op.in(1);
  const Val a_zero = matrix ? Rows(op.in(2)) : op.in(2);
  const Val product = MultiplyMatrices(Centered(a, a_zero), Centered(b, op.in(5)));
  const Val scale = Widen(a_scale) * Widen(op.in(4));
  const Val real = CastLike(product, scale) * scale;
  return ToQuantized(real / Widen(op.in(6)), op.in(7), op.in(7).dtype());
}

// Inputs: x, its scale and zero point, w, its scales and zero points, scale and zero point of y,
// bias in int32 with scale x_scale * w_scale.
Outputs LowerQLinearConv(Lowering& op) {
  const Val x = op.in(0), w = op.in(3);
  Val product = Convolve(op, Centered(x, op.in(2)), Centered(w, OverOutputs(op.in(5), w.rank())));
  if (op.has(8)) product = product + op.in(8);
  const Val factor = op.in(1) * op.in(4) / op.in(6);  // [] or [output channels]: the last axis
  const Val real = CastLike(product, factor) * factor;
  return ToChannelsFirst(ToQuantized(real, op.in(7), op.in(7).dtype()));
}

}  // namespace sardonyx::ops
