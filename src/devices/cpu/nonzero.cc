// Operations that choose elements by a condition, so that the size of their output is found when
// they run: nonzero, compress.

#include "kernels/nonzero.h"

#include <algorithm>

#include "devices/cpu/families.h"
#include "kernels/gather.h"

namespace sardonyx::cpu {
namespace {

// The bits of an element that are not all zero unless it is zero; 0 for types without such.
uint64_t NonzeroBits(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8:
    case DType::kInt8: return 0xff;
    case DType::kUInt16:
    case DType::kInt16: return 0xffff;
    case DType::kFloat16:
    case DType::kBFloat16: return 0x7fff;
    case DType::kUInt32:
    case DType::kInt32: return 0xffffffff;
    case DType::kFloat32: return 0x7fffffff;
    case DType::kUInt64:
    case DType::kInt64: return ~uint64_t{0};
    case DType::kFloat64: return ~uint64_t{0} >> 1;
    case DType::kComplex64: return 0x7fffffff7fffffff;
    default: return 0;
  }
}

void MarkNonzero(const void* x, int element_bytes, uint64_t bits, Marks* marks,
                 const Parallel& par) {
  const auto with = [&](auto element) {
    using U = decltype(element);
    marks->MarkNonzero(static_cast<const U*>(x), static_cast<U>(bits), par);
  };
  switch (element_bytes) {
    case 1: return with(uint8_t{});
    case 2: return with(uint16_t{});
    case 4: return with(uint32_t{});
    default: return with(uint64_t{});
  }
}

BindResult BindNonzero(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  const uint64_t bits = NonzeroBits(x.dtype);
  if (bits == 0) return Refuse("element type is {}", Name(x.dtype));
  Bound bound;
  bound.scratch_bytes = Marks::Bytes(x.size());
  bound.run = [=, dims = x.dims, count = x.size(),
               bytes = BitWidth(x.dtype) / 8](const StepArgs& args) {
    Marks marks(count, args.scratch);
    MarkNonzero(args.in[0], bytes, bits, &marks, args.parallel);
    void* const y = (*args.place)(0, {static_cast<int64_t>(dims.size()), marks.marked()});
    if (!dims.empty()) marks.WriteIndices(dims, static_cast<int64_t*>(y), args.parallel);
  };
  return bound;
}

BindResult BindCompress(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  if (IsPacked(x.dtype)) return NoWidth(x.dtype);
  const bool flat = request.node.attributes.Find("axis") == nullptr;
  const int64_t given = flat ? 0 : request.node.attributes.Int("axis");
  const int64_t axis = given < 0 ? given + x.rank() : given;
  const Line line = flat ? Line{.size = x.size()} : Around(x, axis);
  const int64_t conditions = request.inputs[1].size();
  const int64_t asked =
      std::min(line.size, conditions);  // what a shorter condition lacks falls away
  const int bytes = BitWidth(x.dtype) / 8;
  Bound bound;
  bound.scratch_bytes = Marks::Bytes(asked) + (flat ? 0 : asked * 8);
  bound.run = [=, dims = x.dims](const StepArgs& args) {
    const auto* const condition = static_cast<const uint8_t*>(args.in[1]);
    if (std::any_of(condition + asked, condition + conditions, [](uint8_t c) { return c != 0; })) {
      Fail(ErrorCode::kInvalidArgument, "compress: the condition has {} elements, the axis {}",
           conditions, line.size);
    }
    Marks marks(asked, args.scratch);
    marks.MarkNonzero(condition, uint8_t{0xff}, args.parallel);
    const int64_t count = marks.marked();
    if (flat) {
      return marks.WriteChosen(args.in[0], bytes, (*args.place)(0, {count}), args.parallel);
    }
    auto* const kept =
        reinterpret_cast<int64_t*>(static_cast<char*>(args.scratch) + Marks::Bytes(asked));
    marks.WriteIndices(std::span(&asked, 1), kept, args.parallel);
    std::vector<int64_t> result = dims;
    result[axis] = count;
    void* const y = (*args.place)(0, std::move(result));
    GatherRows(args.in[0], kept, y, line.outer, line.size, line.inner * bytes, count,
               args.parallel);
  };
  return bound;
}

constexpr Implementation kNonzero[] = {{"marks", BindNonzero, true}};
constexpr Implementation kCompress[] = {{"marks", BindCompress, true}};

}  // namespace

std::span<const Implementation> NonzeroList() { return kNonzero; }
std::span<const Implementation> CompressList() { return kCompress; }

}  // namespace sardonyx::cpu
