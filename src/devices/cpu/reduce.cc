#include "kernels/reduce.h"

#include <algorithm>
#include <numeric>

#include "devices/cpu/families.h"
#include "kernels/strided_copy.h"

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

// Which dimensions are reduced: all where no axes are said.
std::vector<bool> ReducedOf(const BindRequest& request) {
  const int64_t rank = request.inputs[0].rank();
  const Attributes& attributes = request.node.attributes;
  std::vector<bool> reduced(static_cast<size_t>(rank), attributes.Find("axes") == nullptr);
  for (const int64_t axis : attributes.Ints("axes")) {
    reduced[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = true;
  }
  return reduced;
}

// Adjacent dimensions that are all reduced or all kept count as one; sizes of 1 as either.
bool Collapse(const Operand& x, const std::vector<bool>& reduced, ReduceShape* shape) {
  int64_t* const parts[] = {&shape->outer, &shape->reduced, &shape->inner, &shape->reduced2};
  int at = 0;
  for (int i = 0; i < x.rank(); ++i) {
    if (x.dims[i] == 1) continue;
    while (at < 4 && (at % 2 == 1) != reduced[static_cast<size_t>(i)]) ++at;
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
  if (!Collapse(x, ReducedOf(request), &shape) || (shape.inner > 1 && shape.reduced2 > 1)) {
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

// Of x as it is, or as copied to scratch, of the given shape.
BindResult BindShape(const BindRequest& request, const ReduceShape& shape) {
  const Operand& x = request.inputs[0];
  const std::string_view name = request.node.attributes.String("kind");
  const auto* kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                  [&](const auto& entry) { return entry.first == name; });
  if (kind == std::end(kKinds)) return Refuse("kind is {}", name);
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

BindResult BindReduce(const BindRequest& request) {
  ReduceShape shape;
  if (!Collapse(request.inputs[0], ReducedOf(request), &shape)) {
    return Refuse("the axes are more than two groups");
  }
  return BindShape(request, shape);
}

// Of more groups: x is copied, to where what is reduced lies before the last dimensions that are
// kept, and these in a row.
BindResult BindCopied(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  const std::vector<bool> reduced = ReducedOf(request);
  const auto inner = std::find(reduced.rbegin(), reduced.rend(), true).base() - reduced.begin();
  std::vector<size_t> order(reduced.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto place = [&](size_t i) { return std::pair<bool, size_t>(reduced[i], i); };
  std::sort(order.begin(), order.begin() + inner,
            [&](size_t a, size_t b) { return place(a) < place(b); });
  const auto middle = order.begin() + std::count(reduced.begin(), reduced.begin() + inner, false);
  ReduceShape shape;
  for (auto i = order.begin(); i != order.end(); ++i) {
    int64_t& part = i < middle                  ? shape.outer
                    : i < order.begin() + inner ? shape.reduced
                                                : shape.inner;
    part *= x.dims[*i];
  }
  BindResult result = BindShape(request, shape);
  auto* const bound = std::get_if<Bound>(&result);
  if (bound == nullptr) return result;
  const std::vector<int64_t> strides = Strides(x);
  std::vector<int64_t> dims, from;
  for (const size_t i : order) {
    dims.push_back(x.dims[i]);
    from.push_back(strides[i]);
  }
  bound->scratch_bytes = ByteSize(x.dtype, x.size());
  bound->run = [run = std::move(bound->run),
                plan = PrepareStridedCopy(dims, from, RowMajorStrides(dims), Width(x.dtype))](
                   const StepArgs& args) {
    StridedCopy(plan, args.in[0], args.scratch, args.parallel);
    StepArgs copied = args;
    const void* const in[] = {args.scratch};
    copied.in = in;
    run(copied);
  };
  return result;
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

// Of nothing, whose result is the same for each set: what the reference says of one.
BindResult BindNothing(const BindRequest& request) {
  const Operand &x = request.inputs[0], &y = request.outputs[0];
  if (x.size() > 0) return "there are elements";
  if (request.outputs.size() != 1 || y.dtype == DType::kString || IsPacked(y.dtype)) {
    return Refuse("element type is {}", Name(y.dtype));
  }
  std::vector<int64_t> dims = x.dims;
  const std::vector<bool> reduced = ReducedOf(request);
  for (size_t i = 0; i < dims.size(); ++i) dims[i] = reduced[i] ? dims[i] : 1;
  const std::vector<Datum> of_one = RunReference(request.node, {{Tensor(x.dtype, dims)}});
  const Tensor* const value = of_one[0].tensor();
  if (value == nullptr || value->size() != 1) return "it is of several sets";
  Bound bound;
  bound.run = [value = *value, count = y.size()](const StepArgs& args) {
    const int64_t width = value.bytes();
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(static_cast<char*>(args.out[0]) + i * width, value.raw(), width);
    }
  };
  return bound;
}

constexpr Implementation kReduce[] = {{"grouped axes", BindReduce},
                                      {"axes of a copy", BindCopied},
                                      {"sum of bytes", BindByteSum},
                                      {"range", BindRange},
                                      {"of nothing", BindNothing}};
constexpr Implementation kArgReduce[] = {{"one axis", BindArgReduce}};

}  // namespace

std::span<const Implementation> ReduceList() { return kReduce; }
std::span<const Implementation> ArgReduceList() { return kArgReduce; }

}  // namespace sardonyx::cpu
