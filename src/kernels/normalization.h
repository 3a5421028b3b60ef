#pragma once
// Layer and RMS normalisation of rows.

#include <cstdint>

#include "base/dtype.h"
#include "base/thread_pool.h"

namespace sardonyx {

// y = (x - mean) / sqrt(variance + epsilon) * scale + bias over each of `rows` rows of n elements,
// the variance divided by n; with `rms` a mean of 0 is taken. y may be x.
template <typename T>
struct RowNorm {
  const T* x;
  const T *scale, *bias;  // [n] or null; see `run`
  T* y;
  int64_t rows, n;
  T epsilon;
  bool rms = false;
  T *mean = nullptr, *inv_std_dev = nullptr;  // outputs [rows] or null
  // If `runs` is not 0, scale and bias are [runs]: a number for each `run` elements of x, first to
  // last, that begin anew behind the last. Channels of an image are such runs. `run` divides n; if
  // it is 1, n divides `runs`.
  int64_t run = 1, runs = 0;
};
void NormalizeRows(const RowNorm<float>& norm, const Parallel& par);
void NormalizeRows(const RowNorm<double>& norm, const Parallel& par);

// The same for rows that are read or written as float16 or bfloat16, each of the two types one of
// these or float32. y may be x if the types are the same. norm.x and norm.y are not looked at.
struct HalfRows {
  DType x_type, y_type;
  const void* x;
  void* y;
};
size_t HalfRowsScratchBytes(int64_t n, int threads);
void NormalizeHalfRows(const RowNorm<float>& norm, const HalfRows& rows, void* scratch,
                       const Parallel& par);

}  // namespace sardonyx
