// Tables of source indices and weights, after the formulas of ONNX Resize-19.

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "kernels/resize.h"

namespace sardonyx {
namespace {

// Where output index o lies in the input.
double SourceCoordinate(const ResizeAxis& axis, ResizeCoordinates mode, int64_t o) {
  const double x = static_cast<double>(o), in = static_cast<double>(axis.in);
  const double out = axis.scale * in;  // before it was rounded to the output size
  const double half_pixel = (x + 0.5) / axis.scale - 0.5;
  switch (mode) {
    case ResizeCoordinates::kHalfPixel: return half_pixel;
    case ResizeCoordinates::kHalfPixelSymmetric:
      return in / 2 * (1 - static_cast<double>(axis.out) / out) + half_pixel;
    case ResizeCoordinates::kPytorchHalfPixel: return out == 1 ? -0.5 : half_pixel;
    case ResizeCoordinates::kAlignCorners: return out == 1 ? 0.0 : x * (in - 1) / (out - 1);
    case ResizeCoordinates::kAsymmetric: return x / axis.scale;
    case ResizeCoordinates::kTfHalfPixelForNearest: return (x + 0.5) / axis.scale;
    case ResizeCoordinates::kTfCropAndResize: {
      const double length = (axis.roi_end - axis.roi_start) * (in - 1);
      return axis.roi_start * (in - 1) + (out == 1 ? length / 2 : x * length / (out - 1));
    }
  }
  return 0.0;
}

double NearestIndex(double x, ResizeNearest mode) {
  switch (mode) {
    case ResizeNearest::kRoundPreferFloor: return std::ceil(x - 0.5);
    case ResizeNearest::kRoundPreferCeil: return std::floor(x + 0.5);
    case ResizeNearest::kFloor: return std::floor(x);
    case ResizeNearest::kCeil: return std::ceil(x);
  }
  return 0.0;
}

// Weight of a source at this signed distance, in units of the filter.
double Filter(const ResizeOptions& options, double distance) {
  const double x = std::abs(distance), a = options.cubic_coefficient;
  if (options.mode == ResizeMode::kLinear) return std::max(0.0, 1 - x);
  // Keys' cubic convolution.
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0.0;
}

ResizeTable MakeTable(const ResizeAxis& axis, const ResizeOptions& options) {
  ResizeTable table;
  table.in = axis.in;
  table.out = axis.out;
  const bool nearest = options.mode == ResizeMode::kNearest;
  // Antialiasing widens the filter by what the axis shrinks.
  const double shrink = options.antialias ? std::min(axis.scale, 1.0) : 1.0;
  const double radius = (options.mode == ResizeMode::kCubic ? 2.0 : 1.0) / shrink;
  const int64_t reach = -(static_cast<int64_t>(std::floor(-radius)) + 1);  // taps left of floor(x)
  table.taps = nearest ? 1 : static_cast<int>(2 * reach + 2);
  table.index.resize(static_cast<size_t>(table.taps * axis.out));
  table.weight.resize(table.index.size());
  const bool crop = options.coordinates == ResizeCoordinates::kTfCropAndResize;
  table.repeat = nearest && !crop && axis.out % axis.in == 0 ? axis.out / axis.in : 0;
  if (crop) table.outside.resize(static_cast<size_t>(axis.out));
  std::vector<double> weights(static_cast<size_t>(table.taps));
  for (int64_t o = 0; o < axis.out; ++o) {
    const double x = SourceCoordinate(axis, options.coordinates, o);
    const double last = static_cast<double>(axis.in - 1);
    if (crop && !(x >= 0 && x <= last)) table.outside[o] = 1;
    // Far beyond the input all taps are its edge; this keeps the indices small.
    const double near = std::clamp(x, -1.0 - radius, last + 1.0 + radius);
    if (nearest) {
      const double index = NearestIndex(near, options.nearest);
      table.index[o] = static_cast<int32_t>(std::clamp(index, 0.0, last));
      table.weight[o] = 1.0f;
      if (table.repeat > 0 && table.index[o] != o / table.repeat) table.repeat = 0;
      continue;
    }
    const double floor = std::floor(near);
    double sum = 0.0;
    for (int t = 0; t < table.taps; ++t) {
      const double source = floor + static_cast<double>(t - reach);
      weights[t] = Filter(options, (source - near) * shrink);
      if (options.exclude_outside && (source < 0 || source > last)) weights[t] = 0.0;
      sum += weights[t];
      table.index[t * axis.out + o] = static_cast<int32_t>(std::clamp(source, 0.0, last));
    }
    // The plain filters add up to 1 on their own.
    const double divisor = options.antialias || options.exclude_outside ? sum : 1.0;
    for (int t = 0; t < table.taps; ++t) {
      table.weight[t * axis.out + o] = static_cast<float>(weights[t] / divisor);
    }
  }
  return table;
}

}  // namespace

ResizePlan PrepareResize(std::span<const ResizeAxis> axes, const ResizeOptions& options) {
  ResizePlan plan;
  plan.nearest = options.mode == ResizeMode::kNearest;
  plan.extrapolation_value = options.extrapolation_value;
  const size_t unused = 3 - axes.size();
  for (size_t i = 0; i < 3; ++i) {
    if (i >= unused) {
      plan.axes[i] = MakeTable(axes[i - unused], options);
    } else {
      plan.axes[i].index = {0};
      plan.axes[i].weight = {1.0f};
    }
  }
  return plan;
}

}  // namespace sardonyx
