#pragma once
// Keys and the positions where they stand, by open addressing. -0 and 0 are one key, as all NaNs
// are. T: float, double, int16_t, int32_t, int64_t, std::string.

#include <cstdint>

#include "base/thread_pool.h"

namespace sardonyx {

// A table of `count` different keys, of that many bytes, aligned to 8.
template <typename T>
int64_t KeyTableBytes(int64_t count);
template <typename T>
void FillKeyTable(const T* keys, int64_t count, void* table);

// Whether a table that comes from a file gives no other positions.
template <typename T>
bool KeyTableFits(int64_t count, const void* table);

// y[i] = where x[i] stands among the `count` keys that the table was made of; `count` if it is
// none.
template <typename T>
void LookUp(const T* x, int64_t n, const T* keys, const void* table, int64_t count, int64_t* y,
            const Parallel& par);

}  // namespace sardonyx
