#pragma once
// Layer and RMS normalisation of rows.

#include <cstdint>

#include "base/thread_pool.h"

namespace sardonyx {

// y = (x - mean) / sqrt(variance + epsilon) * scale + bias over each of `rows` rows of n elements,
// the variance divided by n; with `rms` a mean of 0 is taken. y may be x.
template <typename T>
struct RowNorm {
  const T* x;
  const T *scale, *bias;  // [n] or null
  T* y;
  int64_t rows, n;
  T epsilon;
  bool rms = false;
  T *mean = nullptr, *inv_std_dev = nullptr;  // outputs [rows] or null
};
void NormalizeRows(const RowNorm<float>& norm, const Parallel& par);
void NormalizeRows(const RowNorm<double>& norm, const Parallel& par);

}  // namespace sardonyx
