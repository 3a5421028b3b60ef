#pragma once
// Col2Im in one or two dimensions: columns of blocks, summed where the blocks lie in an image.

#include <cstdint>

#include "base/thread_pool.h"

namespace sardonyx {

struct Col2ImAxis {
  int64_t size, block, count, stride, dilation, pad;  // count: of blocks
};

// y [images, rows.size, columns.size] of x [images, rows.block * columns.block, rows.count *
// columns.count]. Position t of block o lies at o * stride + t * dilation - pad; what lies outside
// of the image is left out.
void Col2Im(int64_t images, const Col2ImAxis& rows, const Col2ImAxis& columns, const float* x,
            float* y, const Parallel& par);

}  // namespace sardonyx
