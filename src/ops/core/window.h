#pragma once
// The geometry of sliding windows: convolutions and pools, for any number of spatial axes.

#include <vector>

#include "ir/core_op.h"

namespace sardonyx::core {

struct Window {
  std::vector<int64_t> kernel, strides, dilations;
  std::vector<int64_t> pads_begin, pads_end;  // as given, or as auto_pad asks
  std::vector<int64_t> out;                   // output sizes

  size_t rank() const { return kernel.size(); }
};

// Resolves attributes strides, dilations, pads ([begins..., ends...]), auto_pad and ceil_mode for
// known sizes. Output position o and kernel position t read the input at
// o * stride + t * dilation - pad_begin. Throws kInvalidModel where attributes and sizes do not
// fit, or a window is larger than the padded input.
Window ResolveWindow(const Attributes& attributes, std::span<const int64_t> spatial,
                     std::span<const int64_t> kernel);
// The same for a transposed convolution, with attributes output_padding and output_shape: input
// position i and kernel position t add to the output at i * stride + t * dilation - pad_begin.
// pads_begin may be negative where output_shape asks for more than the input covers.
Window ResolveTransposedWindow(const Attributes& attributes, std::span<const int64_t> spatial,
                               std::span<const int64_t> kernel);

// Output sizes where some input sizes are symbolic.
Dims InferWindow(InferContext& context, const Dims& spatial, std::span<const int64_t> kernel);
Dims InferTransposedWindow(InferContext& context, const Dims& spatial,
                           std::span<const int64_t> kernel);

}  // namespace sardonyx::core
