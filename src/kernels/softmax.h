#pragma once
// Softmax and log-softmax.

#include <cstdint>

#include "base/dtype.h"
#include "base/thread_pool.h"

namespace sardonyx {

// Over the middle axis of x [outer, n, inner], contiguous. With `log` the logarithm of the result.
// y may be x. A row that is all -inf, or holds NaN or +inf, gives NaN as the formula does.
// `rounding`, not with `log`: the 16-bit type to whose values the exponentials and their sum are
// rounded; a sum beyond its range is not.
void Softmax(const float* x, float* y, int64_t outer, int64_t n, int64_t inner, bool log,
             const Parallel& par, DType rounding = DType::kFloat32);
void Softmax(const double* x, double* y, int64_t outer, int64_t n, int64_t inner, bool log,
             const Parallel& par);

// An additive mask over rows that are numbered [d0, d1, d2]; strides in elements, 0 broadcasts.
struct SoftmaxMask {
  const float* data = nullptr;  // null: no mask
  int64_t d0_stride = 0, d1_stride = 0, d2_stride = 0;
  int64_t element_stride = 1;  // 1 or 0
};

// y = softmax(scale * x + mask) over the last axis of x [d0, d1, d2, n], contiguous: the scores of
// attention. y may be x. A row whose every entry is masked with -inf gives zeros, not NaN.
void MaskedSoftmax(const float* x, float* y, int64_t d0, int64_t d1, int64_t d2, int64_t n,
                   float scale, const SoftmaxMask& mask, const Parallel& par);

}  // namespace sardonyx
