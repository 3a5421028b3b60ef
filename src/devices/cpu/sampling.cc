#include <limits>

#include "devices/cpu/families.h"
#include "kernels/col2im.h"
#include "kernels/crop_and_resize.h"
#include "kernels/deform.h"
#include "kernels/grid_sample.h"
#include "kernels/roi_align.h"
#include "ops/core/window.h"

namespace sardonyx::cpu {
namespace {

constexpr int64_t kMostPixels = std::numeric_limits<int32_t>::max();

// Refusals that all share.
std::string NotFloats(const BindRequest& request) {
  for (const Operand& input : request.inputs) {
    const bool counts = input.dtype == DType::kInt64;
    if (input.present() && input.dtype != DType::kFloat32 && !counts) {
      return fmt::format("an operand is {}", Name(input.dtype));
    }
  }
  if (request.inputs[0].dtype != DType::kFloat32) return "elements are not float";
  if (request.inputs[0].size() == 0 || request.outputs[0].size() == 0) return "no elements";
  return "";
}

BindResult BindGridSample(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  const DType type = x.dtype;
  if (type != DType::kFloat32 && type != DType::kFloat64) return "elements are not float or double";
  if (request.inputs[1].dtype != type) return "the grid is of another type";
  if (x.size() == 0 || request.outputs[0].size() == 0) return "no elements";
  const Attributes& attributes = request.node.attributes;
  const int rank = x.rank() - 2;
  if (rank != 2 && rank != 3) return Refuse("{} spatial dimensions, not 2 or 3", rank);
  const std::string_view mode = attributes.String("mode", "linear");
  const std::string_view padding = attributes.String("padding_mode", "zeros");
  using Shape = GridSampleShape;
  Shape shape{.batch = x.dims[0],
              .channels = x.dims[1],
              .points = request.inputs[1].size() / x.dims[0] / rank,
              .rank = rank,
              .sizes = {},
              .mode = mode == "nearest"  ? Shape::Mode::kNearest
                      : mode == "linear" ? Shape::Mode::kLinear
                                         : Shape::Mode::kCubic,
              .padding = padding == "zeros"    ? Shape::Padding::kZeros
                         : padding == "border" ? Shape::Padding::kBorder
                                               : Shape::Padding::kReflection,
              .align_corners = attributes.Int("align_corners") != 0};
  std::copy(x.dims.begin() + 2, x.dims.end(), shape.sizes.begin());
  if (shape.pixels() > kMostPixels) return Refuse("an image of {} pixels", shape.pixels());
  Bound bound;
  const auto bind = [&]<typename T>(T) {
    bound.scratch_bytes = GridSampleScratchBytes<T>(shape, request.threads);
    bound.run = [shape](const StepArgs& args) {
      GridSample(shape, static_cast<const T*>(args.in[0]), static_cast<const T*>(args.in[1]),
                 static_cast<T*>(args.out[0]), args.scratch, args.parallel);
    };
  };
  type == DType::kFloat32 ? bind(float{}) : bind(double{});
  return bound;
}

[[noreturn]] void FailBatchIndex(int64_t image, int64_t batch) {
  Fail(ErrorCode::kInvalidArgument, "batch index {} is outside [{},{}]", image, -batch, batch - 1);
}

BindResult BindRoiAlign(const BindRequest& request) {
  if (std::string why = NotFloats(request); !why.empty()) return why;
  if (request.inputs[2].dtype != DType::kInt64) return Refuse("batch indices are not int64");
  const Operand& x = request.inputs[0];
  const Attributes& attributes = request.node.attributes;
  const RoiAlignShape shape{.batch = x.dims[0],
                            .channels = x.dims[1],
                            .height = x.dims[2],
                            .width = x.dims[3],
                            .regions = request.outputs[0].dims[0],
                            .rows = request.outputs[0].dims[2],
                            .columns = request.outputs[0].dims[3],
                            .samples = std::max<int64_t>(0, attributes.Int("sampling_ratio")),
                            .half_pixel = attributes.Int("half_pixel") != 0,
                            .largest = attributes.String("mode") == "max",
                            .scale = static_cast<float>(attributes.Float("spatial_scale", 1))};
  if (shape.height * shape.width > kMostPixels) return Refuse("the images are too large");
  Bound bound;
  bound.scratch_bytes = RoiAlignScratchBytes(shape, request.threads);
  bound.run = [shape](const StepArgs& args) {
    const int64_t bad =
        RoiAlign(shape, static_cast<const float*>(args.in[0]),
                 static_cast<const float*>(args.in[1]), static_cast<const int64_t*>(args.in[2]),
                 static_cast<float*>(args.out[0]), args.scratch, args.parallel);
    if (bad < 0) return;
    const int64_t image = static_cast<const int64_t*>(args.in[2])[bad];
    if (image < -shape.batch || image >= shape.batch) FailBatchIndex(image, shape.batch);
    Fail(ErrorCode::kInvalidArgument, "roi_align: region {} is too large", bad);
  };
  return bound;
}

BindResult BindCropAndResize(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  const DType type = x.dtype;
  if (type != DType::kFloat32 && type != DType::kFloat64) return "elements are not float or double";
  if (request.inputs[2].dtype != DType::kInt64) return Refuse("batch indices are not int64");
  if (x.size() == 0 || request.outputs[0].size() == 0) return "no elements";
  const Attributes& attributes = request.node.attributes;
  const CropShape shape{.batch = x.dims[0],
                        .channels = x.dims[1],
                        .height = x.dims[2],
                        .width = x.dims[3],
                        .regions = request.outputs[0].dims[0],
                        .rows = request.outputs[0].dims[2],
                        .columns = request.outputs[0].dims[3],
                        .nearest = attributes.String("mode") == "nearest",
                        .outside = attributes.Float("extrapolation_value")};
  if (shape.height * shape.width > kMostPixels) return Refuse("the images are too large");
  Bound bound;
  const auto bind = [&]<typename T>(T) {
    bound.scratch_bytes = CropScratchBytes(shape, sizeof(T), request.threads);
    bound.run = [shape](const StepArgs& args) {
      const auto* images = static_cast<const int64_t*>(args.in[2]);
      const int64_t bad =
          CropAndResize(shape, static_cast<const T*>(args.in[0]), static_cast<const T*>(args.in[1]),
                        images, static_cast<T*>(args.out[0]), args.scratch, args.parallel);
      if (bad >= 0) FailBatchIndex(images[bad], shape.batch);
    };
  };
  type == DType::kFloat32 ? bind(float{}) : bind(double{});
  return bound;
}

BindResult BindDeformColumns(const BindRequest& request) {
  if (std::string why = NotFloats(request); !why.empty()) return why;
  const Operand& x = request.inputs[0];
  if (x.rank() != 4) return Refuse("{} spatial dimensions, not 2", x.rank() - 2);
  const Attributes& attributes = request.node.attributes;
  const std::vector<int64_t>& kernel = attributes.Ints("kernel");
  const core::Window window = core::ResolveWindow(attributes, std::span(x.dims).subspan(2), kernel);
  const auto axis = [&](int i) {
    return DeformAxis{x.dims[2 + i],     kernel[i],           window.out[i],
                      window.strides[i], window.dilations[i], window.pads_begin[i]};
  };
  const DeformShape shape{x.dims[0], x.dims[1], attributes.Int("offset_group", 1), axis(0),
                          axis(1)};
  if (x.dims[2] * x.dims[3] > kMostPixels) return Refuse("the images are too large");
  const bool masked = request.has(2);
  Bound bound;
  bound.scratch_bytes = DeformColumnsScratchBytes(shape, request.threads);
  bound.run = [shape, masked](const StepArgs& args) {
    DeformColumns(shape, static_cast<const float*>(args.in[0]),
                  static_cast<const float*>(args.in[1]),
                  masked ? static_cast<const float*>(args.in[2]) : nullptr,
                  static_cast<float*>(args.out[0]), args.scratch, args.parallel);
  };
  return bound;
}

BindResult BindCol2Im(const BindRequest& request) {
  if (std::string why = NotFloats(request); !why.empty()) return why;
  const Attributes& attributes = request.node.attributes;
  const std::vector<int64_t>&image = attributes.Ints("image"), &block = attributes.Ints("block");
  if (image.size() > 2) return Refuse("{} spatial dimensions, not 1 or 2", image.size());
  const core::Window window = core::ResolveWindow(attributes, image, block);
  const auto axis = [&](size_t i) {
    return Col2ImAxis{image[i],
                      block[i],
                      window.out[i],
                      window.strides[i],
                      window.dilations[i],
                      window.pads_begin[i]};
  };
  const Col2ImAxis rows = image.size() == 2 ? axis(0) : Col2ImAxis{1, 1, 1, 1, 1, 0};
  const Col2ImAxis columns = axis(image.size() - 1);
  const int64_t images = request.outputs[0].dims[0] * request.outputs[0].dims[1];
  Bound bound;
  bound.run = [rows, columns, images](const StepArgs& args) {
    Col2Im(images, rows, columns, static_cast<const float*>(args.in[0]),
           static_cast<float*>(args.out[0]), args.parallel);
  };
  return bound;
}

constexpr Implementation kGridSample[] = {{"taps", BindGridSample}};
constexpr Implementation kRoiAlign[] = {{"taps", BindRoiAlign}};
constexpr Implementation kCropAndResize[] = {{"gather", BindCropAndResize}};
constexpr Implementation kDeformColumns[] = {{"taps", BindDeformColumns}};
constexpr Implementation kCol2Im[] = {{"rows", BindCol2Im}};

}  // namespace

std::span<const Implementation> GridSampleList() { return kGridSample; }
std::span<const Implementation> RoiAlignList() { return kRoiAlign; }
std::span<const Implementation> CropAndResizeList() { return kCropAndResize; }
std::span<const Implementation> DeformColumnsList() { return kDeformColumns; }
std::span<const Implementation> Col2ImList() { return kCol2Im; }

}  // namespace sardonyx::cpu
