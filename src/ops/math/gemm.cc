#include "ops/lowering.h"

namespace sardonyx::ops {

// Y = alpha * A' * B' + beta * C
Outputs LowerGemm(Lowering& op) {
  Val y = MatMul(op.in(0), op.in(1), op.Int("transA") != 0, op.Int("transB") != 0);
  const double alpha = op.Float("alpha", 1), beta = op.Float("beta", 1);
  if (alpha != 1) y = y * alpha;
  if (!op.has(2) || beta == 0) return y;
  return y + (beta == 1 ? op.in(2) : op.in(2) * beta);
}

}  // namespace sardonyx::ops
