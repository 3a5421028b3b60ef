#include "ops/lowering.h"
#include "ops/nn/quantization.h"

namespace sardonyx::ops::contrib {

// Inputs: a, its scale and zero point, b, its scale and zero point, scale and zero point of the
// result. Zero points may be absent.

// Scales by quotients: one multiplication an operand, as ONNX Runtime does it.
Outputs LowerQLinearAdd(Lowering& op) {
  const Val scale = op.in(6);
  const Val sum = Dequantized(op.in(0), op.in(1) / scale, op.in(2)) +
                  Dequantized(op.in(3), op.in(4) / scale, op.in(5));
  return ToQuantized(sum, op.in(7), op.in(0).dtype());
}

// Products of bytes are exact in float32.
Outputs LowerQLinearMul(Lowering& op) {
  const auto real = [&op](size_t x, size_t zero) {
    return Cast(Centered(op.in(x), op.in(zero)), DType::kFloat32);
  };
  const Val factor = op.in(1) * op.in(4) / op.in(6);
  return ToQuantized(real(0, 2) * real(3, 5) * factor, op.in(7), op.in(0).dtype());
}

// Inputs: condition, x, its scale and zero point, y, its scale and zero point, scale and zero point
// of the result.
Outputs LowerQLinearWhere(Lowering& op) {
  const Val chosen = Where(op.in(0), Dequantized(op.in(1), op.in(2), op.in(3)),
                           Dequantized(op.in(4), op.in(5), op.in(6)));
  return ToQuantized(chosen / op.in(7), op.in(8), op.in(1).dtype());
}

}  // namespace sardonyx::ops::contrib
