// Operations that only move elements: all are copies between strides, or a few of them.

#include <algorithm>

#include "devices/cpu/families.h"
#include "kernels/pad.h"
#include "kernels/repeat.h"
#include "kernels/strided_copy.h"
#include "ops/core/pad.h"
#include "ops/core/slice.h"

namespace sardonyx::cpu {

int Width(DType dtype) {
  const int bits = BitWidth(dtype);
  return bits >= 8 && dtype != DType::kString ? bits / 8 : 0;
}

BindResult NoWidth(DType dtype) { return Refuse("elements of type {} are packed", Name(dtype)); }

namespace {

// One copy from byte offset `from` of an input to byte offset `to` of an output.
struct Move {
  StridedCopyPlan plan;
  int input = 0;
  int output = 0;
  int64_t from = 0;
  int64_t to = 0;
};

// All rows may lie apart: strides of the moves know it.
Bound RunMoves(std::vector<Move> moves) {
  Bound bound;
  bound.apart = bound.apart_axes = ~0u;
  bound.apart_output = true;
  bound.run = [moves = std::move(moves)](const StepArgs& args) {
    for (const Move& move : moves) {
      const char* from = static_cast<const char*>(args.in[move.input]) + move.from;
      char* to = static_cast<char*>(args.out[move.output]) + move.to;
      if (from != to) StridedCopy(move.plan, from, to, args.parallel);  // else it is in place
    }
  };
  return bound;
}

BindResult BindTranspose(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  const int width = Width(x.dtype);
  if (width == 0) return NoWidth(x.dtype);
  const Operand& y = request.outputs[0];
  const std::vector<int64_t> own = Strides(x);
  std::vector<int64_t> strides;
  for (int64_t axis : request.node.attributes.Ints("perm")) strides.push_back(own[axis]);
  return RunMoves({{PrepareStridedCopy(y.dims, strides, Strides(y), width)}});
}

Bound RunRepeat(const RepeatPlan& plan) {
  Bound bound;
  bound.apart = bound.apart_axes = ~0u;
  bound.apart_output = true;
  bound.run = [plan](const StepArgs& args) {
    if (args.in[0] != args.out[0]) Repeat(plan, args.in[0], args.out[0], args.parallel);
  };
  return bound;
}

BindResult BindExpand(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  const int width = Width(x.dtype);
  if (width == 0) return NoWidth(x.dtype);
  const Operand& y = request.outputs[0];
  return RunRepeat(PrepareRepeat(y.dims, BroadcastStrides(x, y.dims), Strides(y), width));
}

BindResult BindTile(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  const int width = Width(x.dtype);
  if (width == 0) return NoWidth(x.dtype);
  const std::vector<int64_t> from = Strides(x), to = Strides(request.outputs[0]);
  std::vector<int64_t> dims, x_strides, y_strides;  // [repeat, size] a dimension
  for (int i = 0; i < x.rank(); ++i) {
    if (x.dims[i] == 0) return Refuse("no elements");
    dims.push_back(request.outputs[0].dims[i] / x.dims[i]);
    x_strides.push_back(0);
    y_strides.push_back(to[i] * x.dims[i]);
    dims.push_back(x.dims[i]);
    x_strides.push_back(from[i]);
    y_strides.push_back(to[i]);
  }
  return RunRepeat(PrepareRepeat(dims, x_strides, y_strides, width));
}

BindResult BindSlice(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  const int width = Width(x.dtype);
  if (width == 0) return NoWidth(x.dtype);
  auto ints = [&](size_t i, std::vector<int64_t>* values) {
    if (!request.has(i)) return true;
    if (request.inputs[i].constant == nullptr) return false;
    *values = ToInts(*request.inputs[i].constant);
    return true;
  };
  std::vector<int64_t> starts, axes, steps;
  if (!ints(1, &starts) || !ints(3, &axes) || !ints(4, &steps)) {
    return Refuse("starts, axes or steps are not known");
  }
  if (axes.empty()) {
    for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  }
  const std::vector<int64_t> own = Strides(x);
  std::vector<int64_t> strides = own;
  int64_t from = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i] < 0 ? axes[i] + x.rank() : axes[i];
    const int64_t step = steps.empty() ? 1 : steps[i];
    const int64_t size = x.dims[axis];
    if (request.outputs[0].dims[axis] > 0) {
      from += core::SliceStart(starts[i], step, size) * own[axis];
    }
    strides[axis] = own[axis] * step;
  }
  const Operand& y = request.outputs[0];
  return RunMoves({{PrepareStridedCopy(y.dims, strides, Strides(y), width), 0, 0, from * width}});
}

