#pragma once
// Determinants and inverses of square matrices, by Gaussian elimination with partial pivoting in
// double. Many small matrices go through it together, one in each lane of a vector.

#include <cstdint>

#include "base/thread_pool.h"

namespace sardonyx {

int64_t DeterminantsScratchBytes(int64_t count, int64_t n, int threads);

// y[i] = the determinant of x[i], for x [count, n, n]. T: float, double. Scratch is aligned to 64
// bytes.
template <typename T>
void Determinants(const T* x, int64_t count, int64_t n, T* y, void* scratch, const Parallel& par);

int64_t InversesScratchBytes(int64_t count, int64_t n, int threads);

// y[i] = the inverse of x[i]; of a singular matrix infinities or NaN.
template <typename T>
void Inverses(const T* x, int64_t count, int64_t n, T* y, void* scratch, const Parallel& par);

}  // namespace sardonyx
