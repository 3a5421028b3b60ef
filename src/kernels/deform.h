#pragma once
// The columns of a deformable convolution in two dimensions: what each position of the kernel
// reads, moved by offsets, linear between pixels and zero outside.

#include <cstdint>

#include "base/thread_pool.h"

namespace sardonyx {

struct DeformAxis {
  int64_t size, kernel, out, stride, dilation, pad;
};

struct DeformShape {
  int64_t batch, channels, groups;  // channels of one group have the same offsets
  DeformAxis rows, columns;

  int64_t area() const { return rows.kernel * columns.kernel; }
  int64_t out() const { return rows.out * columns.out; }
};

int64_t DeformColumnsScratchBytes(const DeformShape& shape, int threads);

// y [batch, channels * area, out] of x [batch, channels, rows, columns], offset
// [batch, groups, area, 2, out] (rows first) and mask [batch, groups, area, out], which may be
// null. Scratch is aligned to 64 bytes.
void DeformColumns(const DeformShape& shape, const float* x, const float* offset, const float* mask,
                   float* y, void* scratch, const Parallel& par);

}  // namespace sardonyx
