#include "kernels/resize.h"

#include <optional>
#include <span>
#include <string>

#include "devices/cpu/families.h"

namespace sardonyx::cpu {
namespace {

constexpr std::pair<std::string_view, ResizeCoordinates> kCoordinates[] = {
    {"half_pixel", ResizeCoordinates::kHalfPixel},
    {"half_pixel_symmetric", ResizeCoordinates::kHalfPixelSymmetric},
    {"pytorch_half_pixel", ResizeCoordinates::kPytorchHalfPixel},
    {"align_corners", ResizeCoordinates::kAlignCorners},
    {"asymmetric", ResizeCoordinates::kAsymmetric},
    {"tf_crop_and_resize", ResizeCoordinates::kTfCropAndResize},
    {"tf_half_pixel_for_nn", ResizeCoordinates::kTfHalfPixelForNearest}};
constexpr std::pair<std::string_view, ResizeNearest> kNearest[] = {
    {"round_prefer_floor", ResizeNearest::kRoundPreferFloor},
    {"round_prefer_ceil", ResizeNearest::kRoundPreferCeil},
    {"floor", ResizeNearest::kFloor},
    {"ceil", ResizeNearest::kCeil}};
constexpr std::pair<std::string_view, ResizeMode> kModes[] = {{"nearest", ResizeMode::kNearest},
                                                              {"linear", ResizeMode::kLinear},
                                                              {"cubic", ResizeMode::kCubic}};

template <typename T, size_t kCount>
bool Choose(const std::pair<std::string_view, T> (&table)[kCount], std::string_view name,
            T* value) {
  for (const auto& [text, entry] : table) {
    if (text == name) {
      *value = entry;
      return true;
    }
  }
  return false;
}

// The options that a node states; what is not taken, else an empty text.
std::string ReadOptions(const BindRequest& request, ResizeOptions* options) {
  const Attributes& attributes = request.node.attributes;
  if (!Choose(kModes, attributes.String("mode", "nearest"), &options->mode) ||
      !Choose(kCoordinates, attributes.String("coordinate_transformation_mode", "half_pixel"),
              &options->coordinates) ||
      !Choose(kNearest, attributes.String("nearest_mode", "round_prefer_floor"),
              &options->nearest)) {
    return "an unknown mode";
  }
  if (options->coordinates == ResizeCoordinates::kTfCropAndResize) return "crops while it resizes";
  if (attributes.String("keep_aspect_ratio_policy", "stretch") != "stretch") {
    return "keeps the aspect ratio";
  }
  options->cubic_coefficient = static_cast<float>(attributes.Float("cubic_coeff_a", -0.75));
  options->exclude_outside = attributes.Int("exclude_outside") != 0;
  options->antialias = attributes.Int("antialias") != 0;
  return {};
}

// Of each dimension. Scales as given matter beyond the sizes that follow from them. Nothing where
// they are not known.
std::optional<std::vector<double>> Scales(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  std::vector<double> scales(x.rank());
  for (int i = 0; i < x.rank(); ++i) {
    scales[i] = static_cast<double>(request.outputs[0].dims[i]) / static_cast<double>(x.dims[i]);
  }
  if (!request.has(2) || request.inputs[2].size() == 0) return scales;
  if (request.inputs[2].constant == nullptr) return std::nullopt;
  const std::vector<double> values = ToDoubles(*request.inputs[2].constant);
  const auto& axes = request.node.attributes.Ints("axes");
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t axis = axes.empty() ? static_cast<int64_t>(i) : axes[i];
    scales[axis < 0 ? axis + x.rank() : axis] = values[i];
  }
  return scales;
}

// Dimensions that change are one to three adjacent ones; before them planes, behind them channels.
// Where none changes, the first that is not 1 stands for them.
struct Geometry {
  std::vector<ResizeAxis> axes;
  int64_t planes = 1, channels = 1;
  bool changes_none = false;

