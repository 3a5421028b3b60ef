// GridSample: an image read at given points, in any number of spatial dimensions.

#include <algorithm>
#include <cmath>

#include "ops/core/reference.h"
#include "ops/lowering.h"
#include "ops/vision/sampling.h"

namespace sardonyx {
namespace core {
namespace {

enum Input : size_t { kX, kGrid };
enum class Mode { kNearest, kLinear, kCubic };
enum class Padding { kZeros, kBorder, kReflection };

struct Sampling {
  Mode mode;
  Padding padding;
  bool align_corners;

  explicit Sampling(const Attributes& attributes)
      : align_corners(attributes.Int("align_corners") != 0) {
    const std::string_view name = attributes.String("mode", "linear");
    const std::string_view outside = attributes.String("padding_mode", "zeros");
    if (name != "nearest" && name != "linear" && name != "cubic") {
      Fail(ErrorCode::kInvalidModel, "grid_sample: there is no mode '{}'", name);
    }
    if (outside != "zeros" && outside != "border" && outside != "reflection") {
      Fail(ErrorCode::kInvalidModel, "grid_sample: there is no padding_mode '{}'", outside);
    }
    mode = name == "nearest" ? Mode::kNearest : name == "linear" ? Mode::kLinear : Mode::kCubic;
    padding = outside == "zeros"    ? Padding::kZeros
              : outside == "border" ? Padding::kBorder
                                    : Padding::kReflection;
  }

  // Pixel coordinate of a number of the grid, in which -1 and 1 are the ends of an axis: centers of
  // its outermost pixels if corners are aligned, else their outer edges. In the type of the grid,
  // so that ties of `nearest` fall where they do elsewhere.
  template <typename C>
  double Denormalize(C x, int64_t size) const {
    const C n = static_cast<C>(size);
    return align_corners ? (x + 1) / 2 * (n - 1) : ((x + 1) * n - 1) / 2;
  }

  double Reflect(double x, int64_t size) const {
    const double low = align_corners ? 0 : -0.5, high = static_cast<double>(size) - 1 - low;
    if (x >= low && x <= high) return x;
    const double range = high - low, beyond = x < low ? low - x : x - high;
    const double turns = std::floor(beyond / range), rest = beyond - turns * range;
    const double from_low = (x < low) == (std::fmod(turns, 2) == 0) ? rest : range - rest;
    return std::isfinite(from_low) ? low + from_low : 0;  // an axis of one point, an infinity
  }

  // A pixel, or the one that stands for it outside of the image; -1: none.
  int64_t Pixel(int64_t i, int64_t size) const {
    if (i >= 0 && i < size) return i;
    if (padding == Padding::kZeros) return -1;
    if (padding == Padding::kReflection) {
      i = static_cast<int64_t>(Reflect(static_cast<double>(i), size));
    }
    return std::clamp<int64_t>(i, 0, size - 1);
  }

