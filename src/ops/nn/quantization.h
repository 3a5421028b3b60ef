#pragma once
// What quantising operators have in common.

#include "ops/lowering.h"

namespace sardonyx::ops {

// Which elements of x share a scale and a zero point: all, those of a slice along `axis`, or blocks
// of `block_size` along it.
class Granularity {
 public:
  Granularity(const Lowering& op, Val x);
  // A scale or zero point in a shape that broadcasts to x.
  Val Spread(Val parameter) const;

 private:
  Val x_;
  int64_t axis_;
  int64_t block_;
};

// Rounds to the nearest even, adds the zero point (in the shape that broadcasts, or absent) and
// clips to the range of an integer type of at most 16 bits.
Val ToQuantized(Val scaled, Val zero_point, DType type);

}  // namespace sardonyx::ops
