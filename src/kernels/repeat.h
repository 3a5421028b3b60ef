#pragma once
// Copies in which the input repeats: what Expand and Tile make. A block of the output is made once
// by kernels/strided_copy, and then copied.

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/strided_copy.h"

namespace sardonyx {

// Holds no pointer, so it is made once for a shape and run many times.
struct RepeatPlan {
  StridedCopyPlan block;                    // of all where there is one
  std::vector<StridedCopyPlan::Dim> outer;  // dimensions around the repeated one; strides in bytes
  int64_t blocks = 1;                       // of an index of `outer`, all alike
  int64_t block_bytes = 0, block_step = 0;  // bytes from one to the next
  int64_t tasks = 1;
};

// As PrepareStridedCopy; here as there an input stride of 0 repeats.
RepeatPlan PrepareRepeat(std::span<const int64_t> dims, std::span<const int64_t> in_strides,
                         std::span<const int64_t> out_strides, int element_bytes);

// As StridedCopy.
void Repeat(const RepeatPlan& plan, const void* in, void* out, const Parallel& par);

}  // namespace sardonyx
