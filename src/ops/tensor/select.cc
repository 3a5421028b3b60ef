#include "ops/lowering.h"

namespace sardonyx::ops {

Outputs LowerNonZero(Lowering& op) { return op.builder().Make(core::nonzero, {op.in(0)}); }

Outputs LowerCompress(Lowering& op) {
  Attributes attributes;
  if (op.HasAttribute("axis")) attributes.Set("axis", op.Int("axis"));
  return op.builder().Make(core::compress, {op.in(0), op.in(1)}, attributes);
}

}  // namespace sardonyx::ops
