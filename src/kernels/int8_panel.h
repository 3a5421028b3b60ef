#pragma once
// What packing the weights of byte products does to many bytes; gemm_int8.h has their layout.

#include <cstdint>

namespace sardonyx {

// Rows of bytes to groups of four as a panel has them: column j of row k, with the bits of `flip`
// turned, to byte k % 4 of element j of group k / 4. For a multiple of 4 rows.
void Int8InterleaveRows(const uint8_t* from, int64_t stride, int64_t rows, int64_t columns,
                        uint8_t flip, void* panel);

// sums[j] = the sum of column j over the groups of a panel, of four bytes or two int16.
void Int8SumColumns(const void* panel, int64_t groups, bool of_bytes, int32_t* sums);

}  // namespace sardonyx
