#include "ops/lowering.h"

namespace sardonyx::ops {

Outputs LowerSplit(Lowering& op) {
  return op.builder().MakeMany(core::split, {op.in(0), op.in(1)}, {{"axis", op.Int("axis")}},
                               static_cast<int>(op.output_count()));
}

void AdaptSplit(Lowering& op) {
  if (op.version() < 13 && !op.has(1)) op.AttributeToInput("split", 1);
  // Split-1 takes the sizes as numbers of the input's type, too.
  if (op.has(1)) op.SetInput(1, Cast(op.in(1), DType::kInt64));
}

}  // namespace sardonyx::ops
