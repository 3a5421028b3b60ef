#pragma once
// Shapes of convolutions, for tests.

#include <cstdint>
#include <vector>

#include "kernels/conv.h"

namespace sardonyx {

// One spatial dimension of a convolution.
struct Axis {
  int64_t in = 1, kernel = 1, stride = 1, dilation = 1, pad_begin = 0, pad_end = 0;
};

inline ConvShape Shape(int64_t batch, int64_t cin, int64_t cout, std::vector<Axis> axes,
                       int64_t groups = 1) {
  ConvShape s;
  s.batch = batch;
  s.cin = cin;
  s.cout = cout;
  s.groups = groups;
  s.x_stride = cin;
  s.y_stride = cout;
  for (size_t i = 0; i < axes.size(); ++i) {
    const Axis& a = axes[i];
    const size_t to = 3 - axes.size() + i;
    s.in[to] = a.in;
    s.kernel[to] = a.kernel;
    s.stride[to] = a.stride;
    s.dilation[to] = a.dilation;
    s.pad_begin[to] = a.pad_begin;
    s.out[to] = (a.in + a.pad_begin + a.pad_end - (a.kernel - 1) * a.dilation - 1) / a.stride + 1;
  }
  return s;
}

inline ConvShape Transposed(ConvShape s, std::vector<Axis> axes) {
  for (size_t i = 0; i < axes.size(); ++i) {
    const Axis& a = axes[i];  // pad_end less output_padding
    s.out[3 - axes.size() + i] =
        (a.in - 1) * a.stride + (a.kernel - 1) * a.dilation + 1 - a.pad_begin - a.pad_end;
  }
  return s;
}

}  // namespace sardonyx
