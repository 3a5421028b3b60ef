#pragma once
// Determinants of square matrices, by Gaussian elimination with partial pivoting in double.

#include <cstdint>

#include "base/thread_pool.h"

namespace sardonyx {

int64_t DeterminantsScratchBytes(int64_t n, int threads);

// y[i] = the determinant of x[i], for x [count, n, n]. Scratch is aligned to 64 bytes.
void Determinants(const float* x, int64_t count, int64_t n, float* y, void* scratch,
                  const Parallel& par);

}  // namespace sardonyx
