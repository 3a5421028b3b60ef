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
  const Val cache = op.in(0), update = op.in(1);
  const int axis = cache.Axis(op.Int("axis", -2)), rank = cache.rank();
  Val positions = AlongAxis(Positions(SizeOf(update, axis)), rank, axis);
  if (op.has(2)) positions = positions + AlongAxis(op.in(2), rank, 0);
  if (op.String("mode", "linear") == "circular") {
    positions = Mod(positions, Reshape(SizeOf(cache, axis), std::vector<int64_t>{}));
  }
  return ScatterElements(cache, Expand(positions, ShapeOf(update)), update, axis);
}

}  // namespace sardonyx::ops
