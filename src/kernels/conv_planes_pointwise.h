#pragma once
// Convolution of planes by windows of one pixel, read where they lie.

#include "kernels/conv.h"
#include "kernels/gemm_epilogue.h"

namespace sardonyx {

// Whether windows are one pixel at steps of one, without padding, of no more channels than one
// chain of sums has.
bool IsPointwisePlanes(const ConvShape& shape);

// As ConvPlanes, of such; `epilogue` is prepared for planes.
void PointwisePlanes(const ConvShape& shape, const float* x, const float* weights, float* y,
                     const PreparedEpilogue& epilogue, const Parallel& par);

}  // namespace sardonyx
