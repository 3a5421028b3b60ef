#include "ops/lowering.h"

namespace sardonyx::ops {

// A vector operand is a row on the left, a column on the right, and leaves no axis behind.
Outputs LowerMatMul(Lowering& op) {
  Val a = op.in(0), b = op.in(1);
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if (a.rank() == 0 || b.rank() == 0)
    op.Fail("{} is a scalar, which MatMul does not take", a.rank() == 0 ? "A" : "B");
  if (row) a = Unsqueeze(a, {0});
  if (column) b = Unsqueeze(b, {1});
  Val y = MatMul(a, b);
  if (column) y = Squeeze(y, {-1});
  if (row) y = Squeeze(y, {column ? -1 : -2});
  return y;
}

}  // namespace sardonyx::ops
