#pragma once
// Convolution of bytes over channels-last activations, exact in int32, and what follows it. A
// matrix product is a convolution of pixels with a 1x1 kernel.

#include <cstddef>
#include <cstdint>

#include "kernels/conv.h"
#include "kernels/gemm_int8.h"

namespace sardonyx {

// Weights as they are given: the one of output channel n, channel c of its group and kernel
// position t lies at n * n_stride + c * c_stride + t * t_stride.
struct Int8Weights {
  const void* data = nullptr;
  bool is_signed = true;  // int8, else uint8
  int64_t n_stride = 0, c_stride = 0, t_stride = 0;
};

// Zero points belong to the values as they are given: y is the sum of (x - x_zero) * (w - w_zero),
// and padding counts as x_zero.
struct Int8ConvArgs {
  const void* x = nullptr;
  bool x_signed = false;
  int32_t x_zero = 0;
  const void* packed = nullptr;
  bool w_signed = true;
  const void* w_zeros = nullptr;  // null: 0
  int64_t w_zero_count = 0;       // 1 or cout
  // y and the residual are [OutPixels(), cout] as shape.y_stride and residual_stride say; apart
  // from x; y may lie where a residual of its element size lies. Null rescale: y is int32.
  void* y = nullptr;
  const Int8Rescale* rescale = nullptr;
  const void* residual = nullptr;
  int64_t residual_stride = 0;

  Int8Store Store(const ConvShape& shape) const {
    return {rescale, y, residual, shape.y_stride, residual_stride};
  }
};

// Packed weights depend on cin, cout, kernel and groups, and on the target that runs.
size_t ConvInt8PackedBytes(const ConvShape& shape);
void ConvInt8Pack(const ConvShape& shape, const Int8Weights& weights, void* packed,
                  const Parallel& par);
size_t ConvInt8ScratchBytes(const ConvShape& shape, int threads);
void ConvInt8(const ConvShape& shape, const Int8ConvArgs& args, void* scratch, const Parallel& par);

}  // namespace sardonyx
