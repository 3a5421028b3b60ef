#pragma once
// The largest or smallest elements along an axis, in order.

#include <cstdint>

#include "base/thread_pool.h"

namespace sardonyx {

// How the bits of an element are ordered.
enum class OrderedBits : uint8_t { kUnsigned, kSigned, kFloat16, kBFloat16, kFloat32, kFloat64 };

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
