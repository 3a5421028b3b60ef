#include "ops/contrib/shapes.h"

namespace sardonyx::ops::contrib {

// The inputs `decay` and `beta` of LinearAttention, computed in float32.
Outputs LowerLinearAttentionGate(Lowering& op) {
  const Val a = op.in(0), bias = op.in(1), scale = op.in(2);
  if (a.rank() < 1) op.Fail("a is a scalar");
  const Dims heads{a.shape().back()};
  ExpectShape(op, bias, "dt_bias", heads);
  ExpectShape(op, scale, "decay_scale", heads);
  if (op.wants(1) && !op.has(3)) op.Fail("the output beta needs the input b");
  const Val decay = CastLike(Softplus(Widen(a) + bias) * scale, a);
  if (!op.has(3)) return decay;
  ExpectShape(op, op.in(3), "b", a.shape());
  return {decay, CastLike(Sigmoid(Widen(op.in(3))), a)};
}

}  // namespace sardonyx::ops::contrib
