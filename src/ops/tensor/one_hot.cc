#include "ops/lowering.h"

namespace sardonyx::ops {

Outputs LowerOneHot(Lowering& op) {
  const Val indices = Cast(op.in(0), DType::kInt64), depth = Cast(op.in(1), DType::kInt64);
  return op.builder().Make(core::one_hot, {indices, depth, op.in(2)},
                           {{"axis", op.Int("axis", -1)}});
}

Outputs LowerEyeLike(Lowering& op) {
  const DType type = op.DTypeAttribute("dtype", op.in(0).dtype());
  return op.builder().Make(core::eye_like, {op.in(0)},
                           {{"dtype", static_cast<int64_t>(type)}, {"k", op.Int("k")}});
}

}  // namespace sardonyx::ops