// From here on all parts of a row are moved together; fewer rows or shorter ones part by part.
constexpr int64_t kManyRows = 32, kLongRow = 64;

// Between a whole and its parts, which lie one behind the other along an axis: [outer, part] of
// [outer, whole].
BindResult BindParts(const BindRequest& request, std::span<const Operand> parts,
                     const Operand& whole, bool joins) {
  const int width = Width(whole.dtype);
  if (width == 0) return NoWidth(whole.dtype);
  const int64_t given = request.node.attributes.Int("axis");
  const size_t axis = static_cast<size_t>(given < 0 ? given + whole.rank() : given);
  const auto split = [&](const Operand& x) {
    const std::span dims(x.dims);
    return std::pair(ElementCount(dims.first(axis)), ElementCount(dims.subspan(axis)));
  };
  std::vector<int64_t> row_bytes;
  for (const Operand& part : parts) row_bytes.push_back(split(part).second * width);
  const int64_t rows = split(whole).first;
  const auto is_apart = [](const Operand& x) { return x.row_stride > 0; };
  const bool apart = is_apart(whole) || std::ranges::any_of(parts, is_apart);
  const bool takes_apart = axis + 1 == whole.dims.size();
  const auto takes = [&](Bound bound) {
    bound.apart = takes_apart ? ~0u : 0;
    bound.apart_axes = 0;                       // between parts and whole rows are of the last axis
    bound.apart_output = takes_apart && joins;  // a split that reads nothing in place is two copies
    return bound;
  };
  if (!apart && rows >= kManyRows && std::ranges::min(row_bytes) >= kLongRow) {
    Bound bound;
    bound.run = [row_bytes, rows, joins](const StepArgs& args) {
      if (joins) {
        JoinRows(row_bytes, rows, args.in, args.out[0], args.parallel);
      } else {
        SplitRows(row_bytes, rows, args.in[0], args.out, args.parallel);
      }
    };
    return takes(std::move(bound));
  }
  const auto row_stride = [&](const Operand& x) {
    return is_apart(x) ? x.row_stride : split(x).second;
  };
  std::vector<Move> moves;
  int64_t at = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto [outer, inner] = split(parts[i]);
    const int64_t dims[] = {outer, inner};
    const int64_t dense[] = {row_stride(parts[i]), 1}, wide[] = {row_stride(whole), 1};
    Move move{PrepareStridedCopy(dims, joins ? dense : wide, joins ? wide : dense, width)};
    (joins ? move.input : move.output) = static_cast<int>(i);
    (joins ? move.to : move.from) = at;
    moves.push_back(move);
    at += inner * width;
  }
  return takes(RunMoves(std::move(moves)));
}

BindResult BindConcat(const BindRequest& request) {
  return BindParts(request, request.inputs, request.outputs[0], true);
}
BindResult BindSplit(const BindRequest& request) {
  return BindParts(request, request.outputs, request.inputs[0], false);
}

// Makes one axis of the last two where the last is not padded, as channels behind pixels: rows of
// few elements would each be a copy. False if it is, or cut, or if many numbers would stand for the
// pads.
bool JoinLast(PadPlan* plan) {
  constexpr size_t kMostNumbers = 1 << 14;
  constexpr int64_t kShortRow = 1024;  // bytes; threads share rows, so that these stay many
  if (plan->axes.size() < 2) return false;
  const PadAxis last = plan->axes.back();
  const bool is_whole = last.first == 0 && last.size() == last.count &&
                        last.count == plan->in_strides[plan->axes.size() - 2];
  if (!is_whole || last.count == 0 || last.count * plan->element_bytes > kShortRow) return false;
  PadAxis& axis = plan->axes[plan->axes.size() - 2];
  const auto size = static_cast<size_t>(last.count);
  if ((axis.before.size() + axis.after.size()) > kMostNumbers / size) return false;
  const auto join = [&](std::vector<int64_t>* sources) {
    std::vector<int64_t> joined;
    for (const int64_t source : *sources) {
      for (int64_t i = 0; i < last.count; ++i) {
        joined.push_back(source < 0 ? source : source * last.count + i);
      }
    }
    *sources = std::move(joined);
  };
  join(&axis.before);
  join(&axis.after);
  axis.first *= last.count;
  axis.count *= last.count;
  plan->axes.pop_back();
  plan->in_strides.pop_back();
  plan->in_strides.back() = 1;
  return true;
}

