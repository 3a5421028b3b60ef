#pragma once
// Layer, RMS, instance and group normalisation, float32, the first two in float64 as well. y may be
// x everywhere. Variances are those of the whole group (divided by its size), taken around the
// mean.

#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"

namespace sardonyx {

// y = (x - mean) / sqrt(variance + epsilon) * scale + bias over each of `rows` rows of n elements.
// scale and bias are [n] or null. mean and inv_std_dev are [rows] outputs or null.
void LayerNorm(const float* x, const float* scale, const float* bias, float* y, int64_t rows,
               int64_t n, float epsilon, float* mean, float* inv_std_dev, const Parallel& par);

// y = x / sqrt(mean(x^2) + epsilon) * scale + bias over each row. scale, bias [n] or null;
// inv_rms is a [rows] output or null.
void RmsNorm(const float* x, const float* scale, const float* bias, float* y, int64_t rows,
             int64_t n, float epsilon, float* inv_rms, const Parallel& par);

void LayerNorm(const double* x, const double* scale, const double* bias, double* y, int64_t rows,
               int64_t n, double epsilon, double* mean, double* inv_std_dev, const Parallel& par);
void RmsNorm(const double* x, const double* scale, const double* bias, double* y, int64_t rows,
             int64_t n, double epsilon, double* inv_rms, const Parallel& par);

// Group normalisation of x [batch, channels, spatial]; groups == channels is instance
// normalisation. scale and bias are per channel, [channels], or null.
void GroupNormChannelsFirst(const float* x, const float* scale, const float* bias, float* y,
                            int64_t batch, int64_t channels, int64_t spatial, int64_t groups,
                            float epsilon, const Parallel& par);

// The same of x [batch, spatial, channels]. scratch: GroupNormScratchBytes, 64-byte aligned.
size_t GroupNormScratchBytes(int64_t batch, int64_t spatial, int64_t channels);
void GroupNormChannelsLast(const float* x, const float* scale, const float* bias, float* y,
                           int64_t batch, int64_t spatial, int64_t channels, int64_t groups,
                           float epsilon, void* scratch, const Parallel& par);

}  // namespace sardonyx
