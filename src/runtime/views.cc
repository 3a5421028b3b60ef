#include <algorithm>

#include "ops/core/core.h"
#include "runtime/plan.h"

namespace sardonyx {
namespace {

// Elements before axis `axis` are one block: a range along it is contiguous.
bool OnlyOnesBefore(const std::vector<int64_t>& dims, int64_t axis) {
  return std::all_of(dims.begin(), dims.begin() + axis, [](int64_t dim) { return dim == 1; });
}

int64_t SliceOffset(std::span<const Operand> inputs, const Operand& output) {
  const Operand& x = inputs[0];
  if (inputs.size() < 3 || inputs[1].constant == nullptr || inputs[2].constant == nullptr)
    return -1;
  const std::vector<int64_t> starts = ToInts(*inputs[1].constant);
  std::vector<int64_t> axes;
  if (inputs.size() > 3 && inputs[3].present()) {
    if (inputs[3].constant == nullptr) return -1;
    axes = ToInts(*inputs[3].constant);
  } else {
    for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  }
  if (inputs.size() > 4 && inputs[4].present()) {
    if (inputs[4].constant == nullptr) return -1;
    for (int64_t step : ToInts(*inputs[4].constant)) {
      if (step != 1) return -1;
    }
  }
  // At most one axis may be cut, and only size-1 axes may stand before it.
  int64_t cut = -1;
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    if (x.dims[axis] == output.dims[axis]) continue;
    if (cut >= 0) return -1;
    cut = axis;
  }
  if (cut < 0) return 0;
  if (!OnlyOnesBefore(x.dims, cut)) return -1;
  int64_t start = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i] < 0 ? axes[i] + x.rank() : axes[i];
    if (axis == cut)
      start = starts[i] < 0 ? std::max<int64_t>(starts[i] + x.dims[cut], 0) : starts[i];
  }
  start = std::min(start, x.dims[cut]);
  const int64_t inner = x.dims[cut] > 0 ? x.size() / x.dims[cut] : 0;
  return ByteSize(x.dtype, start * inner);
}

int64_t SplitOffset(const Node& node, std::span<const Operand> inputs,
                    std::span<const Operand> outputs, size_t index) {
  const Operand& x = inputs[0];
  int64_t axis = node.attributes.Int("axis");
  if (axis < 0) axis += x.rank();
  if (!OnlyOnesBefore(x.dims, axis)) return -1;
  int64_t elements = 0;
  for (size_t i = 0; i < index; ++i) elements += outputs[i].size();
  return ByteSize(x.dtype, elements);
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
  if (op == &core::slice) return SliceOffset(inputs, y);
  if (op == &core::split) return SplitOffset(node, inputs, outputs, index);
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

}  // namespace sardonyx
