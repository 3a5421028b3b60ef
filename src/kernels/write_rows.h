#pragma once
// A copy of rows, some of which others replace: caches of keys and values that take new ones.

#include <cstdint>

#include "base/thread_pool.h"

namespace sardonyx {

struct WriteRowsShape {
  int64_t items = 1, lines = 1;  // of rows: `lines` for each item
  int64_t own = 0, length = 0;   // rows of a line of x, and of y: as many or more
  int64_t count = 0;             // rows that are written to each line, at most `length`
  int64_t row_bytes = 0;
};

// y [items, lines, length rows] = x [items, lines, own rows] and zeros behind, over which `rows`
// [items, lines, count rows] are written from row first[item] on (in [0, length)), in a circle. y
// may be x, where they are as long.
void WriteRows(const WriteRowsShape& shape, const void* x, const void* rows, const int64_t* first,
               void* y, const Parallel& par);

}  // namespace sardonyx
