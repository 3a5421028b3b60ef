#include "ops/lowering.h"

namespace sardonyx::ops {

Outputs LowerGather(Lowering& op) { return Gather(op.in(0), op.in(1), op.Int("axis")); }

Outputs LowerGatherElements(Lowering& op) {
  return op.builder().Make(core::gather_elements, {op.in(0), op.in(1)}, {{"axis", op.Int("axis")}});
}

Outputs LowerGatherND(Lowering& op) {
  return op.builder().Make(core::gather_nd, {op.in(0), op.in(1)},
                           {{"batch_dims", op.Int("batch_dims")}});
}

}  // namespace sardonyx::ops
