#include "kernels/pool.h"

#include "devices/cpu/families.h"
#include "kernels/pool_planes.h"
#include "ops/core/core.h"
#include "ops/core/window.h"

namespace sardonyx::cpu {
namespace {

std::string MakeShape(const BindRequest& request, PoolShape* shape) {
  const Operand& x = request.inputs[0];
  const int all = x.rank() - 2;
  if (all < 1) return "no spatial dimensions";
  if (x.size() == 0 || request.outputs[0].size() == 0) return "no elements";
  const core::Window window =
      core::ResolveWindow(request.node.attributes, std::span(x.dims).subspan(1, all),
                          request.node.attributes.Ints("kernel"));
  // A first axis that windows do not span is one with the batch; indices would tell it apart.
  const bool joins = all > 1 && request.outputs.size() == 1 && window.kernel[0] == 1 &&
                     window.strides[0] == 1 && window.pads_begin[0] == 0 && window.pads_end[0] == 0;
  const int skip = joins ? 1 : 0, spatial = all - skip;
  if (spatial > 3) return fmt::format("{} spatial dimensions, more than 3", spatial);
  shape->batch = x.dims[0] * (joins ? x.dims[1] : 1);
  shape->channels = x.dims.back();
  shape->x_stride = x.row_stride;
  shape->y_stride = request.outputs[0].row_stride;
  for (int i = 0; i < spatial; ++i) {
    const int to = 3 - spatial + i;
    const int from = skip + i;
    shape->in[to] = x.dims[1 + from];
    shape->out[to] = window.out[from];
    shape->kernel[to] = window.kernel[from];
    shape->stride[to] = window.strides[from];
    shape->dilation[to] = window.dilations[from];
    shape->pad_begin[to] = window.pads_begin[from];
    shape->pad_end[to] = window.pads_end[from];
  }
  return "";
}

BindResult BindPlanes(const BindRequest& request) {
  PoolShape shape;
  if (std::string why = MakeShape(request, &shape); !why.empty()) return why;
  if (request.outputs.size() > 1) return Refuse("indices are wanted");
  const DType type = request.inputs[0].dtype;
  const PlanePool kind = request.node.op == &core::max_pool ? PlanePool::kMax
                         : request.node.attributes.Int("count_include_pad") != 0
                             ? PlanePool::kAverageWithPad
                             : PlanePool::kAverage;
  if (!CanPoolPlanes(shape, kind, type)) {
    return Refuse("{} channels of type {}", shape.channels, Name(type));
  }
  Bound bound;
  bound.run = [=](const StepArgs& args) {
    PoolPlanes(shape, kind, type, args.in[0], args.out[0], args.parallel);
  };
  return bound;
}

template <typename T>
Bound BoundMax(const PoolShape& shape, PoolIndexOrder order, bool indices) {
  Bound bound;
  const bool takes_apart = std::is_same_v<T, float> && !indices;
  bound.apart = takes_apart ? 1u << 0 : 0;
  bound.apart_output = takes_apart;
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
  bound.apart = std::is_same_v<T, float> ? 1u << 0 : 0;
  bound.apart_output = std::is_same_v<T, float>;
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

constexpr Implementation kMax[] = {{"planes", BindPlanes}, {"channels last", BindMax}};
constexpr Implementation kAverage[] = {{"planes", BindPlanes}, {"channels last", BindAverage}};
constexpr Implementation kLp[] = {{"channels last", BindLp}};

}  // namespace

std::span<const Implementation> MaxPoolList() { return kMax; }
std::span<const Implementation> AveragePoolList() { return kAverage; }
std::span<const Implementation> LpPoolList() { return kLp; }

}  // namespace sardonyx::cpu
