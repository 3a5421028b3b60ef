#pragma once
// What quantising operators have in common.

#include "ops/lowering.h"

namespace sardonyx::ops {

// Which elements of x share a scale and a zero point: all, those of a slice along `axis`, or blocks
// of `block_size` along it.
class Granularity {
 public:
  Granularity(const Lowering& op, Val x)
      : Granularity(op, x, op.Int("axis", 1), op.Int("block_size")) {}
  Granularity(const Lowering& op, Val x, int64_t axis, int64_t block)
      : op_(op), x_(x), axis_(axis), block_(block) {}
  // A scale or zero point in a shape that broadcasts to x; checks that it has the sizes it needs.
  Val Spread(Val parameter) const;

 private:
  Val SpreadBlocks(Val parameter) const;

  const Lowering& op_;
  Val x_;
  int64_t axis_;
  int64_t block_;
};

// Rounds to the nearest even, adds the zero point (in the shape that broadcasts, or absent) and
// clips to the range of an integer type of at most 16 bits. Small floats: adds, then casts.
Val ToQuantized(Val scaled, Val zero_point, DType type, bool saturate = true);
// x less its zero point (absent: 0), exact: integers in int32, small floats in float32.
Val Centered(Val x, Val zero_point);
// The real numbers that x stands for, in float32; parameters in shapes that broadcast.
Val Dequantized(Val x, Val scale, Val zero_point);

// Bytes [..., n] that hold numbers of 2 or 4 bits, low bits first, as numbers [..., n * 8 / bits];
// those of 8 bits as they are.
Val UnpackCodes(Val bytes, int64_t bits);

// float32 as uint8 with the scale and zero point that its own range asks for, scalars both.
struct DynamicallyQuantized {
  Val y, scale, zero_point;
};
DynamicallyQuantized QuantizeDynamically(Val x);

}  // namespace sardonyx::ops
