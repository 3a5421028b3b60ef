#include "ops/lowering.h"

namespace sardonyx::ops {

namespace {

// Opsets 1 to 6 broadcast only where the attribute `broadcast` says so: the shape of B is a
// contiguous part of A's that starts at `axis`, or ends where A's ends if there is no axis.
void AdaptBroadcast(Lowering& op) {
  if (!op.HasAttribute("axis")) return;
  if (op.Int("broadcast") != 0) {
    const Val a = op.in(0), b = op.in(1);
    std::vector<int64_t> trailing;
    for (int axis = a.Axis(op.Int("axis")) + b.rank(); axis < a.rank(); ++axis) {
      trailing.push_back(b.rank() + static_cast<int64_t>(trailing.size()));
    }
    op.SetInput(1, Unsqueeze(b, trailing));
  }
  op.attributes.Erase("axis");
}

}  // namespace

#define SARDONYX_BINARY_OP(name, function) \
  Outputs Lower##name(Lowering& op) { return function(op.in(0), op.in(1)); }
// Those that stood in opset 1.
#define SARDONYX_OLD_BINARY_OP(name, function) \
  SARDONYX_BINARY_OP(name, function)           \
  void Adapt##name(Lowering& op) { AdaptBroadcast(op); }

SARDONYX_OLD_BINARY_OP(Add, Add)
SARDONYX_OLD_BINARY_OP(And, And)
SARDONYX_OLD_BINARY_OP(Div, Div)
SARDONYX_OLD_BINARY_OP(Equal, Equal)
SARDONYX_OLD_BINARY_OP(Greater, Greater)
SARDONYX_OLD_BINARY_OP(Less, Less)
SARDONYX_OLD_BINARY_OP(Mul, Mul)
SARDONYX_OLD_BINARY_OP(Or, Or)
SARDONYX_OLD_BINARY_OP(Sub, Sub)
SARDONYX_OLD_BINARY_OP(Xor, Xor)
SARDONYX_BINARY_OP(BitwiseAnd, BitAnd)
SARDONYX_BINARY_OP(BitwiseOr, BitOr)
SARDONYX_BINARY_OP(BitwiseXor, BitXor)
SARDONYX_BINARY_OP(GreaterOrEqual, GreaterEqual)
SARDONYX_BINARY_OP(LessOrEqual, LessEqual)

#undef SARDONYX_OLD_BINARY_OP
#undef SARDONYX_BINARY_OP

// The result has the type of the base. A fractional power of integers is taken in double.
Outputs LowerPow(Lowering& op) {
  const Val x = op.in(0), y = op.in(1);
  if (x.dtype() == y.dtype() || (IsInteger(x.dtype()) && IsInteger(y.dtype()))) {
    return Pow(x, CastLike(y, x));
  }
  // An exponent rounded to a narrower type would miss by far.
  const bool is_half = BitWidth(x.dtype()) == 16 && IsFloat(x.dtype());
  const DType wide = is_half && y.dtype() == DType::kFloat32 ? y.dtype() : DType::kFloat64;
  return CastLike(Pow(Cast(x, wide), Cast(y, wide)), x);
}

void AdaptPow(Lowering& op) { AdaptBroadcast(op); }

Outputs LowerMod(Lowering& op) {
  const Val a = op.in(0), b = op.in(1);
  return op.Int("fmod") != 0 ? FMod(a, b) : Mod(a, b);
}

Outputs LowerBitShift(Lowering& op) {
  const Val x = op.in(0), y = op.in(1);
  const std::string direction = op.String("direction");
  if (direction == "LEFT") return ShiftLeft(x, y);
  if (direction == "RIGHT") {
    if (!IsSigned(x.dtype())) return ShiftRight(x, y);
    // A shift by too much, or by a negative number, leaves nothing but the sign.
    const double all = BitWidth(x.dtype()) - 1;
    return ShiftRight(x, Where(Less(y, 0.0), op.builder().Scalar(y.dtype(), all), Min(y, all)));
  }
  op.Fail("attribute direction is '{}', not LEFT or RIGHT", direction);
}

}  // namespace sardonyx::ops
