#include "ops/nn/window.h"

#include <algorithm>

namespace sardonyx::ops {
namespace {

// Sums and products of two values within the bound are numbers still.
void CheckValues(const Lowering& op, std::string_view name, const std::vector<int64_t>& values,
                 size_t count) {
  constexpr int64_t kMost = int64_t{1} << 31;
  if (values.size() != count) {
    op.Fail("attribute {} has {} values, but {} are needed", name, values.size(), count);
  }
  for (const int64_t value : values) {
    if (value < -kMost || value > kMost) op.Fail("attribute {} has the value {}", name, value);
  }
}

std::vector<int64_t> IntsOr(const Lowering& op, std::string_view name, size_t count,
                            int64_t otherwise) {
  std::vector<int64_t> values = op.Ints(name);
  if (values.empty()) values.assign(count, otherwise);
  CheckValues(op, name, values, count);
  return values;
}

}  // namespace

Attributes Window(const Lowering& op, int spatial, const std::vector<int64_t>& kernel) {
  if (spatial < 1) op.Fail("needs an input of rank 3 or more, not {}", spatial + 2);
  const size_t count = spatial;
  if (!kernel.empty()) CheckValues(op, "kernel_shape", kernel, count);
  const std::vector<int64_t> strides = IntsOr(op, "strides", count, 1);
  const std::vector<int64_t> dilations = IntsOr(op, "dilations", count, 1);
  std::vector<int64_t> pads(2 * count, 0);
  std::string auto_pad = op.String("auto_pad", "NOTSET");
  if (auto_pad.empty()) auto_pad = "NOTSET";
  const bool upper = auto_pad == "SAME_UPPER", lower = auto_pad == "SAME_LOWER";
  if (auto_pad == "NOTSET") {
    pads = IntsOr(op, "pads", 2 * count, 0);
  } else if (auto_pad != "VALID" && !upper && !lower) {
    op.Fail("attribute auto_pad is '{}', not NOTSET, VALID, SAME_UPPER or SAME_LOWER", auto_pad);
  }
  const bool unit_strides =
      std::all_of(strides.begin(), strides.end(), [](int64_t stride) { return stride == 1; });
  if (!kernel.empty() && (upper || lower) && unit_strides) {
    for (size_t i = 0; i < count; ++i) {
      const int64_t total = (kernel[i] - 1) * dilations[i];
      pads[i] = upper ? total / 2 : total - total / 2;
      pads[count + i] = total - pads[i];
    }
    auto_pad = "NOTSET";
  }
  if (!kernel.empty() && auto_pad == "VALID") auto_pad = "NOTSET";
  return {{"strides", strides}, {"dilations", dilations}, {"pads", pads}, {"auto_pad", auto_pad}};
}

}  // namespace sardonyx::ops
