#pragma once
// Sizes rounded to multiples.

#include <cstdint>

namespace sardonyx {

inline int64_t RoundUp(int64_t value, int64_t step) { return (value + step - 1) / step * step; }
inline int64_t CeilDiv(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }

// Buffers and the pieces that they are cut into begin at cache lines, as vectors want it.
template <typename Size>
constexpr Size AlignBytes(Size bytes) {
  return (bytes + 63) / 64 * 64;
}

}  // namespace sardonyx
