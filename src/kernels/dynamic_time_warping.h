#pragma once
// Dynamic time warping: the cheapest path from the first to the last element of a matrix of costs,
// by steps to the next row, the next column or both.

#include <cstdint>

namespace sardonyx {

inline constexpr int64_t kMostWarpRows = int64_t{1} << 30, kMostWarpColumns = kMostWarpRows;

int64_t WarpScratchBytes(int64_t rows, int64_t columns);

// The length of the path through costs [rows, columns], none of them 0, rows + columns - 1 at most.
// It is kept in the scratch, which is aligned to 64 bytes. Of two ways of equal cost the one from
// the column before is taken. Sums are floats, added along the path.
int64_t FindWarpPath(const float* costs, int64_t rows, int64_t columns, void* scratch);

// path [2, length]: the rows of that path, then the columns.
void WriteWarpPath(int64_t rows, int64_t columns, int64_t length, const void* scratch,
                   int32_t* path);

}  // namespace sardonyx
