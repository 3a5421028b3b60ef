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

// log(sum(exp(x))) over the middle axis: y is [outer, inner]. n is at least 1.
void LogSumExp(const double* x, double* y, int64_t outer, int64_t n, int64_t inner,
               const Parallel& par);

}  // namespace sardonyx
