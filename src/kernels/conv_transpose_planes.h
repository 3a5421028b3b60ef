#pragma once
// Transposed convolution of few channels whose planes lie one behind the other, so that vectors run
// along the last axis: the counterpart of conv_planes.h.

#include <string_view>

#include "kernels/conv.h"

namespace sardonyx {

// Empty if ConvTransposePlanes takes it, else why not: x and y are [batch, channels, in...] and
// [batch, channels, out...], dense.
std::string_view ConvTransposePlanesRefusal(const ConvShape& shape);

// y = epilogue(transposed convolution), which sees y as matrices [channels, pixels], one an item of
// batch_stride[0]. `weights` are those of ONNX, [cin, cout / groups, kernel...]. y must not overlap
// x nor an operand of the epilogue. Bit-identical for any number of threads.
void ConvTransposePlanes(const ConvShape& shape, const float* x, const float* weights, float* y,
                         const Epilogue& epilogue, const Parallel& par);

}  // namespace sardonyx
