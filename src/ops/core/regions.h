#pragma once
// What operations on regions of images share: x [N,C,H,W], rois [count,4], batch_indices [count],
// whose result is [count,C,height,width].

#include <vector>

#include "ir/core_op.h"

namespace sardonyx::core {

// Checks types and ranks of the three inputs, and sets the result.
void InferRegions(InferContext& context, int64_t height, int64_t width);

// Makes all of a result: `batch` says of which image each of the regions in `rois` is.
using RegionLoop = void (*)(const Attributes& attributes, const Tensor& x,
                            const std::vector<double>& rois, const std::vector<int64_t>& batch,
                            std::vector<double>& y);
// Runs the loop that does arithmetic in x's type, float for halves.
void ComputeRegions(ComputeContext& context, RegionLoop in_float, RegionLoop in_double);

}  // namespace sardonyx::core
