#pragma once
// Pooling where there is one channel, so that vectors run along the last spatial axis: images whose
// planes lie one behind the other, a plane an index of the batch.

#include "base/dtype.h"
#include "kernels/pool.h"

namespace sardonyx {

enum class PlanePool : uint8_t { kMax, kAverage, kAverageWithPad };  // with pad: it is counted

// Whether PoolPlanes takes this: one channel, a window that is not extremely wide, and float32 or
// float64, or int8 or uint8 for the maximum.
bool CanPoolPlanes(const PoolShape& shape, PlanePool kind, DType type);

// As MaxPool and AveragePool of kernels/pool.h do it, without indices.
void PoolPlanes(const PoolShape& shape, PlanePool kind, DType type, const void* x, void* y,
                const Parallel& par);

}  // namespace sardonyx
