#pragma once
// Max, average and Lp pooling of channels-last activations.

#include <array>
#include <cstdint>

#include "base/thread_pool.h"

namespace sardonyx {

// x is [batch, in[0], in[1], in[2], channels], y [batch, out[0], out[1], out[2], channels]; they do
// not overlap. With one or two spatial axes the leading entries are the defaults below.
// Output sizes are the caller's (ceil mode is his); every window must begin before the end of the
// padded input.
struct PoolShape {
  int64_t batch = 1, channels = 1;
  std::array<int64_t, 3> in = {1, 1, 1}, out = {1, 1, 1}, kernel = {1, 1, 1}, stride = {1, 1, 1},
                         dilation = {1, 1, 1}, pad_begin = {0, 0, 0}, pad_end = {0, 0, 0};
  // Elements from one pixel to the next where these lie apart, in MaxPool and AveragePool of float
  // without indices; 0 where they are dense.
  int64_t x_stride = 0, y_stride = 0;

  int64_t XStride() const { return x_stride > 0 ? x_stride : channels; }
  int64_t YStride() const { return y_stride > 0 ? y_stride : channels; }
};

enum class PoolIndexOrder : uint8_t {
  kRowMajor,     // ONNX storage_order 0: the last spatial axis runs fastest
  kColumnMajor,  // storage_order 1: the first spatial axis runs fastest
};

// Largest element of each window. T: float, double, int8_t, uint8_t. A window that lies in the
// padding alone gives the lowest value (-inf for floats), and index -1. indices, if not null, has
// y's layout and holds for each output the offset of its element in the input flattened as
// [batch, channels, spatial...], spatial in `order`; among equals the first.
// A NaN may win or be passed over.
template <typename T>
void MaxPool(const PoolShape& shape, const T* x, T* y, int64_t* indices, PoolIndexOrder order,
             const Parallel& par);

// Mean of each window: over its elements within the input, or with count_include_pad over those
// within the padded input (what ceil mode adds beyond pad_end is never counted). A window with
// nothing to count gives 0. T: float, double.
template <typename T>
void AveragePool(const PoolShape& shape, const T* x, T* y, bool count_include_pad,
                 const Parallel& par);

template <>
void MaxPool<float>(const PoolShape& shape, const float* x, float* y, int64_t* indices,
                    PoolIndexOrder order, const Parallel& par);
template <>
void MaxPool<uint8_t>(const PoolShape& shape, const uint8_t* x, uint8_t* y, int64_t* indices,
                      PoolIndexOrder order, const Parallel& par);
template <>
void MaxPool<int8_t>(const PoolShape& shape, const int8_t* x, int8_t* y, int64_t* indices,
                     PoolIndexOrder order, const Parallel& par);
template <>
void AveragePool<float>(const PoolShape& shape, const float* x, float* y, bool count_include_pad,
                        const Parallel& par);
template <>
void AveragePool<double>(const PoolShape& shape, const double* x, double* y, bool count_include_pad,
                         const Parallel& par);

// (sum |x|^p)^(1/p) of each window, p at least 1.
void LpPool(const PoolShape& shape, const float* x, float* y, int64_t p, const Parallel& par);

}  // namespace sardonyx
