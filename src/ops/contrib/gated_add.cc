#include "ops/contrib/shapes.h"

namespace sardonyx::ops::contrib {

Outputs LowerGatedAdd(Lowering& op) {
  const Val x = op.in(0), y = op.in(1), gate = op.in(2);
  if (x.rank() < 1) op.Fail("X is a scalar");
  ExpectShape(op, y, "Y", x.shape());
  Dims one = x.shape();
  one.back() = 1;
  ExpectShape(op, gate, "gate", one);
  // A gate for each feature would broadcast as well.
  if (gate.size(-1) != 1) op.Fail("gate has {} numbers a row, not 1", gate.size(-1));
  return x + y * gate;
}

}  // namespace sardonyx::ops::contrib
