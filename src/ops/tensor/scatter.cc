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

// Writes `update` into a cache, for each batch element from a position of its own on: rows of all
// axes behind `axis`, those before it walked as one.
Outputs LowerTensorScatter(Lowering& op) {
  const Val cache = op.in(0), update = op.in(1);
  const int axis = cache.Axis(op.Int("axis", -2)), rank = cache.rank();
  Val positions = AlongAxis(Positions(SizeOf(update, axis)), axis + 1, axis);
  if (op.has(2)) positions = positions + AlongAxis(op.in(2), axis + 1, 0);
  if (op.String("mode", "linear") == "circular") {
    positions = Mod(positions, Reshape(SizeOf(cache, axis), std::vector<int64_t>{}));
  }
  const Val lines = Reduce("prod", ShapeOf(cache, 0, axis), {0}, true);
  const Val shape = Concat({lines, SizeOf(update, axis)}, 0);
  const Val line = Expand(Unsqueeze(Positions(lines), {1}), shape);
  const Val position = Reshape(Expand(positions, ShapeOf(update, 0, axis + 1)), shape, true);
  const Val indices = Concat({Unsqueeze(line, {2}), Unsqueeze(position, {2})}, 2);
  const auto flat = [&](Val x) {
    return Reshape(x, Concat({lines, ShapeOf(x, axis, rank)}, 0), true);
  };
  const Val result = op.builder().Make(core::scatter_nd, {flat(cache), indices, flat(update)},
                                       {{"reduction", std::string("none")}});
  return Reshape(result, ShapeOf(cache), true);
}

}  // namespace sardonyx::ops
