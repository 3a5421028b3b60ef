#pragma once
// Discrete Fourier transforms of many lines at once, a line in each lane of a vector: so every
// length has the same vector code, without shuffles. Lengths are products of primes up to 31.
// T: float, double.

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"

namespace sardonyx {

// Roots and factors of one length; made once.
template <typename T>
struct DftPlan {
  int64_t length = 0;
  std::vector<int64_t> factors;  // empty: the length has a larger prime, or is 1
  std::vector<T> roots;          // exp(-2 pi i k / length), pairs
};
template <typename T>
DftPlan<T> PlanDft(int64_t length);

// Lines lie in float tensors [outer, size, inner, parts], parts 1 (real) or 2 (complex).
struct DftShape {
  int64_t outer, inner;
  int64_t size, parts;          // of the input; read up to the length, then zeros
  int64_t out_size, out_parts;  // of the output: the beginning of the result
  bool inverse;                 // conjugated, and divided by the length
};

template <typename T>
int64_t DftScratchBytes(const DftPlan<T>& plan, const DftShape& shape, int threads);
// Scratch is aligned to 64 bytes. plan.factors is not empty.
template <typename T>
void Dft(const DftPlan<T>& plan, const DftShape& shape, const float* x, float* y, void* scratch,
         const Parallel& par);

}  // namespace sardonyx
