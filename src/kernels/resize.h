#pragma once
// Resize over up to three spatial axes: nearest, linear and cubic, with every coordinate
// transformation of ONNX Resize-19. Separable: each axis has a table of source indices and weights,
// made once for a shape.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"

namespace sardonyx {

enum class ResizeMode : uint8_t { kNearest, kLinear, kCubic };
enum class ResizeCoordinates : uint8_t {
  kHalfPixel,
  kHalfPixelSymmetric,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric,
  kTfCropAndResize,
  kTfHalfPixelForNearest,  // Resize-11 alone
};
enum class ResizeNearest : uint8_t { kRoundPreferFloor, kRoundPreferCeil, kFloor, kCeil };

struct ResizeOptions {
  ResizeMode mode = ResizeMode::kNearest;
  ResizeCoordinates coordinates = ResizeCoordinates::kHalfPixel;
  ResizeNearest nearest = ResizeNearest::kRoundPreferFloor;
  float cubic_coefficient = -0.75f;
  bool exclude_outside = false;
  bool antialias = false;
  float extrapolation_value = 0.0f;  // kTfCropAndResize alone
};

struct ResizeAxis {
  int64_t in = 1, out = 1;
  double scale = 1.0;                     // as given, or out / in when sizes were given
  double roi_start = 0.0, roi_end = 1.0;  // kTfCropAndResize alone, normalised
};

// What one output index of an axis reads: `taps` sources and weights.
struct ResizeTable {
  int64_t in = 1, out = 1;
  int taps = 1;
  std::vector<int32_t> index;    // [taps, out], within [0, in)
  std::vector<float> weight;     // [taps, out], 0 for a tap that is not used
  int64_t repeat = 0;            // not 0: every output o is a copy of o / repeat
  std::vector<uint8_t> outside;  // [out], 1 where the extrapolation value goes; empty: nowhere
};

struct ResizePlan {
  std::array<ResizeTable, 3> axes;  // unused leading axes are 1 -> 1
  bool nearest = true;
  float extrapolation_value = 0.0f;
};

// axes: one to three, outermost first.
ResizePlan PrepareResize(std::span<const ResizeAxis> axes, const ResizeOptions& options);

// x [planes, in0, in1, in2, channels] to y [planes, out0, out1, out2, channels], contiguous but
// that a pixel of y may come y_stride floats behind the one before (0: it is channels).
// Channels-last: planes is the batch. NCHW: planes is batch * channels, and channels is 1.
// Scratch: ResizeScratchBytes, 64-byte aligned. y may not overlap x.
size_t ResizeScratchBytes(const ResizePlan& plan, int64_t planes, int64_t channels);
void Resize(const ResizePlan& plan, const float* x, float* y, int64_t planes, int64_t channels,
            void* scratch, const Parallel& par, int64_t y_stride = 0);

// The same, contiguous, for bytes, signed or not, rounded to the nearest, ties to even. The plan's
// mode is linear: no result leaves the range.
size_t ResizeBytesScratchBytes(const ResizePlan& plan, int64_t planes, int64_t channels);
template <typename T>
void ResizeBytes(const ResizePlan& plan, const T* x, T* y, int64_t planes, int64_t channels,
                 void* scratch, const Parallel& par);

// Nearest for elements of any type: pixel_bytes is channels * the size of an element. The plan's
// mode must be nearest; y_stride is in bytes; `extrapolation` is one element of element_bytes, or
// null without kTfCropAndResize.
void ResizeNearestBytes(const ResizePlan& plan, const void* x, void* y, int64_t planes,
                        int64_t pixel_bytes, const void* extrapolation, int element_bytes,
                        const Parallel& par, int64_t y_stride = 0);

}  // namespace sardonyx