BindResult BindPad(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  const Operand& y = request.outputs[0];
  const int width = Width(x.dtype);
  if (width == 0) return NoWidth(x.dtype);
  if (request.inputs[1].constant == nullptr) return Refuse("pads are not known");
  if (x.rank() == 0) return Refuse("there is no axis");
  const std::string_view mode = request.node.attributes.String("mode", "constant");
  const std::vector<int64_t> pads = ToInts(*request.inputs[1].constant);
  std::vector<int64_t> axes;
  if (request.has(3)) {
    if (request.inputs[3].constant == nullptr) return Refuse("axes are not known");
    axes = ToInts(*request.inputs[3].constant);
  } else {
    for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  }
  // The plan keeps a number for each index that is padded.
  constexpr int64_t kMostPadded = 1 << 24;
  std::vector<int64_t> begins(x.rank(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    begins[axes[i] < 0 ? axes[i] + x.rank() : axes[i]] = pads[i];
  }
  PadPlan plan{.axes = {}, .in_strides = RowMajorStrides(x.dims), .element_bytes = width};
  for (int axis = 0; axis < x.rank(); ++axis) {
    const int64_t begin = begins[axis], size = x.dims[axis], padded = y.dims[axis];
    const int64_t inside = std::clamp<int64_t>(begin, 0, padded);
    const int64_t end = std::clamp<int64_t>(begin + size, inside, padded);
    if (padded - (end - inside) > kMostPadded) return Refuse("pads an axis to {}", padded);
    PadAxis& out = plan.axes.emplace_back();
    out.first = std::max<int64_t>(-begin, 0);
    out.count = end - inside;
    const auto source = [&](int64_t i) { return core::PadSource(mode, i - begin, size); };
    for (int64_t i = 0; i < inside; ++i) out.before.push_back(source(i));
    for (int64_t i = end; i < padded; ++i) out.after.push_back(source(i));
  }
  while (JoinLast(&plan)) continue;
  PreparePad(&plan);
  const bool has_value = request.has(2);
  Bound bound;
  bound.run = [plan = std::move(plan), has_value](const StepArgs& args) {
    static constexpr char kZero[16] = {};
    Pad(plan, args.in[0], has_value ? args.in[2] : kZero, args.out[0], args.parallel);
  };
  return bound;
}

BindResult BindConstantOfShape(const BindRequest& request) {
  const Operand& y = request.outputs[0];
  const int width = Width(y.dtype);
  if (width == 0) return NoWidth(y.dtype);
  const Tensor value = request.node.attributes.TensorValue("value");
  Bound bound;
  bound.run = [value, width, count = y.size()](const StepArgs& args) {
    static constexpr char kZero[16] = {};
    Fill(args.out[0], count, value.defined() ? value.raw() : kZero, width, args.parallel);
  };
  return bound;
}

constexpr Implementation kTranspose[] = {{"strided copy", BindTranspose}};
constexpr Implementation kSlice[] = {{"strided copy", BindSlice}};
constexpr Implementation kExpand[] = {{"repeat", BindExpand}};
constexpr Implementation kTile[] = {{"repeat", BindTile}};
constexpr Implementation kConcat[] = {{"strided copy", BindConcat}};
constexpr Implementation kSplit[] = {{"strided copy", BindSplit}};
constexpr Implementation kPad[] = {{"rows", BindPad}};
constexpr Implementation kConstantOfShape[] = {{"fill", BindConstantOfShape}};

}  // namespace

std::span<const Implementation> TransposeList() { return kTranspose; }
std::span<const Implementation> SliceList() { return kSlice; }
std::span<const Implementation> ExpandList() { return kExpand; }
std::span<const Implementation> TileList() { return kTile; }
std::span<const Implementation> ConcatList() { return kConcat; }
std::span<const Implementation> SplitList() { return kSplit; }
std::span<const Implementation> PadList() { return kPad; }
std::span<const Implementation> ConstantOfShapeList() { return kConstantOfShape; }

}  // namespace sardonyx::cpu
