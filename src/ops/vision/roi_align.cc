// RoiAlign: regions of an image resampled on a grid, each output averaging its samples.

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/core/reference.h"
#include "ops/core/regions.h"
#include "ops/lowering.h"

namespace sardonyx {
namespace core {
namespace {

constexpr double kMostSamples = 1 << 14;  // an axis of one output; a region far beyond any image

void InferRoiAlign(InferContext& context) {
  const Attributes& attributes = context.attributes();
  const int64_t height = attributes.Int("output_height"), width = attributes.Int("output_width");
  if (height < 1 || width < 1) context.Fail("an output of {} by {}", height, width);
  InferRegions(context, height, width);
}

// Two neighbouring pixels and the weight of the second; none where a sample lies outside.
struct Between {
  int64_t low = 0, high = 0;
  double rest = 0;
  bool inside = false;
};

// Samples of every output along one axis, in the type C of the regions: the number of samples is a
// rounded quotient, which must round as it does elsewhere.
template <typename C>
std::vector<std::vector<Between>> SamplesOf(C start, C end, int64_t size, int64_t outputs,
                                            int64_t sampling_ratio, bool half_pixel) {
  C extent = end - start;
  if (!half_pixel) extent = std::max(extent, C(1));
  const C bin = extent / static_cast<C>(outputs);
  double count = sampling_ratio > 0 ? static_cast<double>(sampling_ratio) : std::ceil(bin);
  if (!(count <= kMostSamples)) {
    Fail(ErrorCode::kInvalidArgument, "roi_align: a region from {} to {} is too large",
         static_cast<double>(start), static_cast<double>(end));
  }
  count = std::max(count, 0.0);
  std::vector<std::vector<Between>> samples(outputs);
  for (int64_t o = 0; o < outputs; ++o) {
    for (int64_t i = 0; i < static_cast<int64_t>(count); ++i) {
      const C at = start + static_cast<C>(o) * bin +
                   (static_cast<C>(i) + C(0.5)) * bin / static_cast<C>(count);
      Between sample;
      if (at >= -1 && at <= static_cast<C>(size)) {
        const C x = std::max(at, C(0));
        sample.inside = true;
        sample.low = std::min(static_cast<int64_t>(x), size - 1);
        sample.high = std::min(sample.low + 1, size - 1);
        sample.rest = sample.high > sample.low ? static_cast<double>(x - std::floor(x)) : 0;
      }
      samples[o].push_back(sample);
    }
  }
  return samples;
}

// One output: the mean of the samples, or the largest product of a pixel and its weight. (Not of
// interpolated values: this is what the first implementation did and all others repeat.)
double Pool(const double* image, int64_t width, const std::vector<Between>& rows,
            const std::vector<Between>& columns, bool largest) {
  double sum = 0, most = -std::numeric_limits<double>::infinity();
  for (const Between& row : rows) {
    for (const Between& column : columns) {
      if (!row.inside || !column.inside) {
        most = std::max(most, 0.0);
        continue;
      }
      const double *low = image + row.low * width, *high = image + row.high * width;
      const double a = (1 - row.rest) * (1 - column.rest) * low[column.low];
      const double b = (1 - row.rest) * column.rest * low[column.high];
      const double c = row.rest * (1 - column.rest) * high[column.low];
      const double d = row.rest * column.rest * high[column.high];
      sum += a + b + c + d;
      most = std::max({most, a, b, c, d});
    }
  }
  const size_t count = rows.size() * columns.size();
  if (count == 0) return 0;
  return largest ? most : sum / static_cast<double>(count);
}

template <typename C>
void AlignRegions(const Attributes& attributes, const Tensor& x, const std::vector<double>& rois,
                  const std::vector<int64_t>& batch, std::vector<double>& y) {
  const int64_t channels = x.dims()[1], height = x.dims()[2], width = x.dims()[3];
  const int64_t rows = attributes.Int("output_height"), columns = attributes.Int("output_width");
  const int64_t ratio = attributes.Int("sampling_ratio");
  const bool half_pixel = attributes.Int("half_pixel") != 0;
  const bool largest = attributes.String("mode") == "max";
  const C scale = static_cast<C>(attributes.Float("spatial_scale", 1));
  const C shift = half_pixel ? C(0.5) : C(0);
  const std::vector<double> images = ToDoubles(x);
  double* target = y.data();
  for (size_t r = 0; r < batch.size(); ++r) {
    const auto corner = [&](size_t i) { return static_cast<C>(rois[4 * r + i]) * scale - shift; };
    const auto across = SamplesOf<C>(corner(0), corner(2), width, columns, ratio, half_pixel);
    const auto down = SamplesOf<C>(corner(1), corner(3), height, rows, ratio, half_pixel);
    for (int64_t c = 0; c < channels; ++c) {
      const double* image = images.data() + (batch[r] * channels + c) * height * width;
      for (const auto& row : down) {
        for (const auto& column : across) *target++ = Pool(image, width, row, column, largest);
      }
    }
  }
}

void ComputeRoiAlign(ComputeContext& context) {
  ComputeRegions(context, AlignRegions<float>, AlignRegions<double>);
}

}  // namespace

const CoreOp roi_align = {
    .name = "roi_align", .inputs = "ttt", .infer = InferRoiAlign, .reference = ComputeRoiAlign};

}  // namespace core

namespace ops {

Outputs LowerRoiAlign(Lowering& op) {
  const std::string mode = op.String("mode", "avg");
  if (mode != "avg" && mode != "max") op.Fail("there is no mode '{}'", mode);
  // Before version 16 nothing is shifted.
  const std::string coordinates = op.version() < 16
                                      ? "output_half_pixel"
                                      : op.String("coordinate_transformation_mode", "half_pixel");
  if (coordinates != "half_pixel" && coordinates != "output_half_pixel") {
    op.Fail("there is no coordinate_transformation_mode '{}'", coordinates);
  }
  return op.builder().Make(core::roi_align, {op.in(0), op.in(1), op.in(2)},
                           {{"mode", mode},
                            {"half_pixel", int64_t{coordinates == "half_pixel"}},
                            {"output_height", op.Int("output_height", 1)},
                            {"output_width", op.Int("output_width", 1)},
                            {"sampling_ratio", op.Int("sampling_ratio")},
                            {"spatial_scale", op.Float("spatial_scale", 1)}});
}

}  // namespace ops
}  // namespace sardonyx
