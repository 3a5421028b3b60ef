#include "ops/lowering.h"

namespace sardonyx::ops {

Outputs LowerExpand(Lowering& op) { return Expand(op.in(0), op.in(1)); }

Outputs LowerTile(Lowering& op) { return op.builder().Make(core::tile, {op.in(0), op.in(1)}); }

// Tile-1 repeats along one axis.
void AdaptTile(Lowering& op) {
  if (op.version() >= 6) return;
  std::vector<int64_t> repeats(op.in(0).rank(), 1);
  const auto tiles = Cast(op.in(1), DType::kInt64).ints();
  const auto axis = Cast(op.in(2), DType::kInt64).ints();
  if (tiles.size() != 1 || axis.size() != 1) op.Fail("tiles and axis are not one number each");
  repeats[op.in(0).Axis(axis[0])] = tiles[0];
  op.inputs = {op.in(0), op.builder().Ints(repeats)};
}

}  // namespace sardonyx::ops
