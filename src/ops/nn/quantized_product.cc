#include "ops/nn/quantized_product.h"

#include "ops/nn/window.h"

namespace sardonyx::ops {

namespace {

// A vector [output channels] against weights [output channels, ...].
Val OfOutputs(Val vector, int rank) {
  return vector && vector.rank() == 1 ? AlongAxis(vector, rank, 0) : vector;
}

bool IsByte(Val x) { return sardonyx::IsByte(x.dtype()); }

// Product of x and w, x and the result channels-last.
Val Convolve(Lowering& op, Quantized x, Quantized w) {
  Attributes attributes = Window(op, x.x.rank() - 2, op.Ints("kernel_shape"));
  attributes.Set("group", op.Int("group", 1));
  return op.builder().Make(core::integer_conv, {x.x, w.x, x.zero_point, w.zero_point}, attributes);
}

}  // namespace

Val MultiplyQuantized(Quantized a, Quantized b, bool transpose_a, bool transpose_b) {
  if (!IsByte(a.x) || !IsByte(b.x)) {
    return MatMul(Centered(a.x, a.zero_point), Centered(b.x, b.zero_point), transpose_a,
                  transpose_b);
  }
  Attributes attributes;
  if (transpose_a) attributes.Set("trans_a", int64_t{1});
  if (transpose_b) attributes.Set("trans_b", int64_t{1});
  return a.x.builder->Make(core::integer_matmul, {a.x, b.x, a.zero_point, b.zero_point},
                           attributes);
}

Val MultiplyMatrices(Quantized a, Quantized b) {
  const bool row = a.x.rank() == 1, column = b.x.rank() == 1;
  if (row) a.x = Unsqueeze(a.x, {0});
  if (column) {
    b.x = Unsqueeze(b.x, {1});
    if (b.zero_point && b.zero_point.rank() == 1) b.zero_point = Unsqueeze(b.zero_point, {1});
  }
  Val y = MultiplyQuantized(a, b);
  if (column) y = Squeeze(y, {-1});
  return row ? Squeeze(y, {column ? -1 : -2}) : y;
}

Val OfRows(Val parameter, Val a) {
  return parameter && a.rank() > 1 && parameter.rank() == 1 ? Unsqueeze(parameter, {1}) : parameter;
}

Val Scaled(Val product, Val factor) { return CastLike(product, factor) * factor; }

Outputs LowerMatMulInteger(Lowering& op) {
  const Val a = op.in(0), b = op.in(1);
  return MultiplyMatrices({a, OfRows(op.in(2), a)}, {b, op.in(3)});
}

Outputs LowerConvInteger(Lowering& op) {
  const Val x = ToChannelsLast(op.in(0)), w = op.in(1);
  return ToChannelsFirst(Convolve(op, {x, op.in(2)}, {w, OfOutputs(op.in(3), w.rank())}));
}

// Inputs: a, its scale and zero point, b, its scale and zero point, scale and zero point of y.
Outputs LowerQLinearMatMul(Lowering& op) {
  const Val a = op.in(0), b = op.in(3), zero_point = op.in(7);
  const Val product = MultiplyMatrices({a, OfRows(op.in(2), a)}, {b, op.in(5)});
  const Val factor = Widen(OfRows(op.in(1), a)) * Widen(op.in(4)) / Widen(OfRows(op.in(6), a));
  return ToQuantized(Scaled(product, factor), OfRows(zero_point, a), zero_point.dtype());
}

// Inputs: x, its scale and zero point, w, its scales and zero points, scale and zero point of y,
// bias in int32 with scale x_scale * w_scale.
Val QuantizedConvolution(Lowering& op, bool channels_last) {
  const Val x = channels_last ? op.in(0) : ToChannelsLast(op.in(0)), w = op.in(3);
  Val product = Convolve(op, {x, op.in(2)}, {w, OfOutputs(op.in(5), w.rank())});
  if (op.has(8)) product = product + op.in(8);
  const Val factor = op.in(1) * op.in(4) / op.in(6);  // [] or [output channels]: the last axis
  const Val y = ToQuantized(Scaled(product, factor), op.in(7), op.in(7).dtype());
  return channels_last ? y : ToChannelsFirst(y);
}

Outputs LowerQLinearConv(Lowering& op) { return QuantizedConvolution(op, false); }

}  // namespace sardonyx::ops
