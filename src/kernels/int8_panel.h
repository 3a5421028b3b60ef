#pragma once
// What packing the weights of byte products does to many bytes; gemm_int8.h has their layout.

#include <cstddef>
#include <cstdint>

#include "kernels/gemm_int8.h"

namespace sardonyx {

// Rows of bytes to groups of four as a panel has them: column j of row k, with the bits of `flip`
// turned, to byte k % 4 of element j of group k / 4. For a multiple of 4 rows.
void Int8InterleaveRows(const uint8_t* from, int64_t stride, int64_t rows, int64_t columns,
                        uint8_t flip, void* panel);

// Words [taps, ld] have in each column four kernels of `taps` bytes, one behind the other: their
// bytes at a tap, with the bits of `flip` turned, as a group of a panel.
void Int8GatherTap(const uint32_t* words, int64_t ld, int64_t taps, int64_t tap, int64_t columns,
                   uint8_t flip, void* group);

// sums[j] = the sum of column j over the groups of a panel.
void Int8SumColumns(const void* panel, int64_t groups, int32_t* sums);

// The groups of a panel as they multiply int16: 0, 2, 1, 3, so that of 16-bit lanes the low bytes
// are the first two, and the high ones the others.
void Int8OrderPairs(void* panel, int64_t groups);

// Takes from a panel of `groups` groups of four what its products could saturate with: the rest of
// each pair of neighbours is at most 128 above and 128 below zero, and that times 255 fits into
// int16. How much was taken, -1 if it is more than `most`, and then the panel is as it was.
int64_t Int8SplitPanel(void* panel, int64_t groups, int64_t most, Int8Excess* excess);

// sums[r] = the sum of k values from a + r * step on, of each of `segments` segments, so many
// values apart; of all `rows`. Windows may overlap, and what they share is read once. `scratch`:
// room as Int8WindowScratchBytes says of the length that they cover, (rows - 1) * step + k values.
void Int8SumWindows(const uint8_t* a, int64_t step, int64_t rows, int64_t k, int64_t segments,
                    int64_t segment_step, void* scratch, int32_t* sums);
void Int8SumWindows(const int16_t* a, int64_t step, int64_t rows, int64_t k, int64_t segments,
                    int64_t segment_step, void* scratch, int32_t* sums);
inline constexpr int64_t kInt8WindowSlack = 64;  // behind a line, what vectors read beyond it
inline size_t Int8WindowScratchBytes(int64_t length) {
  return static_cast<size_t>(2 * (length + kInt8WindowSlack)) * sizeof(uint32_t);
}

// Gives a panel back what was taken.
void Int8JoinPanel(void* panel, const Int8Excess* excess, int64_t count);

}  // namespace sardonyx
