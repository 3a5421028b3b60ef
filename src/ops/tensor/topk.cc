#include "ops/lowering.h"

namespace sardonyx::ops {

Outputs LowerTopK(Lowering& op) {
  return op.builder().MakeMany(core::topk, {op.in(0), op.in(1)},
                               {{"axis", op.Int("axis", -1)}, {"largest", op.Int("largest", 1)}},
                               2);
}

// TopK-1 has k as an attribute.
void AdaptTopK(Lowering& op) {
  if (op.version() < 10) op.SetInput(1, op.builder().Ints({op.Int("k")}));
}

}  // namespace sardonyx::ops
