#pragma once
// Running sums and products along an axis.

#include <cstdint>

#include "base/thread_pool.h"

namespace sardonyx {

struct CumulativeShape {
  int64_t outer, n, inner;
  bool product = false;
  bool exclusive = false;  // an element is not part of its own result
  bool reverse = false;
};

// y [outer, n, inner] from x, which it may overwrite. Floats run in double; integers wrap in 64
// bits. T: float, double, int8_t, uint8_t ... int64_t, uint64_t.
template <typename T>
void Cumulative(const CumulativeShape& shape, const T* x, T* y, const Parallel& par);

}  // namespace sardonyx
