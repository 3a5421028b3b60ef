#pragma once
// Reductions over one or two groups of adjacent axes.

#include <cstdint>

#include "base/thread_pool.h"

namespace sardonyx {

enum class ReduceKind : uint8_t {
  kSum,
  kMean,
  kMax,
  kMin,
  kProd,
  kSumSquare,
  kL1,
  kL2,
  kLogSum,
  kLogSumExp,
};

// The input is [outer, reduced, inner, reduced2], contiguous, the output [outer, inner]. With
// reduced2 == 1 that is a reduction over a middle axis, with inner == 1 too over the last.
struct ReduceShape {
  int64_t outer = 1, reduced = 1, inner = 1, reduced2 = 1;
};

// T: float (vectorised), double, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t,
// uint64_t; bool goes as uint8_t (max is any, min is all). Integer sums wrap in 64 bits and are
// truncated to T; an integer mean divides towards zero; L2 and the logarithms of integers are
// computed in double and truncated. Float sums are blocked and compensated. NaN propagates through
// max and min. Nothing to reduce gives 0 for sums, 1 for the product, the lowest or highest value
// (infinite for floats) for max and min, NaN (0 for integers) for the mean, -inf for logarithms.
// y may not overlap x.
template <typename T>
void Reduce(ReduceKind kind, const T* x, T* y, const ReduceShape& shape, const Parallel& par);

// The same for the sum of bytes as int32, int8_t or uint8_t, over one group of axes: inner or
// reduced2 is 1.
template <typename T>
void SumBytes(const T* x, int32_t* y, const ReduceShape& shape, const Parallel& par);

// The least and the greatest of n elements, in one sweep; of none infinity and its negative, NaN if
// one is.
struct FloatRange {
  float least, greatest;
};
FloatRange Range(const float* x, int64_t n);  // in one thread
FloatRange Range(const float* x, int64_t n, const Parallel& par);

// Indices of the largest (or smallest) element along the middle axis of x [outer, n, inner], into
// y [outer, inner]. Among equals the first, or the last with select_last. A NaN wins over numbers.
// n is at least 1. The same types as Reduce.
template <typename T>
void ArgReduce(bool largest, bool select_last, const T* x, int64_t* y, int64_t outer, int64_t n,
               int64_t inner, const Parallel& par);

template <>
void Reduce<float>(ReduceKind kind, const float* x, float* y, const ReduceShape& shape,
                   const Parallel& par);
}  // namespace sardonyx
