#include "ops/lowering.h"

namespace sardonyx::ops {

// Blocks of pixels to channels and back. Mode DCR has the block before the depth, CRD after it.

namespace {

bool DepthFirst(const Lowering& op) {
  const std::string mode = op.String("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") op.Fail("attribute mode is '{}', not DCR or CRD", mode);
  return mode == "CRD";
}

int64_t BlockSize(const Lowering& op) {
  constexpr int64_t kMost = int64_t{1} << 31;  // its square is a number still
  const int64_t size = op.Int("blocksize");
  if (size < 1 || size > kMost) op.Fail("attribute blocksize is {}", size);
  return size;
}

}  // namespace

Outputs LowerDepthToSpace(Lowering& op) {
  const Val x = op.in(0);
  const int64_t size = BlockSize(op);
  const bool depth_first = DepthFirst(op);
  const Val block = op.builder().Ints({size, size});
  const Val batch = SizeOf(x, 0), image = ShapeOf(x, 2, 4);
  const Val depth = SizeOf(x, 1) / static_cast<double>(size * size);
  const Val apart = depth_first ? Concat({batch, depth, block, image}, 0)
                                : Concat({batch, block, depth, image}, 0);
  const Val parts = Reshape(x, apart, true);
  const Val mixed =
      depth_first ? Transpose(parts, {0, 1, 4, 2, 5, 3}) : Transpose(parts, {0, 3, 4, 1, 5, 2});
  return Reshape(mixed, Concat({batch, depth, image * static_cast<double>(size)}, 0), true);
}

Outputs LowerSpaceToDepth(Lowering& op) {
  const Val x = op.in(0);
  const int64_t size = BlockSize(op);
  const bool depth_first = DepthFirst(op);
  const Val block = op.builder().Ints({size});
  const Val batch = SizeOf(x, 0), depth = SizeOf(x, 1);
  const Val height = SizeOf(x, 2) / static_cast<double>(size);
  const Val width = SizeOf(x, 3) / static_cast<double>(size);
  const Val parts = Reshape(x, Concat({batch, depth, height, block, width, block}, 0), true);
  const Val mixed =
      depth_first ? Transpose(parts, {0, 1, 3, 5, 2, 4}) : Transpose(parts, {0, 3, 5, 1, 2, 4});
  const Val deeper = depth * static_cast<double>(size * size);
  return Reshape(mixed, Concat({batch, deeper, height, width}, 0), true);
}

}  // namespace sardonyx::ops
