#pragma once
// The loops of kernels/topk that are compiled for each SIMD target.

#include <cstdint>
#include <tuple>

#include "kernels/topk.h"

namespace sardonyx {

inline constexpr int64_t kTopKBlock = 32;  // elements that are skipped together

template <typename U>
struct TopKLoops {
  void (*order)(const U* from, int64_t step, int64_t n, OrderedBits order, U flip, U* to);
  int64_t (*next_block)(const U* line, int64_t begin, int64_t n, U least);
};
using AllTopKLoops =
    std::tuple<TopKLoops<uint8_t>, TopKLoops<uint16_t>, TopKLoops<uint32_t>, TopKLoops<uint64_t>>;

}  // namespace sardonyx
