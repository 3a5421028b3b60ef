#include "kernels/reduce.h"

#include <algorithm>

#include "devices/cpu/families.h"

namespace sardonyx::cpu {
namespace {

constexpr std::pair<std::string_view, ReduceKind> kKinds[] = {
    {"sum", ReduceKind::kSum},        {"mean", ReduceKind::kMean},
    {"max", ReduceKind::kMax},        {"min", ReduceKind::kMin},
    {"prod", ReduceKind::kProd},      {"sum_square", ReduceKind::kSumSquare},
    {"l1", ReduceKind::kL1},          {"l2", ReduceKind::kL2},
    {"log_sum", ReduceKind::kLogSum}, {"log_sum_exp", ReduceKind::kLogSumExp}};

// Calls body with a tag of the kernel's type; bool goes as uint8. False for other types.
template <typename Body>
bool WithType(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kFloat32: body(TypeTag<float>{}); return true;
    case DType::kFloat64: body(TypeTag<double>{}); return true;
    case DType::kInt8: body(TypeTag<int8_t>{}); return true;
    case DType::kBool:
    case DType::kUInt8: body(TypeTag<uint8_t>{}); return true;
    case DType::kInt16: body(TypeTag<int16_t>{}); return true;
    case DType::kUInt16: body(TypeTag<uint16_t>{}); return true;
    case DType::kInt32: body(TypeTag<int32_t>{}); return true;
    case DType::kUInt32: body(TypeTag<uint32_t>{}); return true;
    case DType::kInt64: body(TypeTag<int64_t>{}); return true;
    case DType::kUInt64: body(TypeTag<uint64_t>{}); return true;
    default: return false;
  }
}

// Adjacent dimensions that are all reduced or all kept count as one; sizes of 1 as either.
bool Collapse(const Operand& x, const std::vector<int64_t>& axes, bool all, ReduceShape* shape) {
  int64_t* const parts[] = {&shape->outer, &shape->reduced, &shape->inner, &shape->reduced2};
  int at = 0;
  for (int i = 0; i < x.rank(); ++i) {
    if (x.dims[i] == 1) continue;
    const bool reduced = all || std::any_of(axes.begin(), axes.end(), [&](int64_t axis) {
                           return (axis < 0 ? axis + x.rank() : axis) == i;
                         });
    while (at < 4 && (at % 2 == 1) != reduced) ++at;
    if (at == 4) return false;
    *parts[at] *= x.dims[i];
  }
  return true;
}

template <typename T>
Bound BoundByteSum(const ReduceShape& shape) {
  Bound bound;
  bound.run = [shape](const StepArgs& args) {
    SumBytes(static_cast<const T*>(args.in[0]), static_cast<int32_t*>(args.out[0]), shape,
             args.parallel);
  };
  return bound;
}

BindResult BindByteSum(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  const Attributes& attributes = request.node.attributes;
  if (attributes.String("kind") != "byte_sum") return "no sum of bytes";
  ReduceShape shape;
  if (!Collapse(x, attributes.Ints("axes"), attributes.Find("axes") == nullptr, &shape) ||
      (shape.inner > 1 && shape.reduced2 > 1)) {
    return Refuse("the axes are more than one group");
  }
  if (x.size() == 0) return Refuse("no elements");
  return x.dtype == DType::kInt8 ? BoundByteSum<int8_t>(shape) : BoundByteSum<uint8_t>(shape);
}

BindResult BindRange(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  if (request.node.attributes.String("kind") != "range") return "no range";
  if (x.dtype != DType::kFloat32) return Refuse("element type is {}", Name(x.dtype));
  Bound bound;
  bound.run = [size = x.size()](const StepArgs& args) {
    const FloatRange range = Range(static_cast<const float*>(args.in[0]), size, args.parallel);
    *static_cast<float*>(args.out[0]) = range.least;
    *static_cast<float*>(args.out[1]) = range.greatest;
  };
  return bound;
}

BindResult BindReduce(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  const Attributes& attributes = request.node.attributes;
  const auto* kind = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const auto& entry) {
    return entry.first == attributes.String("kind");
  });
  if (kind == std::end(kKinds)) return Refuse("kind is {}", attributes.String("kind"));
  ReduceShape shape;
  if (!Collapse(x, attributes.Ints("axes"), attributes.Find("axes") == nullptr, &shape)) {
    return Refuse("the axes are more than two groups");
  }
  if (x.size() == 0) return Refuse("no elements");
  Bound bound;
  const bool known = WithType(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    bound.run = [shape, op = kind->second](const StepArgs& args) {
      Reduce<T>(op, static_cast<const T*>(args.in[0]), static_cast<T*>(args.out[0]), shape,
                args.parallel);
    };
  });
  if (!known || request.outputs[0].dtype != x.dtype)
    return Refuse("element type is {}", Name(x.dtype));
  return bound;
}

BindResult BindArgReduce(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  const Attributes& attributes = request.node.attributes;
  if (x.size() == 0) return Refuse("no elements");
  const bool largest = attributes.String("kind") == "argmax";
  const bool last = attributes.Int("select_last_index") != 0;
  const Line line = Around(x, attributes.Int("axis"));
  Bound bound;
  const bool known = WithType(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    bound.run = [=](const StepArgs& args) {
      ArgReduce<T>(largest, last, static_cast<const T*>(args.in[0]),
                   static_cast<int64_t*>(args.out[0]), line.outer, line.size, line.inner,
                   args.parallel);
    };
  });
  if (!known) return Refuse("element type is {}", Name(x.dtype));
  return bound;
}

constexpr Implementation kReduce[] = {
    {"grouped axes", BindReduce}, {"sum of bytes", BindByteSum}, {"range", BindRange}};
constexpr Implementation kArgReduce[] = {{"one axis", BindArgReduce}};

}  // namespace

std::span<const Implementation> ReduceList() { return kReduce; }
std::span<const Implementation> ArgReduceList() { return kArgReduce; }

}  // namespace sardonyx::cpu
