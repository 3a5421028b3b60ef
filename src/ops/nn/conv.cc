#include <algorithm>

#include "ops/lowering.h"
#include "ops/nn/window.h"

namespace sardonyx::ops {

namespace {

// Weights have the rank of the input, which the input may not know.
int Rank(Val x, Val w) { return w.ranked() ? w.rank() : x.rank(); }

}  // namespace

// Bias is added to the last axis, where the channels are.
Outputs LowerConv(Lowering& op) {
  const Val x = op.in(0), w = op.in(1);
  const int rank = Rank(x, w), spatial = rank - 2;
  std::vector<int64_t> kernel = op.Ints("kernel_shape");
  if (kernel.empty() && op.String("auto_pad", "NOTSET") != "NOTSET") {
    for (int i = 0; i < spatial; ++i) kernel.push_back(w.size(2 + i));
  }
  Attributes attributes = Window(op, spatial, kernel);
  attributes.Set("group", op.Int("group", 1));
  Val y = op.builder().Make(core::conv, {ToChannelsLast(x, rank), w}, attributes);
  if (op.has(2)) y = y + op.in(2);
  return ToChannelsFirst(y);
}

namespace {

// Pads of the convolution by the mirrored window that a transposed one at steps of 1 is; nothing
// where it is none, or would crop.
std::vector<int64_t> MirroredPads(const Lowering& op, Val w, const Attributes& window) {
  const auto is_all = [](const std::vector<int64_t>& values, int64_t value) {
    return std::all_of(values.begin(), values.end(), [=](int64_t v) { return v == value; });
  };
  if (!w.is_constant() || op.HasAttribute("output_shape") || !is_all(window.Ints("strides"), 1) ||
      !is_all(op.Ints("output_padding"), 0) || window.String("auto_pad") != "NOTSET") {
    return {};
  }
  const std::vector<int64_t>& dilations = window.Ints("dilations");
  std::vector<int64_t> pads = window.Ints("pads");
  const size_t spatial = static_cast<size_t>(w.rank() - 2);
  pads.resize(2 * spatial);
  for (size_t i = 0; i < pads.size(); ++i) {
    const size_t axis = i % spatial;
    const int64_t dilation = dilations.empty() ? 1 : dilations[axis];
    const int64_t size = w.size(static_cast<int>(axis) + 2);
    constexpr int64_t kMost = INT32_MAX;
    if (size > kMost || dilation > kMost || pads[i] > kMost || pads[i] < -kMost) return {};
    pads[i] = (size - 1) * dilation - pads[i];
    if (pads[i] < 0) return {};
  }
  return pads;
}

// [in, out / groups, kernel...] of a transposed convolution as [out, in / groups, kernel...] of one
// that is not, its window mirrored.
Val Mirrored(Val w, int64_t groups) {
  const int rank = w.rank();
  const int64_t in = w.size(0) / groups, out = w.size(1);
  std::vector<int64_t> parted = {groups, in, out}, joined = {groups * out, in}, perm = {0, 2, 1};
  std::vector<int64_t> axes;
  for (int i = 2; i < rank; ++i) {
    parted.push_back(w.size(i));
    joined.push_back(w.size(i));
    perm.push_back(i + 1);
    axes.push_back(i);
  }
  const std::vector<int64_t> last(axes.size(), -1), all(axes.size(), INT64_MIN);
  return Slice(Reshape(Transpose(Reshape(w, parted), perm), joined), last, all, axes, last);
}

}  // namespace

Outputs LowerConvTranspose(Lowering& op) {
  const Val x = op.in(0), w = op.in(1);
  const int rank = Rank(x, w), spatial = rank - 2;
  // Its automatic padding follows from the output shape: left to the core operation.
  Attributes attributes = Window(op, spatial, {});
  const int64_t groups = op.Int("group", 1);
  if (const std::vector<int64_t> pads = MirroredPads(op, w, attributes); !pads.empty()) {
    if (groups < 1 || w.size(0) % groups != 0) {
      op.Fail("{} channels are no multiple of {} groups", w.size(0), groups);
    }
    attributes.Set("pads", pads);
    attributes.Set("group", groups);
    Val y =
        op.builder().Make(core::conv, {ToChannelsLast(x, rank), Mirrored(w, groups)}, attributes);
    if (op.has(2)) y = y + op.in(2);
    return ToChannelsFirst(y);
  }
  attributes.Set("group", groups);
  if (op.HasAttribute("output_padding")) {
    attributes.Set("output_padding", op.Ints("output_padding"));
  }
  if (op.HasAttribute("output_shape")) attributes.Set("output_shape", op.Ints("output_shape"));
  Val y = op.builder().Make(core::conv_transpose, {ToChannelsLast(x, rank), w}, attributes);
  if (op.has(2)) y = y + op.in(2);
  return ToChannelsFirst(y);
}

}  // namespace sardonyx::ops
