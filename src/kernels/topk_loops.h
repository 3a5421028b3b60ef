#pragma once
// The loops of kernels/topk that are compiled for each SIMD target.

#include <cstdint>
#include <tuple>

#include "kernels/topk.h"

namespace sardonyx {

inline constexpr int64_t kTopKBlock = 32;    // elements that are skipped together
inline constexpr int64_t kTopKLines = 16;    // neighbouring lines that are one piece of work
inline constexpr int64_t kTopKFew = 16;      // of a line so many are kept sorted all the time
inline constexpr int64_t kTopKColumns = 64;  // of neighbouring lines

template <typename U>
struct TopKLoops {
  void (*order)(const U* from, int64_t step, int64_t rows, int64_t columns, OrderedBits order,
                U flip, U* to);
  int64_t (*next_block)(const U* line, int64_t begin, int64_t n, U least);
  // places[i * kTopKLines + c]: where the i-th of the k <= kTopKColumns best of line c lies; the
  // lines begin at x + c, their n <= 2^bits elements lie `step` apart.
  void (*select_columns)(const U* x, int64_t step, int64_t n, int64_t columns, int64_t k,
                         OrderedBits order, U flip, U* places);
};
using AllTopKLoops =
    std::tuple<TopKLoops<uint8_t>, TopKLoops<uint16_t>, TopKLoops<uint32_t>, TopKLoops<uint64_t>>;

}  // namespace sardonyx
