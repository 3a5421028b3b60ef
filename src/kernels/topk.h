#pragma once
// The largest or smallest elements along an axis, in order.

#include <cstdint>

#include "base/thread_pool.h"
#include "kernels/ordered_bits.h"

namespace sardonyx {

struct TopKShape {
  int64_t outer, n, inner;  // of x; values and indices are [outer, k, inner]
  int64_t k;                // at most n
  int element_bytes;        // 1, 2, 4 or 8
  OrderedBits order;
  bool largest;
};

// Scratch of a call with `threads`, in bytes.
int64_t TopKScratchBytes(const TopKShape& shape, int threads);

// The first k of each line of x, sorted; of equal elements the one with the lower index comes
// first, NaN is larger than all numbers. `indices` may be null.
void TopK(const TopKShape& shape, const void* x, void* values, int64_t* indices, void* scratch,
          const Parallel& par);

}  // namespace sardonyx
