#include "ops/lowering.h"

namespace sardonyx::ops {

namespace {

Attributes Reduction(const Lowering& op) { return {{"reduction", op.String("reduction", "none")}}; }

}  // namespace

Outputs LowerScatterElements(Lowering& op) {
  Attributes attributes = Reduction(op);
  attributes.Set("axis", op.Int("axis"));
  return op.builder().Make(core::scatter_elements, {op.in(0), op.in(1), op.in(2)}, attributes);
}

// The name of ScatterElements until opset 10.
Outputs LowerScatter(Lowering& op) { return LowerScatterElements(op); }

Outputs LowerScatterND(Lowering& op) {
  return op.builder().Make(core::scatter_nd, {op.in(0), op.in(1), op.in(2)}, Reduction(op));
}

// Writes `update` into a cache, for each batch element from a position of its own on.
Outputs LowerTensorScatter(Lowering& op) {
  const int64_t circular = op.String("mode", "linear") == "circular" ? 1 : 0;
  return op.builder().Make(core::write_rows, {op.in(0), op.in(1), op.in(2)},
                           {{"axis", op.Int("axis", -2)}, {"circular", circular}});
}

}  // namespace sardonyx::ops