  // What a point reads on one axis.
  void TapsAt(double x, int64_t size, std::vector<ops::Tap>& taps) const {
    taps.clear();
    if (mode == Mode::kNearest) x = std::nearbyint(x);
    const double margin = align_corners ? 0 : 0.5, end = static_cast<double>(size) - 1;
    // Cubic windows see the image go on with its border; three pixels outside nothing else.
    const double beyond = mode == Mode::kCubic ? 3 : 0;
    if (padding == Padding::kZeros) {
      if (!(x > -2 && x < end + 2)) return;  // nor a NaN
    } else if (std::isnan(x)) {
      x = 0;
    } else if (x < -margin || x > end + margin) {
      x = padding == Padding::kBorder ? std::clamp(x, -beyond, end + beyond) : Reflect(x, size);
    }
    const double below = std::floor(x), rest = x - below;
    const auto add = [&](int step, double weight) {
      const int64_t pixel = Pixel(static_cast<int64_t>(below) + step, size);
      if (pixel >= 0) taps.emplace_back(pixel, weight);
    };
    if (mode == Mode::kNearest) return add(0, 1);
    for (int step = mode == Mode::kLinear ? 0 : -1; step <= (mode == Mode::kLinear ? 1 : 2);
         ++step) {
      const double distance = std::abs(rest - step);
      add(step, mode == Mode::kLinear ? 1 - distance : ops::CubicKernel(distance, -0.75));
    }
  }
};

void InferGridSample(InferContext& context) {
  const Sampling sampling(context.attributes());
  if (!IsFloat(context.dtype(kGrid))) {
    context.Fail("the grid holds floats, not {}", Name(context.dtype(kGrid)));
  }
  if (sampling.mode != Mode::kNearest && context.dtype(kX) == DType::kString) {
    context.Fail("strings cannot be interpolated, only mode 'nearest' moves them");
  }
  if (!context.ranked(kX) || !context.ranked(kGrid)) return context.Set(0, context.dtype(kX), {});
  const Dims &x = context.shape(kX), &grid = context.shape(kGrid);
  const bool fits =
      x.size() >= 3 && grid.size() == x.size() &&
      (!grid[0].known() || !x[0].known() || grid[0] == x[0]) &&
      (!grid.back().known() || grid.back() == Dim(static_cast<int64_t>(x.size()) - 2));
  if (!fits) {
    context.Fail("a grid {} does not fit an input {}", context.Print(grid), context.Print(x));
  }
  Dims shape{x[0], x[1]};
  shape.insert(shape.end(), grid.begin() + 1, grid.end() - 1);
  context.Set(0, context.dtype(kX), std::move(shape));
}

// Calls body(n, point, taps) for each point of each image's grid.
template <typename Body>
void ForEachPoint(const Sampling& sampling, const Tensor& x, const Tensor& grid, Body&& body) {
  const std::span<const int64_t> sizes = std::span(x.dims()).subspan(2);
  const size_t rank = sizes.size();
  const int64_t images = x.dims()[0];
  const int64_t points = images == 0 ? 0 : grid.size() / images / static_cast<int64_t>(rank);
  const bool wide = grid.dtype() == DType::kFloat64;
  const std::vector<double> coordinates = ToDoubles(grid);
  std::vector<std::vector<ops::Tap>> axes(rank);
  std::vector<ops::Tap> taps;
  for (int64_t i = 0; i < images * points; ++i) {
    const double* point = coordinates.data() + i * static_cast<int64_t>(rank);
    for (size_t axis = 0; axis < rank; ++axis) {
      const double value = point[rank - 1 - axis];  // the grid counts the last axis first
      const double at = wide ? sampling.Denormalize(value, sizes[axis])
                             : sampling.Denormalize(static_cast<float>(value), sizes[axis]);
      sampling.TapsAt(at, sizes[axis], axes[axis]);
    }
    ops::CombineTaps(axes, sizes, taps);
    body(i / points, i % points, taps);
  }
}

void ComputeGridSample(ComputeContext& context) {
  const Sampling sampling(context.attributes());
  const Tensor &x = context.input(kX), &grid = context.input(kGrid);
  Tensor& y = context.Allocate(0);
  if (y.size() == 0) return;
  const int64_t channels = x.dims()[1], pixels = ProductOf(x.dims(), 2, x.rank());
  const int64_t points = ProductOf(y.dims(), 2, y.rank());
  if (pixels == 0) {
    Fail(ErrorCode::kInvalidArgument, "grid_sample: images without pixels {}", PrintDims(x.dims()));
  }
  if (sampling.mode == Mode::kNearest) {
    Fill(y, nullptr);
    std::vector<int64_t> source;
    ForEachPoint(sampling, x, grid, [&](int64_t, int64_t, const std::vector<ops::Tap>& taps) {
      source.push_back(taps.empty() ? -1 : taps[0].first);
    });
    return CopyElements(x, y, y.size(), [&](int64_t i) {
      const int64_t image = i / points, from = source[image / channels * points + i % points];
      return std::pair<int64_t, int64_t>(from < 0 ? -1 : image * pixels + from, i);
    });
  }
  const ops::Numbers in = ops::ToNumbers(x, "interpolation");
  std::vector<double> result(y.size() * in.parts);
  ForEachPoint(sampling, x, grid, [&](int64_t n, int64_t point, const std::vector<ops::Tap>& taps) {
    for (int64_t c = n * channels; c < (n + 1) * channels; ++c) {
      for (int64_t part = 0; part < in.parts; ++part) {
        const double* image = in.values.data() + c * pixels * in.parts + part;
        double sum = 0;
        for (const auto& [pixel, weight] : taps) sum += weight * image[pixel * in.parts];
        result[(c * points + point) * in.parts + part] = sum;
      }
    }
  });
  ops::FromNumbers(std::move(result), y);
}

}  // namespace

const CoreOp grid_sample = {.name = "grid_sample",
                            .inputs = "tt",
                            .infer = InferGridSample,
                            .reference = ComputeGridSample};

}  // namespace core

namespace ops {

// Before version 20 the modes have the names of their two-dimensional forms.
Outputs LowerGridSample(Lowering& op) {
  std::string mode = op.String("mode", "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  return op.builder().Make(core::grid_sample, {op.in(0), op.in(1)},
                           {{"mode", mode},
                            {"padding_mode", op.String("padding_mode", "zeros")},
                            {"align_corners", op.Int("align_corners")}});
}

}  // namespace ops
}  // namespace sardonyx
