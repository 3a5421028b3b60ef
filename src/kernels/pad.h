#pragma once
// Padding of any mode, told by where the positions of each axis read.

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"

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
};

// y [sizes of the axes] from x; `value` is one element.
void Pad(const PadPlan& plan, const void* x, const void* value, void* y, const Parallel& par);

}  // namespace sardonyx
