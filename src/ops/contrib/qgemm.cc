#include "ops/nn/quantized_product.h"

namespace sardonyx::ops::contrib {

// Inputs: a, its scale and zero point, b, its scales and zero points (one or one a column), c in
// int32 with scale alpha * a_scale * b_scale, scale and zero point of y. Without these y is float.
Outputs LowerQGemm(Lowering& op) {
  const bool transposed = op.Int("transB") != 0;
  Val b_zero = op.in(5);
  if (transposed && b_zero && b_zero.rank() == 1) b_zero = Unsqueeze(b_zero, {1});
  Val product = MultiplyQuantized({op.in(0), op.in(2)}, {op.in(3), b_zero}, op.Int("transA") != 0,
                                  transposed);
  if (op.has(6)) product = product + op.in(6);
  Val factor = op.in(1) * op.Float("alpha", 1) * op.in(4);
  if (op.has(7)) factor = factor / op.in(7);
  const Val real = Scaled(product, factor);
  return op.has(8) ? ToQuantized(real, op.in(8), op.in(8).dtype()) : real;
}

}  // namespace sardonyx::ops::contrib
