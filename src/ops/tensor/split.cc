#include "ops/lowering.h"

namespace sardonyx::ops {

Outputs LowerSplit(Lowering& op) {
  return op.builder().MakeMany(core::split, {op.in(0), op.in(1)}, {{"axis", op.Int("axis")}},
                               static_cast<int>(op.output_count()));
}

void AdaptSplit(Lowering& op) {
  if (op.version() < 13) op.AttributeToInput("split", 1);
}

}  // namespace sardonyx::ops