  Geometry(const Operand& x, const Operand& y, std::span<const double> scales) {
    const auto changes = [&](int i) { return x.dims[i] != y.dims[i] || scales[i] != 1.0; };
    int first = 0, last = x.rank();
    while (first < last && !changes(first)) planes *= x.dims[first++];
    while (last > first && !changes(last - 1)) channels *= x.dims[--last];
    changes_none = first == last;
    if (changes_none && x.rank() > 0) {
      first = 0;
      while (first + 1 < x.rank() && x.dims[first] == 1) ++first;
      last = first + 1;
      planes = 1;
      channels = x.size() / x.dims[first];
    }
    for (int i = first; i < last; ++i) {
      axes.push_back({.in = x.dims[i], .out = y.dims[i], .scale = scales[i]});
    }
  }
};

BindResult BindSeparable(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  const Operand& y = request.outputs[0];
  if (x.size() == 0 || y.size() == 0) return Refuse("no elements");
  if (IsPacked(x.dtype)) return NoWidth(x.dtype);
  ResizeOptions options;
  if (const std::string why = ReadOptions(request, &options); !why.empty()) {
    return Refuse("{}", why);
  }
  const std::optional<std::vector<double>> scales = Scales(request);
  if (!scales) return Refuse("scales are not known");
  const Geometry geometry(x, y, *scales);
  if (geometry.changes_none) {
    if (geometry.axes.empty() || options.coordinates == ResizeCoordinates::kTfHalfPixelForNearest) {
      return Refuse("nothing changes");
    }
    options = {};  // each pixel is its own nearest one, whatever the mode
  }
  const bool bytes = options.mode == ResizeMode::kLinear && IsByte(x.dtype);
  if (options.mode != ResizeMode::kNearest && x.dtype != DType::kFloat32 && !bytes) {
    return Refuse("element type is {}", Name(x.dtype));
  }
  if (geometry.axes.size() > 3) return Refuse("more than three dimensions change");
  const int64_t planes = geometry.planes, channels = geometry.channels;
  auto plan = std::make_shared<const ResizePlan>(PrepareResize(geometry.axes, options));
  // Pixels are rows if the channels are all that comes behind the axes, the last dimension.
  const bool has_rows = geometry.channels == y.dims.back() && geometry.channels > 1;
  const int64_t y_stride = y.row_stride;
  Bound bound;
  bound.apart_output = has_rows && !bytes;
  if (options.mode == ResizeMode::kNearest && !(options.antialias && x.dtype == DType::kFloat32)) {
    const int width = BitWidth(x.dtype) / 8;
    bound.run = [plan, planes, channels, width, y_stride](const StepArgs& args) {
      ResizeNearestBytes(*plan, args.in[0], args.out[0], planes, channels * width, nullptr, width,
                         args.parallel, y_stride * width);
    };
    return bound;
  }
  if (bytes) {
    bound.scratch_bytes = static_cast<int64_t>(ResizeBytesScratchBytes(*plan, planes, channels));
    const auto with = [&](auto tag) -> BindResult {
      using T = typename decltype(tag)::type;
      bound.run = [plan, planes, channels](const StepArgs& args) {
        ResizeBytes(*plan, static_cast<const T*>(args.in[0]), static_cast<T*>(args.out[0]), planes,
                    channels, args.scratch, args.parallel);
      };
      return std::move(bound);
    };
    return x.dtype == DType::kUInt8 ? with(TypeTag<uint8_t>{}) : with(TypeTag<int8_t>{});
  }
  bound.scratch_bytes = static_cast<int64_t>(ResizeScratchBytes(*plan, planes, channels));
  bound.run = [plan, planes, channels, y_stride](const StepArgs& args) {
    Resize(*plan, static_cast<const float*>(args.in[0]), static_cast<float*>(args.out[0]), planes,
           channels, args.scratch, args.parallel, y_stride);
  };
  return bound;
}

constexpr Implementation kList[] = {{"separable", BindSeparable}};

}  // namespace

std::span<const Implementation> ResizeList() { return kList; }

}  // namespace sardonyx::cpu
