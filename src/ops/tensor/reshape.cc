#include "ops/lowering.h"

namespace sardonyx::ops {

Outputs LowerReshape(Lowering& op) { return Reshape(op.in(0), op.in(1), op.Int("allowzero") != 0); }

void AdaptReshape(Lowering& op) { op.AttributeToInput("shape", 1); }

Outputs LowerFlatten(Lowering& op) { return Flatten(op.in(0), op.Int("axis", 1)); }

Outputs LowerSqueeze(Lowering& op) {
  if (!op.has(1)) return op.builder().Make(core::squeeze, {op.in(0)});
  return Squeeze(op.in(0), op.in(1).ints());
}

void AdaptSqueeze(Lowering& op) { op.AttributeToInput("axes", 1); }

Outputs LowerUnsqueeze(Lowering& op) { return Unsqueeze(op.in(0), op.in(1).ints()); }

void AdaptUnsqueeze(Lowering& op) { op.AttributeToInput("axes", 1); }

}  // namespace sardonyx::ops
