#pragma once
// Elements that are stored in fewer bits than they are computed in.

#include <cstdint>

#include "base/dtype.h"
#include "base/thread_pool.h"

namespace sardonyx {

// Elements of float16 or bfloat16 as float32, which holds each exactly. No alignment is needed
// beyond the element's own.
void WidenHalves(DType from, const void* in, int64_t count, float* out, const Parallel& par);

}  // namespace sardonyx
