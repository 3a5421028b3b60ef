#include "ops/contrib/shapes.h"

namespace sardonyx::ops::contrib {

// Both factors of the result have the type of X.
Outputs LowerScaledSiLU(Lowering& op) {
  const Val x = op.in(0), wide = Widen(x);
  Val scaled;
  if (op.has(1)) {
    const Val scale = op.in(1);
    for (const Dim dim : scale.shape()) {
      if (dim.known() && !(dim == 1)) {
        op.Fail("scale is {}, expected one number", Print(op, scale.shape()));
      }
    }
    scaled = wide * Reshape(Widen(scale), std::vector<int64_t>{});
  } else {
    scaled = wide * op.Float("alpha", 1);
  }
  const Val z = CastLike(scaled, x);
  return z * Sigmoid(z);
}

}  // namespace sardonyx::ops::contrib
