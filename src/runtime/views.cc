#include <algorithm>
#include <optional>

#include "ops/core/core.h"
#include "runtime/plan.h"

namespace sardonyx {
namespace {

// Elements before axis `axis` are one block: a range along it is contiguous.
bool OnlyOnesBefore(const std::vector<int64_t>& dims, int64_t axis) {
  return std::all_of(dims.begin(), dims.begin() + axis, [](int64_t dim) { return dim == 1; });
}

// What a slice takes: a range of one axis, or all (axis -1).
struct Range {
  int64_t axis, start;
};

// Nothing if it is of several axes, has steps, or is not known.
std::optional<Range> RangeOf(std::span<const Operand> inputs, const Operand& output) {
  const Operand& x = inputs[0];
  if (inputs.size() < 3 || inputs[1].constant == nullptr || inputs[2].constant == nullptr)
    return std::nullopt;
  const std::vector<int64_t> starts = ToInts(*inputs[1].constant);
  std::vector<int64_t> axes;
  if (inputs.size() > 3 && inputs[3].present()) {
    if (inputs[3].constant == nullptr) return std::nullopt;
    axes = ToInts(*inputs[3].constant);
  } else {
    for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  }
  if (inputs.size() > 4 && inputs[4].present()) {
    if (inputs[4].constant == nullptr) return std::nullopt;
    for (int64_t step : ToInts(*inputs[4].constant)) {
      if (step != 1) return std::nullopt;
    }
  }
  Range range{-1, 0};
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    if (x.dims[axis] == output.dims[axis]) continue;
    if (range.axis >= 0) return std::nullopt;
    range.axis = axis;
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i] < 0 ? axes[i] + x.rank() : axes[i];
    if (axis != range.axis) continue;
    range.start = starts[i] < 0 ? std::max<int64_t>(starts[i] + x.dims[axis], 0) : starts[i];
    range.start = std::min(range.start, x.dims[axis]);
  }
  return range;
}

// The same of output `index` of a split.
Range RangeOf(const Node& node, const Operand& x, std::span<const Operand> outputs, size_t index) {
  Range range{node.attributes.Int("axis"), 0};
  if (range.axis < 0) range.axis += x.rank();
  for (size_t i = 0; i < index; ++i) range.start += outputs[i].dims[range.axis];
  return range;
}

int64_t RangeOffset(const Operand& x, const std::optional<Range>& range) {
  if (!range) return -1;
  if (range->axis < 0) return 0;
  if (!OnlyOnesBefore(x.dims, range->axis)) return -1;
  const std::span<const int64_t> inside = std::span(x.dims).subspan(range->axis + 1);
  return ByteSize(x.dtype, range->start * ElementCount(inside));
}

// A pad that cuts as much as it adds keeps the size, but moves elements.
bool PadsNothing(std::span<const Operand> inputs) {
  if (inputs[1].constant == nullptr) return false;
  const std::vector<int64_t> pads = ToInts(*inputs[1].constant);
  return std::all_of(pads.begin(), pads.end(), [](int64_t pad) { return pad == 0; });
}

bool KeepsOrder(const std::vector<int64_t>& perm, const std::vector<int64_t>& dims) {
  int64_t last = -1;
  for (int64_t axis : perm) {
    if (dims[axis] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

}  // namespace

int64_t ViewOffset(const Node& node, std::span<const Operand> inputs,
                   std::span<const Operand> outputs, size_t index) {
  const CoreOp* op = node.op;
  if (inputs.empty() || !inputs[0].present() || IsPacked(inputs[0].dtype)) return -1;
  if (op->is_view) return index == 0 ? 0 : -1;
  const Operand& x = inputs[0];
  const Operand& y = outputs[index];
  if (op == &core::bit_cast) return BitWidth(x.dtype) == BitWidth(y.dtype) ? 0 : -1;
  if (op == &core::slice) return RangeOffset(x, RangeOf(inputs, y));
  if (op == &core::split) return RangeOffset(x, RangeOf(node, x, outputs, index));
  if (op == &core::transpose) {
    return KeepsOrder(node.attributes.Ints("perm"), x.dims) ? 0 : -1;
  }
  if (op == &core::expand || op == &core::tile) return x.size() == y.size() ? 0 : -1;
  if (op == &core::pad) return PadsNothing(inputs) ? 0 : -1;
  if (op == &core::concat) return x.size() == y.size() ? 0 : -1;
  if (op == &core::gather && inputs[1].constant != nullptr && inputs[1].size() == 1) {
    int64_t axis = node.attributes.Int("axis");
    if (axis < 0) axis += x.rank();
    if (!OnlyOnesBefore(x.dims, axis)) return -1;
    int64_t position = ToInts(*inputs[1].constant)[0];
    if (position < 0) position += x.dims[axis];
    if (position < 0 || position >= x.dims[axis]) return -1;
    return ByteSize(x.dtype, position * y.size());
  }
  return -1;
}

int64_t ColumnsOffset(const Node& node, std::span<const Operand> inputs,
                      std::span<const Operand> outputs, size_t index) {
  const Operand& x = inputs[0];
  std::optional<Range> range;
  if (node.op == &core::slice) range = RangeOf(inputs, outputs[index]);
  if (node.op == &core::split) range = RangeOf(node, x, outputs, index);
  if (!range || range->axis + 1 != x.rank()) return -1;
  return ByteSize(x.dtype, range->start);
}

}  // namespace sardonyx
