#include "ops/lowering.h"

namespace sardonyx::ops {

Outputs LowerIdentity(Lowering& op) { return op.in(0); }

Outputs LowerShape(Lowering& op) {
  Attributes range;
  if (op.HasAttribute("start")) range.Set("start", op.Int("start"));
  if (op.HasAttribute("end")) range.Set("end", op.Int("end"));
  return op.builder().Make(core::shape, {op.in(0)}, range);
}

Outputs LowerSize(Lowering& op) { return op.builder().Make(core::size, {op.in(0)}); }

}  // namespace sardonyx::ops
