#pragma once

#include <cstdint>

namespace sardonyx {

// out[i * out_stride + j] = in[j * in_stride + i] for i < rows, j < columns; elements of 1, 2, 4
// or 8 bytes, of any alignment. The matrices may not overlap.
void TransposeMatrix(const void* in, int64_t in_stride, void* out, int64_t out_stride, int64_t rows,
                     int64_t columns, int element_bytes = 4);

}  // namespace sardonyx
