#pragma once
// Elements that a condition chooses: which are not zero, where these lie, and the elements of
// another tensor at their places. Marks are made first, then there is room for what they choose.

#include <cstdint>
#include <span>

#include "base/thread_pool.h"

namespace sardonyx {

// A bit an element, in caller's memory, and how many are set before each block of elements.
class Marks {
 public:
  // Of `count` elements. `memory`: Bytes(count), aligned to 8.
  Marks(int64_t count, void* memory);
  static int64_t Bytes(int64_t count);

  // Marks the elements whose bits under `mask` are not all zero. U: uint8_t, uint16_t, uint32_t,
  // uint64_t, of the elements' size.
  template <typename U>
  void MarkNonzero(const U* x, U mask, const Parallel& par);

  // How many are marked.
  int64_t marked() const { return before_[blocks_]; }

  // y [dims.size(), marked()]: the index of each marked element of a tensor of shape `dims`, an
  // axis a row, in row-major order of the elements. At least one axis.
  void WriteIndices(std::span<const int64_t> dims, int64_t* y, const Parallel& par) const;

  // y [marked()]: the marked elements of x, of 1, 2, 4, 8 or 16 bytes each.
  void WriteChosen(const void* x, int element_bytes, void* y, const Parallel& par) const;

 private:
  int64_t count_, blocks_;
  int64_t* before_;  // blocks_ + 1
  uint64_t* bits_;   // from the lowest; zero behind the last element
};

}  // namespace sardonyx
