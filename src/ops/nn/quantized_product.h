#pragma once
// Products of quantised operands. Those of integers are exact in int32; padding has the value of
// the zero point.

#include "ops/lowering.h"
#include "ops/nn/quantization.h"

namespace sardonyx::ops {

// An operand and its zero point, which may be absent and broadcasts to it.
struct Quantized {
  Val x, zero_point;
};
// The product of two matrices, or stacks of them, less their zero points.
Val MultiplyQuantized(Quantized a, Quantized b, bool transpose_a = false, bool transpose_b = false);
// As ONNX MatMul: vectors are a row on the left, a column on the right.
Val MultiplyMatrices(Quantized a, Quantized b);
// A vector of parameters of the left operand a belongs to its rows.
Val OfRows(Val parameter, Val a);
// A product as real numbers times a factor.
Val Scaled(Val product, Val factor);
// QLinearConv, with x and y channels first or channels last.
Val QuantizedConvolution(Lowering& op, bool channels_last);

}  // namespace sardonyx::ops
