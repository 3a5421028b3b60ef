#include "kernels/pool.h"

#include "devices/cpu/families.h"
#include "ops/core/window.h"

namespace sardonyx::cpu {
namespace {

std::string MakeShape(const BindRequest& request, PoolShape* shape) {
  const Operand& x = request.inputs[0];
  const int spatial = x.rank() - 2;
  if (spatial < 1 || spatial > 3) return fmt::format("{} spatial dimensions, not 1 to 3", spatial);
  if (x.size() == 0 || request.outputs[0].size() == 0) return "no elements";
  const core::Window window =
      core::ResolveWindow(request.node.attributes, std::span(x.dims).subspan(1, spatial),
                          request.node.attributes.Ints("kernel"));
  shape->batch = x.dims[0];
  shape->channels = x.dims.back();
  for (int i = 0; i < spatial; ++i) {
    const int to = 3 - spatial + i;
    shape->in[to] = x.dims[1 + i];
    shape->out[to] = window.out[i];
    shape->kernel[to] = window.kernel[i];
    shape->stride[to] = window.strides[i];
    shape->dilation[to] = window.dilations[i];
    shape->pad_begin[to] = window.pads_begin[i];
    shape->pad_end[to] = window.pads_end[i];
  }
  return "";
}

template <typename T>
Bound BoundMax(const PoolShape& shape, PoolIndexOrder order, bool indices) {
  Bound bound;
  bound.run = [shape, order, indices](const StepArgs& args) {
    MaxPool<T>(shape, static_cast<const T*>(args.in[0]), static_cast<T*>(args.out[0]),
               indices ? static_cast<int64_t*>(args.out[1]) : nullptr, order, args.parallel);
  };
  return bound;
}

BindResult BindMax(const BindRequest& request) {
  PoolShape shape;
  if (std::string why = MakeShape(request, &shape); !why.empty()) return why;
  const PoolIndexOrder order = request.node.attributes.Int("storage_order") == 0
                                   ? PoolIndexOrder::kRowMajor
                                   : PoolIndexOrder::kColumnMajor;
  const bool indices = request.outputs.size() > 1;
  switch (request.inputs[0].dtype) {
    case DType::kFloat32: return BoundMax<float>(shape, order, indices);
    case DType::kFloat64: return BoundMax<double>(shape, order, indices);
    case DType::kInt8: return BoundMax<int8_t>(shape, order, indices);
    case DType::kUInt8: return BoundMax<uint8_t>(shape, order, indices);
    default: return Refuse("element type is {}", Name(request.inputs[0].dtype));
  }
}

template <typename T>
Bound BoundAverage(const PoolShape& shape, bool include_pad) {
  Bound bound;
  bound.run = [shape, include_pad](const StepArgs& args) {
    AveragePool<T>(shape, static_cast<const T*>(args.in[0]), static_cast<T*>(args.out[0]),
                   include_pad, args.parallel);
  };
  return bound;
}

BindResult BindAverage(const BindRequest& request) {
  PoolShape shape;
  if (std::string why = MakeShape(request, &shape); !why.empty()) return why;
  const bool include_pad = request.node.attributes.Int("count_include_pad") != 0;
  switch (request.inputs[0].dtype) {
    case DType::kFloat32: return BoundAverage<float>(shape, include_pad);
    case DType::kFloat64: return BoundAverage<double>(shape, include_pad);
    default: return Refuse("element type is {}", Name(request.inputs[0].dtype));
  }
}

BindResult BindLp(const BindRequest& request) {
  PoolShape shape;
  if (std::string why = MakeShape(request, &shape); !why.empty()) return why;
  if (request.inputs[0].dtype != DType::kFloat32) {
    return Refuse("element type is {}", Name(request.inputs[0].dtype));
  }
  const double exponent = request.node.attributes.Float("p", 2);
  const int64_t p = static_cast<int64_t>(exponent);
  if (static_cast<double>(p) != exponent) return Refuse("the exponent is {}", exponent);
  Bound bound;
  bound.run = [shape, p](const StepArgs& args) {
    LpPool(shape, static_cast<const float*>(args.in[0]), static_cast<float*>(args.out[0]), p,
           args.parallel);
  };
  return bound;
}

constexpr Implementation kMax[] = {{"channels last", BindMax}};
constexpr Implementation kAverage[] = {{"channels last", BindAverage}};
constexpr Implementation kLp[] = {{"channels last", BindLp}};

}  // namespace

std::span<const Implementation> MaxPoolList() { return kMax; }
std::span<const Implementation> AveragePoolList() { return kAverage; }
std::span<const Implementation> LpPoolList() { return kLp; }

}  // namespace sardonyx::cpu
