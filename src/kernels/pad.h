#pragma once
// Padding of any mode, told by where the positions of each axis read.

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/strided_copy.h"

namespace sardonyx {

// Where the positions of an axis of the output read; -1: the value. Those between `before` and
// `after` are `count` positions of the input from `first` on.
struct PadAxis {
  std::vector<int64_t> before, after;
  int64_t first = 0, count = 0;

  int64_t size() const { return static_cast<int64_t>(before.size() + after.size()) + count; }
  int64_t At(int64_t i) const {
    const int64_t inside = i - static_cast<int64_t>(before.size());
    return inside < 0 ? before[i] : inside < count ? first + inside : after[inside - count];
  }
};

struct PadPlan {
  std::vector<PadAxis> axes;        // at least one
  std::vector<int64_t> in_strides;  // in elements
  int element_bytes;                // 1, 2, 4, 8 or 16
  // Set by PreparePad. Neighbours among what pads the last axis, where these are many: `count`
  // positions that read the value (-1) or those from `first` on.
  struct Piece {
    int64_t first, count;
  };
  std::vector<Piece> before = {}, after = {};
  // Around short rows the value is written to all of y, and then over it what
  // lies inside.
  bool fills_first = false;
  StridedCopyPlan inside = {};
  int64_t inside_x = 0, inside_y = 0;  // where it begins, in elements
};

// Chooses how the plan is run; before the first run, once for a shape.
void PreparePad(PadPlan* plan);

// y, dense [sizes of the axes] from x; `value` is one element.
void Pad(const PadPlan& plan, const void* x, const void* value, void* y, const Parallel& par);

}  // namespace sardonyx
