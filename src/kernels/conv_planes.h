#pragma once
// Convolution of images whose planes lie one behind the other, so that vectors run along the last
// axis: where channels are so few that they would leave vectors almost empty, and depthwise where
// they would have to be put last and first again around it.

#include <string_view>

#include "kernels/conv.h"

namespace sardonyx {

// Empty if ConvPlanes takes it, else why not: x and y are [batch, channels, in...] and [batch,
// channels, out...], dense. A window spans at most kWidestPlaneWindow pixels along either of the
// last two axes, by steps of at most kLongestPlaneStride; one of a line alone may be wider, and one
// of a column alone taller.
inline constexpr int64_t kWidestPlaneWindow = 64, kTallestColumnWindow = 128;
inline constexpr int64_t kLongestPlaneStride = 4;
inline constexpr int64_t kWidestLineWindow = 1024, kLongestLineStride = 16;
std::string_view ConvPlanesRefusal(const ConvShape& shape);

// y = epilogue(convolution), which sees y as matrices [channels, pixels], one an item of
// batch_stride[0]. `weights` are those of ONNX, [cout, cin / groups, kernel...]. y must not
// overlap x nor an operand of the epilogue. Bit-identical for any number of threads.
void ConvPlanes(const ConvShape& shape, const float* x, const float* weights, float* y,
                const Epilogue& epilogue, const Parallel& par);

}  // namespace sardonyx
