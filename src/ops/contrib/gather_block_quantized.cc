#include "ops/lowering.h"
#include "ops/nn/quantization.h"

namespace sardonyx::ops::contrib {

namespace {

// Single slices out of blocks: each has a scale of its own.
Val AlongBlocks(Lowering& op, int axis, int64_t block, bool packed) {
  if (packed) op.Fail("packed data has both gather_axis and quantize_axis {}", axis);
  const Val data = op.in(0), scales = op.in(2), indices = Cast(op.in(1), DType::kInt64);
  const Val from_start = Where(Less(indices, op.builder().Scalar(DType::kInt64, 0)),
                               indices + SizeOf(data, axis), indices);
  const Val blocks =
      Div(from_start, op.builder().Scalar(DType::kInt64, static_cast<double>(block)));
  const Val zero_point = op.has(3) ? Gather(op.in(3), blocks, axis) : Val{};
  const Val y =
      Dequantized(Gather(data, from_start, axis), Gather(scales, blocks, axis), zero_point);
  return Cast(y, scales.dtype());
}

}  // namespace

// Narrow codes as bytes, for kernels do not spread them over blocks as they are.
Val AsBytes(Val codes) {
  switch (codes.dtype()) {
    case DType::kUInt4:
    case DType::kUInt2: return Cast(codes, DType::kUInt8);
    case DType::kInt4:
    case DType::kInt2: return Cast(codes, DType::kInt8);
    default: return codes;
  }
}

// Inputs: data in blocks along quantize_axis, indices, scales, zero points. Slices are gathered
// first, so that only they are dequantised. Data in uint8 is packed along the last axis.
Outputs LowerGatherBlockQuantized(Lowering& op) {
  const Val scales = op.in(2);
  const bool packed = op.in(0).dtype() == DType::kUInt8;
  const int64_t bits = packed ? op.Int("bits", 4) : 8, block = op.Int("block_size", 128);
  if (bits != 2 && bits != 4 && bits != 8) op.Fail("attribute bits is {}, not 2, 4 or 8", bits);
  if (block < 16 || (block & (block - 1)) != 0)
    op.Fail("attribute block_size is {}, not a power of two from 16 on", block);
  const int gather_axis = op.in(0).Axis(op.Int("gather_axis", 0));
  int axis = op.in(0).Axis(op.Int("quantize_axis", 1));
  if (packed && (bits < 8) && axis != op.in(0).rank() - 1) {
    op.Fail("packed data is quantised along its last axis, not along {}", axis);
  }
  if (gather_axis == axis) return {AlongBlocks(op, axis, block, packed)};
  const auto gathered = [&](Val from) { return Gather(from, op.in(1), gather_axis); };
  const Val data = UnpackCodes(AsBytes(gathered(op.in(0))), bits), scale = gathered(scales);
  if (axis > gather_axis) axis += op.in(1).rank() - 1;
  const Granularity blocks(op, data, axis, block);
  // One block is all there is, however large it may be.
  const auto spread = [&](Val parameter) {
    return parameter.shape()[axis] == Dim(1) ? parameter : blocks.Spread(parameter);
  };
  Val zero_point;
  if (op.has(3)) {
    Builder& b = op.builder();
    // The last byte may have room for more than there are.
    zero_point = UnpackCodes(gathered(AsBytes(op.in(3))), bits);
    zero_point =
        b.Make(core::slice, {zero_point, b.Ints({0}), SizeOf(scale, axis), b.Ints({axis})});
    zero_point = spread(zero_point);
  } else if (packed) {
    zero_point = op.builder().Scalar(DType::kUInt8, static_cast<double>(int64_t{1} << (bits - 1)));
  }
  return Cast(Dequantized(data, spread(scale), zero_point), scales.dtype());
}

}  // namespace sardonyx::ops::contrib
