#include "ops/lowering.h"

namespace sardonyx::ops {

#define SARDONYX_UNARY_OP(name, function) \
  Outputs Lower##name(Lowering& op) { return function(op.in(0)); }

SARDONYX_UNARY_OP(Abs, Abs)
SARDONYX_UNARY_OP(Acos, Acos)
SARDONYX_UNARY_OP(Acosh, Acosh)
SARDONYX_UNARY_OP(Asin, Asin)
SARDONYX_UNARY_OP(Asinh, Asinh)
SARDONYX_UNARY_OP(Atan, Atan)
SARDONYX_UNARY_OP(Atanh, Atanh)
SARDONYX_UNARY_OP(BitwiseNot, BitNot)
SARDONYX_UNARY_OP(Ceil, Ceil)
SARDONYX_UNARY_OP(Cos, Cos)
SARDONYX_UNARY_OP(Cosh, Cosh)
SARDONYX_UNARY_OP(Exp, Exp)
SARDONYX_UNARY_OP(Floor, Floor)
SARDONYX_UNARY_OP(IsNaN, IsNaN)
SARDONYX_UNARY_OP(Log, Log)
SARDONYX_UNARY_OP(Neg, Neg)
SARDONYX_UNARY_OP(Not, Not)
SARDONYX_UNARY_OP(Reciprocal, Reciprocal)
SARDONYX_UNARY_OP(Relu, Relu)
SARDONYX_UNARY_OP(Round, Round)
SARDONYX_UNARY_OP(Sigmoid, Sigmoid)
SARDONYX_UNARY_OP(Sign, Sign)
SARDONYX_UNARY_OP(Sin, Sin)
SARDONYX_UNARY_OP(Sinh, Sinh)
SARDONYX_UNARY_OP(Softplus, Softplus)
SARDONYX_UNARY_OP(Sqrt, Sqrt)
SARDONYX_UNARY_OP(Tan, Tan)
SARDONYX_UNARY_OP(Tanh, Tanh)

#undef SARDONYX_UNARY_OP

// The schema allows integers: float32, as the reference evaluator has it, cut to an integer.
Outputs LowerErf(Lowering& op) {
  const Val x = op.in(0);
  return IsInteger(x.dtype()) ? CastLike(Erf(Cast(x, DType::kFloat32)), x) : Erf(x);
}

}  // namespace sardonyx::ops
