#pragma once
// What the kernels behind conv_depthwise.cc do at a time.

#include <cstdint>

#include "kernels/conv_internal.h"

namespace sardonyx {

// Output pixels first ... last - 1 of one line of the output, all channels.
struct DepthwiseLine {
  const ConvShape& s;
  const float* x;        // line (d, h) = (0, 0) of the item
  const float* weights;  // [input channel of the group, kernel position, output channel]
  float* y;              // pixel 0 of the line
  int64_t d0, h0;        // input position of kernel position 0
  int64_t first, last;
  TileEpilogue epilogue;     // from pixel 0 of the line
  int64_t x_pixel, y_pixel;  // from a pixel to the next
  int64_t x_first;           // the first of x
  int64_t pad, width;        // in front of the pixels of x, and how many there are
};

// Single channels, 3 x 3 with strides of 1 or 2, 5 x 5 with such a stride of lines and 7 x 7 of
// stride 1, whose windows reach at most half of a kernel beyond the input: two lines at a time,
// where there are registers for them.
bool SuitsLinePairs(const ConvShape& s);

// `line` and the one behind it, of a shape that suits; false if that has to be done one by one.
bool DepthwiseLinePair(const DepthwiseLine& line);

}  // namespace sardonyx
