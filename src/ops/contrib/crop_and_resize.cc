// CropAndResize of com.microsoft: boxes of images, each resized to the same size.

#include <algorithm>
#include <cmath>

#include "ops/core/reference.h"
#include "ops/core/regions.h"
#include "ops/lowering.h"

namespace sardonyx {
namespace core {
namespace {

void InferCropAndResize(InferContext& context) {
  const Attributes& attributes = context.attributes();
  const int64_t height = attributes.Int("height"), width = attributes.Int("width");
  if (height < 1 || width < 1) context.Fail("crops of {} by {} pixels", height, width);
  InferRegions(context, height, width);
}

// Two pixels of an axis and how far from the first to the second an output lies; none outside.
struct Between {
  int64_t low = 0, high = 0;
  double rest = 0;
  bool inside = false;
};

// In the type C of the boxes: whether a point at the edge lies outside is a matter of rounding.
template <typename C>
std::vector<Between> AxisOf(C start, C end, int64_t size, int64_t outputs, bool nearest) {
  const C last = static_cast<C>(size - 1);
  const C scale = outputs > 1 ? (end - start) * last / static_cast<C>(outputs - 1) : C(0);
  std::vector<Between> points(outputs);
  for (int64_t i = 0; i < outputs; ++i) {
    const C at =
        outputs > 1 ? start * last + static_cast<C>(i) * scale : C(0.5) * (start + end) * last;
    Between& point = points[i];
    point.inside = at >= 0 && at <= last;
    if (!point.inside) continue;
    if (nearest) {
      point.low = point.high = static_cast<int64_t>(std::round(at));
    } else {
      point.low = static_cast<int64_t>(std::floor(at));
      point.high = static_cast<int64_t>(std::ceil(at));
      point.rest = static_cast<double>(at - std::floor(at));
    }
  }
  return points;
}

template <typename C>
void CropAll(const Attributes& attributes, const Tensor& x, const std::vector<double>& rois,
             const std::vector<int64_t>& batch, std::vector<double>& y) {
  const int64_t channels = x.dims()[1], height = x.dims()[2], width = x.dims()[3];
  const bool nearest = attributes.String("mode") == "nearest";
  const double outside = attributes.Float("extrapolation_value");
  const std::vector<double> images = ToDoubles(x);
  double* target = y.data();
  for (size_t r = 0; r < batch.size(); ++r) {
    const auto corner = [&](size_t i) { return static_cast<C>(rois[4 * r + i]); };
    const auto rows = AxisOf<C>(corner(0), corner(2), height, attributes.Int("height"), nearest);
    const auto columns = AxisOf<C>(corner(1), corner(3), width, attributes.Int("width"), nearest);
    for (int64_t c = 0; c < channels; ++c) {
      const double* image = images.data() + (batch[r] * channels + c) * height * width;
      for (const Between& row : rows) {
        const double *low = image + row.low * width, *high = image + row.high * width;
        for (const Between& column : columns) {
          const auto across = [&](const double* line) {
            return line[column.low] + (line[column.high] - line[column.low]) * column.rest;
          };
          *target++ = row.inside && column.inside
                          ? across(low) + (across(high) - across(low)) * row.rest
                          : outside;
        }
      }
    }
  }
}

void ComputeCropAndResize(ComputeContext& context) {
  ComputeRegions(context, CropAll<float>, CropAll<double>);
}

}  // namespace

const CoreOp crop_and_resize = {.name = "crop_and_resize",
                                .inputs = "ttt",
                                .infer = InferCropAndResize,
                                .reference = ComputeCropAndResize};

}  // namespace core

namespace ops::contrib {

// Halves are too coarse for positions: boxes are read as floats.
Outputs LowerCropAndResize(Lowering& op) {
  const std::string mode = op.String("mode", "bilinear");
  if (mode != "bilinear" && mode != "nearest") op.Fail("there is no mode '{}'", mode);
  const std::vector<int64_t> size = op.in(3).ints();
  if (size.size() != 2) op.Fail("crop_size has {} elements, not 2", size.size());
  const Val y = op.builder().Make(core::crop_and_resize,
                                  {Widen(op.in(0)), Widen(op.in(1)), Cast(op.in(2), DType::kInt64)},
                                  {{"mode", mode},
                                   {"height", size[0]},
                                   {"width", size[1]},
                                   {"extrapolation_value", op.Float("extrapolation_value")}});
  return CastLike(y, op.in(0));
}

}  // namespace ops::contrib
}  // namespace sardonyx
