#pragma once
// Copy between two arrays of arbitrary strides: the one kernel under Transpose, Slice (negative
// steps too), Expand, Concat, Split, Pad and Tile.

#include <array>
#include <cstdint>
#include <span>

#include "base/thread_pool.h"

namespace sardonyx {

// A copy with its dimensions collapsed and its method chosen. Holds no pointer, so it is made once
// for a shape and run many times.
struct StridedCopyPlan {
  // Dimensions of size 1 are dropped, so 40 dimensions hold more elements than memory can.
  static constexpr int kMaxRank = 40;
  enum class Method : uint8_t {
    kNothing,    // no element
    kRows,       // the innermost dimension is contiguous on both sides
    kSpread,     // the innermost dimension repeats one element
    kTranspose,  // the input is contiguous along another dimension than the output
    kElements,   // any strides
  };
  struct Dim {
    int64_t size, in_stride, out_stride;  // strides in elements of `element_bytes`
  };

  Method method = Method::kNothing;
  int element_bytes = 0;  // may be a multiple of what was asked for: short rows become one element
  int rank = 0;           // at least 1 unless kNothing
  std::array<Dim, kMaxRank> dims;  // outermost first; kTranspose: last but one is the input's
  int64_t in_offset = 0;           // bytes, where a dimension was turned round
  int64_t out_offset = 0;
  // The unit of work: an index of the dimensions outside the last two (of none if rank is 1), and
  // `chunk` indices of the last but one (of the only one if rank is 1).
  int64_t chunk = 1, chunks = 1, units = 0, units_per_task = 1;
};

// Plans the copy of dims[0] x dims[1] x ... elements of 1, 2, 4, 8 or 16 bytes. Strides are in
// elements; an input stride may be 0 or negative, an output stride may be negative but not 0
// (unless the dimension is 1). All three spans have one length.
StridedCopyPlan PrepareStridedCopy(std::span<const int64_t> dims,
                                   std::span<const int64_t> in_strides,
                                   std::span<const int64_t> out_strides, int element_bytes);

// Runs the copy. `in` and `out` point at the element of index 0 in every dimension; they may not
// overlap. No alignment is needed.
void StridedCopy(const StridedCopyPlan& plan, const void* in, void* out, const Parallel& par);

// Joins dense arrays of so many rows to one: part i has bytes[i] of each row, as parts lie side by
// side. A task takes all parts of its rows, which its thread often has in its cache.
void JoinRows(std::span<const int64_t> bytes, int64_t rows, const void* const* parts, void* whole,
              const Parallel& par);
// The same the other way.
void SplitRows(std::span<const int64_t> bytes, int64_t rows, const void* whole, void* const* parts,
               const Parallel& par);

// Writes `count` copies of the element of 1, 2, 4, 8 or 16 bytes at `value`.
void Fill(void* out, int64_t count, const void* value, int element_bytes, const Parallel& par);

}  // namespace sardonyx
