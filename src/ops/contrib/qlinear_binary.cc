#include "ops/lowering.h"
#include "ops/nn/quantization.h"

namespace sardonyx::ops::contrib {

// Inputs: a, its scale and zero point, b, its scale and zero point, scale and zero point of the
// result. Zero points may be absent.

Outputs LowerQLinearAdd(Lowering& op) {
  const Val sum =
      Dequantized(op.in(0), op.in(1), op.in(2)) + Dequantized(op.in(3), op.in(4), op.in(5));
  return ToQuantized(sum / op.in(6), op.in(7), op.in(0).dtype());
}

Outputs LowerQLinearMul(Lowering& op) {
  const Val product = Centered(op.in(0), op.in(2)) * Centered(op.in(3), op.in(5));
  const Val factor = op.in(1) * op.in(4) / op.in(6);
  return ToQuantized(Cast(product, DType::kFloat32) * factor, op.in(7), op.in(0).dtype());
}

// Inputs: condition, x, its scale and zero point, y, its scale and zero point, scale and zero point
// of the result.
Outputs LowerQLinearWhere(Lowering& op) {
  const Val chosen = Where(op.in(0), Dequantized(op.in(1), op.in(2), op.in(3)),
                           Dequantized(op.in(4), op.in(5), op.in(6)));
  return ToQuantized(chosen / op.in(7), op.in(8), op.in(1).dtype());
}

}  // namespace sardonyx::ops::contrib
