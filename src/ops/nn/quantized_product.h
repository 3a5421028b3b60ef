#pragma once
// Products of quantised operands. Those of integers are exact in int32; zero points are subtracted
// before, so that padding with zeros pads with the zero point.

#include "ops/lowering.h"
#include "ops/nn/quantization.h"

namespace sardonyx::ops {

// As ONNX MatMul: vectors are a row on the left, a column on the right.
Val MultiplyMatrices(Val a, Val b);
// A vector of parameters of the left operand a belongs to its rows.
Val OfRows(Val parameter, Val a);
// A product as real numbers times a factor.
Val Scaled(Val product, Val factor);
// QLinearConv, with x and y channels first or channels last.
Val QuantizedConvolution(Lowering& op, bool channels_last);

}  // namespace sardonyx::ops
