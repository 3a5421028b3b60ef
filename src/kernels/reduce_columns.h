#pragma once
// Reductions of float32 over all but the last axis, in one thread: what kernels/reduce.h cuts them
// into.

#include <cstdint>

#include "kernels/reduce.h"

namespace sardonyx {

// y[c] = what `count` columns of x [n, inner] accumulate: a sum, a product, a sum of squares or of
// magnitudes, the largest or the smallest element.
void ReduceColumns(ReduceKind kind, const float* x, float* y, int64_t n, int64_t inner,
                   int64_t count);

// log(sum(exp(x))) over n of `count` columns of x [n, inner]; y holds their largest elements.
void LogSumExpColumns(const float* x, float* y, int64_t n, int64_t inner, int64_t count);

// Sums as means. Divided in float: in double, and rounded then, the bits would be the same, if the
// divisor is exact.
void DivideAll(float* y, int64_t count, float divisor);

}  // namespace sardonyx
