// Resampling by interpolation, one axis after the other. ONNX Resize-19, with the coordinate
// transformation tf_half_pixel_for_nn of Resize-11 as well.

#include <algorithm>
#include <cmath>

#include "ops/core/core.h"
#include "ops/core/reference.h"
#include "ops/vision/sampling.h"

namespace sardonyx::core {
namespace {

enum Input : size_t { kX, kRoi, kScales, kSizes };

// The axes that are resized, in the order of scales, sizes and roi.
std::vector<int> AxesOf(const Attributes& attributes, int rank) {
  std::vector<int> axes;
  for (int64_t axis : attributes.Ints("axes")) {
    if (axis < -rank || axis >= rank) {
      Fail(ErrorCode::kInvalidModel, "resize: axis {} is outside [{},{}]", axis, -rank, rank - 1);
    }
    axes.push_back(static_cast<int>(axis < 0 ? axis + rank : axis));
  }
  for (int i = 0; attributes.Find("axes") == nullptr && i < rank; ++i) axes.push_back(i);
  return axes;
}

struct Target {
  std::vector<double> scales;  // of each resized axis
  std::vector<int64_t> sizes;
};

// The size that an axis is scaled to. In float32, as what is exported expects: a converter that
// wants 5 of 3 writes the float32 nearest to 5/3, whose exact product with 3 is less than 5. Whole
// factors of sizes beyond 2^24, which float32 would round, are exact.
int64_t ScaledSize(int64_t size, double scale) {
  if (static_cast<double>(size) * scale > 0x1p40) {
    Fail(ErrorCode::kInvalidModel, "resize: a scale of {} is too large", scale);
  }
  if (scale == std::floor(scale) && scale < 0x1p20) return size * static_cast<int64_t>(scale);
  return static_cast<int64_t>(std::floor(static_cast<float>(size) * static_cast<float>(scale)));
}

// Sizes and scales of the result for known input sizes of the resized axes.
Target Resolve(const Attributes& attributes, std::span<const int64_t> in,
               const std::vector<double>& scales, const std::vector<int64_t>& sizes) {
  Target target;
  const size_t given = sizes.empty() ? scales.size() : sizes.size();
  if (given != in.size()) {
    Fail(ErrorCode::kInvalidModel, "resize: {} {} for {} axes", given,
         sizes.empty() ? "scales" : "sizes", in.size());
  }
  if (sizes.empty()) {
    for (size_t i = 0; i < in.size(); ++i) {
      if (!(scales[i] > 0))
        Fail(ErrorCode::kInvalidModel, "resize: scale {} is not positive", scales[i]);
      target.scales.push_back(scales[i]);
      target.sizes.push_back(ScaledSize(in[i], scales[i]));
    }
    return target;
  }
  for (size_t i = 0; i < in.size(); ++i) {
    if (sizes[i] < 0) Fail(ErrorCode::kInvalidModel, "resize: a negative size {}", sizes[i]);
    if (in[i] == 0 && sizes[i] != 0)
      Fail(ErrorCode::kInvalidModel, "resize: an axis of size 0 cannot grow");
    target.sizes.push_back(sizes[i]);
    target.scales.push_back(
        in[i] == 0 ? 1 : static_cast<double>(sizes[i]) / static_cast<double>(in[i]));
  }
  const std::string_view policy = attributes.String("keep_aspect_ratio_policy", "stretch");
  if (policy == "stretch" || in.empty()) return target;
  const auto [least, most] = std::minmax_element(target.scales.begin(), target.scales.end());
  if (policy != "not_larger" && policy != "not_smaller") {
    Fail(ErrorCode::kInvalidModel, "resize: there is no keep_aspect_ratio_policy '{}'", policy);
  }
  const double scale = policy == "not_larger" ? *least : *most;
  for (size_t i = 0; i < in.size(); ++i) {
    target.scales[i] = scale;
    target.sizes[i] = static_cast<int64_t>(std::floor(scale * static_cast<double>(in[i]) + 0.5));
  }
  return target;
}

void InferResize(InferContext& context) {
  const DType type = context.dtype(kX);
  const bool by_sizes = context.has(kSizes);
  if (by_sizes == context.has(kScales)) context.Fail("resize takes either scales or sizes");
  if (!context.ranked(kX)) return context.Set(0, type, {});
  Dims shape = context.shape(kX);
  const std::vector<int> axes = AxesOf(context.attributes(), context.rank(kX));
  std::vector<int64_t> in, sizes;
  Dims from;
  for (int axis : axes) from.push_back(shape[axis]);
  const bool known_in = KnownSizes(from, &in);
  const Tensor* scales = by_sizes ? nullptr : context.constant(kScales);
  const bool known_sizes = by_sizes && context.Ints(kSizes, &sizes);
  if (known_in && (known_sizes || scales != nullptr)) {
    const std::vector<double> factors =
        scales != nullptr ? ToDoubles(*scales) : std::vector<double>();
    const Target target = Resolve(context.attributes(), in, factors, sizes);
    for (size_t i = 0; i < axes.size(); ++i) shape[axes[i]] = target.sizes[i];
    return context.Set(0, type, std::move(shape));
  }
  const bool stretch =
      context.attributes().String("keep_aspect_ratio_policy", "stretch") == "stretch";
  const Dims* elements = by_sizes && stretch ? context.elements(kSizes) : nullptr;
  for (size_t i = 0; i < axes.size(); ++i) {
    Dim& dim = shape[axes[i]];
    if (elements != nullptr && i < elements->size()) {
      dim = (*elements)[i];
      continue;
    }
    // Whole factors and factors of an axis whose size is known give a known size.
    const double factor =
        scales != nullptr && i < static_cast<size_t>(scales->size()) ? ToDoubles(*scales)[i] : -1;
    if (factor > 0 && factor < 0x1p20 && factor == std::floor(factor)) {
      dim = context.symbols().Mul(dim, Dim(static_cast<int64_t>(factor)));
    } else if (factor > 0 && dim.known()) {
      dim = ScaledSize(dim.value(), factor);
    } else {
      dim = context.symbols().Fresh();
    }
  }
  context.Set(0, type, std::move(shape));
}

struct Coordinates {
  std::string_view mode;
  double scale, in, out;  // sizes; out as an integer
  double roi_start, roi_end;

