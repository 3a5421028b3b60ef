#include "ops/lowering.h"

namespace sardonyx::ops {

Outputs LowerIsInf(Lowering& op) {
  const Val x = BitWidth(op.in(0).dtype()) == 8 ? Cast(op.in(0), DType::kFloat32) : op.in(0);
  const bool positive = op.Int("detect_positive", 1) != 0;
  const bool negative = op.Int("detect_negative", 1) != 0;
  if (positive && negative) return IsInf(x);
  if (positive) return And(IsInf(x), Greater(x, 0.0));
  if (negative) return And(IsInf(x), Less(x, 0.0));
  return Filled(ShapeOf(x), MakeFilled(DType::kBool, {1}, 0));
}

}  // namespace sardonyx::ops
