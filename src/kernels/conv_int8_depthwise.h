#pragma once
// Depthwise convolution of bytes: one channel a group, vectors over channels.

#include "kernels/conv_int8.h"

namespace sardonyx {

// Output pixels in their order.
struct OutputPixel {
  int64_t item, at[3];
  OutputPixel(const ConvShape& s, int64_t pixel)
      : item(pixel / (s.out[0] * s.out[1] * s.out[2])),
        at{pixel / (s.out[1] * s.out[2]) % s.out[0], pixel / s.out[2] % s.out[1],
           pixel % s.out[2]} {}
  void Advance(const ConvShape& s) {
    if (++at[2] < s.out[2]) return;
    at[2] = 0;
    if (++at[1] < s.out[1]) return;
    at[1] = 0;
    if (++at[0] < s.out[0]) return;
    at[0] = 0;
    ++item;
  }
  // The input index that the kernel's position 0 meets along an axis.
  int64_t First(const ConvShape& s, int axis) const {
    return at[axis] * s.stride[axis] - s.pad_begin[axis];
  }
};

namespace conv_int8_depthwise {

bool Takes(const ConvShape& shape);
size_t PackedBytes(const ConvShape& shape);
void Pack(const ConvShape& shape, const Int8Weights& weights, void* packed);
size_t ScratchBytes(const ConvShape& shape);
void Run(const ConvShape& shape, const Int8ConvArgs& args, void* scratch, const Parallel& par);

}  // namespace conv_int8_depthwise
}  // namespace sardonyx