  // Where output position x lies in the input.
  double operator()(double x) const {
    const double resized = scale * in;  // not rounded
    if (mode == "half_pixel") return (x + 0.5) / scale - 0.5;
    if (mode == "asymmetric") return x / scale;
    if (mode == "align_corners") return resized == 1 ? 0 : x * (in - 1) / (resized - 1);
    if (mode == "pytorch_half_pixel") return resized == 1 ? -0.5 : (x + 0.5) / scale - 0.5;
    if (mode == "tf_half_pixel_for_nn") return (x + 0.5) / scale;
    if (mode == "half_pixel_symmetric") {
      return in / 2 * (1 - out / resized) + (x + 0.5) / scale - 0.5;
    }
    if (mode == "tf_crop_and_resize") {
      const double start = roi_start * (in - 1);
      const double extent = (roi_end - roi_start) * (in - 1);
      return resized == 1 ? start + extent / 2 : start + x * extent / (resized - 1);
    }
    Fail(ErrorCode::kInvalidModel, "resize: there is no coordinate_transformation_mode '{}'", mode);
  }
};

struct Taps {
  int64_t first = 0;  // input index of the first weight; may lie outside
  std::vector<double> weights;
};

Taps NearestTaps(double x, std::string_view mode) {
  if (mode == "floor") return {static_cast<int64_t>(std::floor(x)), {1}};
  if (mode == "ceil") return {static_cast<int64_t>(std::ceil(x)), {1}};
  if (mode == "round_prefer_floor") return {static_cast<int64_t>(std::ceil(x - 0.5)), {1}};
  if (mode == "round_prefer_ceil") return {static_cast<int64_t>(std::floor(x + 0.5)), {1}};
  Fail(ErrorCode::kInvalidModel, "resize: there is no nearest_mode '{}'", mode);
}

// Weights of a kernel of half-width `reach` around x; with antialias and a scale below 1 the kernel
// is stretched to cover all input that an output stands for.
template <typename Kernel>
Taps KernelTaps(double x, double reach, double scale, bool antialias, Kernel&& kernel) {
  const double shrink = antialias ? std::min(scale, 1.0) : 1.0;
  Taps taps;
  taps.first = static_cast<int64_t>(std::floor(x - reach / shrink)) + 1;
  const int64_t last = static_cast<int64_t>(std::ceil(x + reach / shrink)) - 1;
  double sum = 0;
  for (int64_t i = taps.first; i <= last; ++i) {
    taps.weights.push_back(kernel((static_cast<double>(i) - x) * shrink));
    sum += taps.weights.back();
  }
  if (antialias) {
    for (double& weight : taps.weights) weight /= sum;
  }
  return taps;
}

Taps TapsAt(const Attributes& attributes, double x, double scale) {
  const std::string_view mode = attributes.String("mode", "nearest");
  const bool antialias = attributes.Int("antialias") != 0;
  if (mode == "nearest") {
    return NearestTaps(x, attributes.String("nearest_mode", "round_prefer_floor"));
  }
  if (mode == "linear") {
    return KernelTaps(x, 1, scale, antialias,
                      [](double d) { return std::max(0.0, 1 - std::abs(d)); });
  }
  if (mode == "cubic") {
    const double a = attributes.Float("cubic_coeff_a", -0.75);
    return KernelTaps(x, 2, scale, antialias, [a](double d) { return ops::CubicKernel(d, a); });
  }
  Fail(ErrorCode::kInvalidModel, "resize: there is no mode '{}'", mode);
}

// What one output position of an axis reads.
struct Source {
  bool outside = false;  // takes the extrapolation value
  std::vector<std::pair<int64_t, double>> taps;
};

Source SourceAt(const Attributes& attributes, const Coordinates& coordinates, int64_t position) {
  const double x = coordinates(static_cast<double>(position));
  Source source;
  if (coordinates.mode == "tf_crop_and_resize" && (x < 0 || x > coordinates.in - 1)) {
    source.outside = true;
    return source;
  }
  const int64_t size = static_cast<int64_t>(coordinates.in);
  const bool exclude = attributes.Int("exclude_outside") != 0;
  const Taps taps = TapsAt(attributes, x, coordinates.scale);
  double sum = 0;
  for (size_t i = 0; i < taps.weights.size(); ++i) {
    const int64_t index = taps.first + static_cast<int64_t>(i);
    if (exclude && (index < 0 || index >= size)) continue;
    source.taps.emplace_back(std::clamp<int64_t>(index, 0, size - 1), taps.weights[i]);
    sum += taps.weights[i];
  }
  for (auto& tap : source.taps) {
    if (exclude && sum != 0) tap.second /= sum;
  }
  return source;
}

// An axis of `dims` resized; dims follows. The extrapolation value is real: of the `parts` of a
// complex number it is the first.
std::vector<double> ResizeAxis(const std::vector<double>& x, std::vector<int64_t>& dims, int axis,
                               const std::vector<Source>& sources, double extrapolation,
                               int64_t parts) {
  const AxisSplit split = SplitAt(dims, axis);
  const int64_t out = static_cast<int64_t>(sources.size());
  std::vector<double> y(split.outer * out * split.inner);
  for (int64_t outer = 0; outer < split.outer; ++outer) {
    for (int64_t o = 0; o < out; ++o) {
      for (int64_t inner = 0; inner < split.inner; ++inner) {
        double sum = sources[o].outside && inner % parts == 0 ? extrapolation : 0;
        for (const auto& [index, weight] : sources[o].taps) {
          sum += weight * x[(outer * split.size + index) * split.inner + inner];
        }
        y[(outer * out + o) * split.inner + inner] = sum;
      }
    }
  }
  dims[axis] = out;
  return y;
}

// Nearest needs no arithmetic, so any type goes through unchanged.
void CopyNearest(const Tensor& x, Tensor& y, const std::vector<std::vector<Source>>& sources,
                 double extrapolation) {
  if (y.dtype() != DType::kString && extrapolation != 0) {
    const Tensor value = MakeFilled(y.dtype(), {1}, extrapolation);
    Fill(y, &value);
  } else {
    Fill(y, nullptr);
  }
  const std::vector<int64_t> strides = RowMajorStrides(x.dims());
  Walk walk(y.dims(), {});
  CopyElements(x, y, y.size(), [&](int64_t i) {
    int64_t from = 0;
    for (int axis = 0; axis < y.rank() && from >= 0; ++axis) {
      const int64_t position = walk.index()[axis];
      if (sources[axis].empty()) {
        from += position * strides[axis];
      } else if (sources[axis][position].taps.empty()) {
        from = -1;
      } else {
        from += sources[axis][position].taps[0].first * strides[axis];
      }
    }
    walk.Next();
    return std::pair<int64_t, int64_t>(from, i);
  });
}

void ComputeResize(ComputeContext& context) {
  const Attributes& attributes = context.attributes();
  const Tensor& x = context.input(kX);
  Tensor& y = context.Allocate(0);
  const std::vector<int> axes = AxesOf(attributes, x.rank());
  std::vector<int64_t> in;
  for (int axis : axes) in.push_back(x.dims()[axis]);
  const bool by_sizes = context.has(kSizes);
  const Target target =
      Resolve(attributes, in, by_sizes ? std::vector<double>() : ToDoubles(context.input(kScales)),
              by_sizes ? ToInts(context.input(kSizes)) : std::vector<int64_t>());
  const std::string_view mode = attributes.String("coordinate_transformation_mode", "half_pixel");
  std::vector<double> roi;
  if (mode == "tf_crop_and_resize") {
    if (context.has(kRoi)) roi = ToDoubles(context.input(kRoi));
    if (roi.size() != 2 * axes.size()) {
      Fail(ErrorCode::kInvalidModel, "resize: tf_crop_and_resize needs a roi of {} numbers, not {}",
           2 * axes.size(), roi.size());
    }
  }
  // Per axis of x; empty: stays as it is.
  std::vector<std::vector<Source>> sources(x.rank());
  for (size_t i = 0; i < axes.size(); ++i) {
    const double start = roi.empty() ? 0 : roi[i], end = roi.empty() ? 1 : roi[axes.size() + i];
    const bool same = target.scales[i] == 1 && target.sizes[i] == in[i] && start == 0 && end == 1;
    if (same) continue;
    const Coordinates coordinates{mode,
                                  target.scales[i],
                                  static_cast<double>(in[i]),
                                  static_cast<double>(target.sizes[i]),
                                  start,
                                  end};
    for (int64_t o = 0; o < target.sizes[i]; ++o) {
      sources[axes[i]].push_back(SourceAt(attributes, coordinates, o));
    }
  }
  const double extrapolation = attributes.Float("extrapolation_value", 0);
  if (y.size() == 0) return;
  if (attributes.String("mode", "nearest") == "nearest")
    return CopyNearest(x, y, sources, extrapolation);
  ops::Numbers numbers = ops::ToNumbers(x, "interpolation");
  std::vector<int64_t> dims = x.dims();
  dims.push_back(numbers.parts);
  for (int axis : axes) {
    if (sources[axis].empty()) continue;
    numbers.values =
        ResizeAxis(numbers.values, dims, axis, sources[axis], extrapolation, numbers.parts);
  }
  ops::FromNumbers(std::move(numbers.values), y);
}

}  // namespace

const CoreOp resize = {
    .name = "resize", .inputs = "tt?t?t?", .infer = InferResize, .reference = ComputeResize};

}  // namespace sardonyx::core
