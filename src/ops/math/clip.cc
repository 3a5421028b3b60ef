#include "ops/lowering.h"

namespace sardonyx::ops {

namespace {

// Some models give bounds of shape [1] instead of scalars.
Val Bound(Val bound) { return bound.rank() == 0 ? bound : Reshape(bound, std::vector<int64_t>{}); }

}  // namespace

// Where min > max, every element becomes max.
Outputs LowerClip(Lowering& op) {
  Val x = op.in(0);
  if (op.has(1)) x = Max(x, Bound(op.in(1)));
  if (op.has(2)) x = Min(x, Bound(op.in(2)));
  return x;
}

void AdaptClip(Lowering& op) {
  if (op.version() >= 11) return;
  const DType type = op.in(0).dtype();
  if (op.HasAttribute("min")) op.SetInput(1, op.builder().Scalar(type, op.Float("min")));
  if (op.HasAttribute("max")) op.SetInput(2, op.builder().Scalar(type, op.Float("max")));
}

}  // namespace sardonyx::ops
