// Operations that choose elements by value or position: topk, trilu, one_hot; and those that make
// them from others along a line: cumulative, range, eye_like.

#include "kernels/select.h"

#include <algorithm>
#include <cstring>

#include "devices/cpu/families.h"
#include "kernels/cumulative.h"
#include "kernels/topk.h"

namespace sardonyx::cpu {
namespace {

BindResult BindTopK(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  const Attributes& attributes = request.node.attributes;
  const int64_t axis = attributes.Int("axis", -1);
  const Line line = Around(x, axis);
  TopKShape shape{.outer = line.outer,
                  .n = line.size,
                  .inner = line.inner,
                  .k = Around(request.outputs[0], axis).size,
                  .element_bytes = BitWidth(x.dtype) / 8,
                  .order = OrderedBits::kUnsigned,
                  .largest = attributes.Int("largest", 1) != 0};
  if (!OrderOf(x.dtype, &shape.order)) return Refuse("element type is {}", Name(x.dtype));
  if (x.size() == 0) return Refuse("no elements");
  if (shape.n > INT32_MAX) return Refuse("lines of {} elements", shape.n);
  const bool indices = request.outputs.size() > 1 && request.outputs[1].present();
  Bound bound;
  bound.scratch_bytes = TopKScratchBytes(shape, request.threads);
  bound.run = [shape, indices](const StepArgs& args) {
    TopK(shape, args.in[0], args.out[0], indices ? static_cast<int64_t*>(args.out[1]) : nullptr,
         args.scratch, args.parallel);
  };
  return bound;
}

BindResult BindCumulative(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  const Attributes& attributes = request.node.attributes;
  const Line line = Around(x, attributes.Int("axis"));
  const CumulativeShape shape{.outer = line.outer,
                              .n = line.size,
                              .inner = line.inner,
                              .product = attributes.String("kind") == "prod",
                              .exclusive = attributes.Int("exclusive") != 0,
                              .reverse = attributes.Int("reverse") != 0};
  if (x.size() == 0) return Refuse("no elements");
  Bound bound;
  bound.inplace = 1;
  const auto with = [&](auto tag) -> BindResult {
    using T = typename decltype(tag)::type;
    bound.run = [shape](const StepArgs& args) {
      Cumulative(shape, static_cast<const T*>(args.in[0]), static_cast<T*>(args.out[0]),
                 args.parallel);
    };
    return std::move(bound);
  };
  switch (x.dtype) {
    case DType::kFloat32: return with(TypeTag<float>{});
    case DType::kFloat64: return with(TypeTag<double>{});
    case DType::kInt8: return with(TypeTag<int8_t>{});
    case DType::kUInt8: return with(TypeTag<uint8_t>{});
    case DType::kInt16: return with(TypeTag<int16_t>{});
    case DType::kUInt16: return with(TypeTag<uint16_t>{});
    case DType::kInt32: return with(TypeTag<int32_t>{});
    case DType::kUInt32: return with(TypeTag<uint32_t>{});
    case DType::kInt64: return with(TypeTag<int64_t>{});
    case DType::kUInt64: return with(TypeTag<uint64_t>{});
    default: return Refuse("element type is {}", Name(x.dtype));
  }
}

BindResult BindTrilu(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  if (IsPacked(x.dtype)) return NoWidth(x.dtype);
  const bool has_k = request.has(1);
  if (has_k && request.inputs[1].dtype != DType::kInt64) return Refuse("k is no int64");
  if (x.size() == 0) return Refuse("no elements");
  const int64_t rows = x.dims[x.rank() - 2], columns = x.dims.back();
  Bound bound;
  bound.run = [rows, columns, has_k, count = x.size() / (rows * columns),
               upper = request.node.attributes.Int("upper", 1) != 0,
               bytes = BitWidth(x.dtype) / 8](const StepArgs& args) {
    const int64_t k = has_k ? *static_cast<const int64_t*>(args.in[1]) : 0;
    const int64_t diagonal = std::clamp(k, -rows, columns);
    Triangle(args.in[0], args.out[0], count, rows, columns, diagonal, upper, bytes, args.parallel);
  };
  return bound;
}

BindResult BindRange(const BindRequest& request) {
  Bound bound;
  const auto with = [&](auto tag) -> BindResult {
    using T = typename decltype(tag)::type;
    bound.run = [count = request.outputs[0].size()](const StepArgs& args) {
      Range(*static_cast<const T*>(args.in[0]), *static_cast<const T*>(args.in[2]),
            static_cast<T*>(args.out[0]), count, args.parallel);
    };
    return std::move(bound);
  };
  switch (request.outputs[0].dtype) {
    case DType::kFloat32: return with(TypeTag<float>{});
    case DType::kFloat64: return with(TypeTag<double>{});
    case DType::kInt16: return with(TypeTag<int16_t>{});
    case DType::kInt32: return with(TypeTag<int32_t>{});
    case DType::kInt64: return with(TypeTag<int64_t>{});
    default: return Refuse("element type is {}", Name(request.outputs[0].dtype));
  }
}

BindResult BindEyeLike(const BindRequest& request) {
  const Operand& y = request.outputs[0];
  if (IsPacked(y.dtype) || y.dtype == DType::kString) {
    return Refuse("element type is {}", Name(y.dtype));
  }
  const int64_t rows = y.dims[0], columns = y.dims[1], k = request.node.attributes.Int("k");
  const int width = BitWidth(y.dtype) / 8;
  Bound bound;
  bound.run = [=, one = MakeFilled(y.dtype, {1}, 1),
               bytes = y.size() * width](const StepArgs& args) {
    char* const out = static_cast<char*>(args.out[0]);
    std::memset(out, 0, bytes);
    for (int64_t row = std::max<int64_t>(0, k < -rows ? rows : -k); row < rows && k < columns - row;
         ++row) {
      std::memcpy(out + (row * columns + row + k) * width, one.raw(), width);
    }
  };
  return bound;
}

BindResult BindOneHot(const BindRequest& request) {
  const Operand& y = request.outputs[0];
  const int width = BitWidth(y.dtype) / 8;
  if (IsPacked(y.dtype)) return NoWidth(y.dtype);
  if (y.size() == 0) return Refuse("no elements");
  const Line line = Around(y, request.node.attributes.Int("axis", -1));
  Bound bound;
  const auto with = [&](auto tag) -> BindResult {
    using Index = typename decltype(tag)::type;
    bound.run = [line, width](const StepArgs& args) {
      OneHot(static_cast<const Index*>(args.in[0]), args.in[2], args.out[0], line.outer, line.size,
             line.inner, width, args.parallel);
    };
    return std::move(bound);
  };
  switch (request.inputs[0].dtype) {
    case DType::kInt32: return with(TypeTag<int32_t>{});
    case DType::kInt64: return with(TypeTag<int64_t>{});
    case DType::kFloat32: return with(TypeTag<float>{});
    case DType::kFloat64: return with(TypeTag<double>{});
    default: return Refuse("indices are {}", Name(request.inputs[0].dtype));
  }
}

constexpr Implementation kTopK[] = {{"candidates", BindTopK}};
constexpr Implementation kCumulative[] = {{"columns", BindCumulative}};
constexpr Implementation kTrilu[] = {{"rows", BindTrilu}};
constexpr Implementation kRange[] = {{"fill", BindRange}};
constexpr Implementation kEyeLike[] = {{"fill", BindEyeLike}};
constexpr Implementation kOneHot[] = {{"fill", BindOneHot}};

}  // namespace

Line Around(const Operand& operand, int64_t axis) {
  if (axis < 0) axis += operand.rank();
  Line line{.size = operand.dims[axis]};
  for (int64_t i = 0; i < axis; ++i) line.outer *= operand.dims[i];
  for (int64_t i = axis + 1; i < operand.rank(); ++i) line.inner *= operand.dims[i];
  return line;
}

bool OrderOf(DType dtype, OrderedBits* order) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8:
    case DType::kUInt16:
    case DType::kUInt32:
    case DType::kUInt64: *order = OrderedBits::kUnsigned; return true;
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64: *order = OrderedBits::kSigned; return true;
    case DType::kFloat16: *order = OrderedBits::kFloat16; return true;
    case DType::kBFloat16: *order = OrderedBits::kBFloat16; return true;
    case DType::kFloat32: *order = OrderedBits::kFloat32; return true;
    case DType::kFloat64: *order = OrderedBits::kFloat64; return true;
    default: return false;
  }
}

std::span<const Implementation> TopKList() { return kTopK; }
std::span<const Implementation> CumulativeList() { return kCumulative; }
std::span<const Implementation> TriluList() { return kTrilu; }
std::span<const Implementation> RangeList() { return kRange; }
std::span<const Implementation> EyeLikeList() { return kEyeLike; }
std::span<const Implementation> OneHotList() { return kOneHot; }

}  // namespace sardonyx::cpu
