// MaxpoolWithMask of com.microsoft: the greatest of what a mask leaves of each window.

#include <algorithm>
#include <limits>

#include "ops/contrib/standard.h"
#include "ops/core/window.h"
#include "ops/nn/window.h"

namespace sardonyx::ops::contrib {
namespace {

constexpr int64_t kMostColumns = 1024;  // of a window: so many nodes are made

// A mask has the sizes of x, or 1 for the batch, the channels, or both.
void CheckMask(const Lowering& op, Val x, Val mask) {
  if (mask.rank() != x.rank()) {
    op.Fail("the mask has rank {}, x has rank {}", mask.rank(), x.rank());
  }
  for (int i = 0; i < x.rank(); ++i) {
    const int64_t size = mask.size(i);
    if (size != x.size(i) && (i > 1 || size != 1)) {
      op.Fail("the mask has size {} along axis {}, x has {}", size, i, x.size(i));
    }
  }
}

// True for the first pixel of an image.
Val IsFirst(Builder& builder, int rank, const std::vector<int64_t>& spatial) {
  std::vector<int64_t> dims(2, 1);
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  const Val one = Reshape(builder.Scalar(DType::kBool, 1), std::vector<int64_t>(rank, 1));
  std::vector<int64_t> pads(2 * rank, 0);
  for (int i = 0; i < rank; ++i) pads[rank + i] = dims[i] - 1;
  return builder.Make(core::pad, {one, builder.Ints(pads)}, {{"mode", "constant"}});
}

Val PadColumns(Val x, int64_t before, int64_t after, double value) {
  if (before == 0 && after == 0) return x;
  Builder& builder = *x.builder;
  std::vector<int64_t> pads(2 * x.rank(), 0);
  pads[x.rank() - 1] = before;
  pads[2 * x.rank() - 1] = after;
  return builder.Make(core::pad, {x, builder.Ints(pads), builder.Scalar(x.dtype(), value)},
                      {{"mode", "constant"}});
}

}  // namespace

// Each row of a window counts up to its first masked pixel.
Outputs LowerMaxpoolWithMask(Lowering& op) {
  const Val x = op.in(0), m = op.in(1);
  const int rank = x.rank(), spatial = rank - 2;
  const std::vector<int64_t>& kernel = op.Ints("kernel_shape");
  if (kernel.empty()) op.Fail("attribute kernel_shape is missing");
  Attributes attributes = Window(op, spatial, kernel);
  CheckMask(op, x, m);
  std::vector<int64_t> sizes;
  for (int i = 0; i < spatial; ++i) sizes.push_back(x.size(2 + i));
  const core::Window window = core::ResolveWindow(attributes, sizes, kernel);
  const int64_t columns = kernel.back(), stride = window.strides.back();
  if (columns > kMostColumns) {
    op.Unsupported("windows of {} columns, more than {}", columns, kMostColumns);
  }
  const double least = std::numeric_limits<float>::lowest();
  const int64_t before = window.pads_begin.back(), after = window.pads_end.back();
  Val counts = Not(Equal(m, 0));
  // As in ONNX Runtime, it counts whatever the mask says, but for inputs of one spatial axis.
  if (spatial > 1) counts = Or(counts, IsFirst(op.builder(), rank, sizes));
  // One tensor says both: what is masked is less than any number that counts.
  const Val none = op.builder().Scalar(x.dtype(), least);
  const Val masked = op.builder().Scalar(x.dtype(), -std::numeric_limits<double>::infinity());
  const Val pixels = PadColumns(Where(counts, Max(x, none), masked), before, after, least);
  const int64_t reach = (window.out.back() - 1) * stride + 1;
  Val y = none;
  for (int64_t t = columns; t-- > 0;) {
    const Val at = Slice(pixels, {t}, {t + reach}, {rank - 1}, {stride});
    y = Where(Less(at, none), none, Max(at, y));
  }
  const auto is_one = [](int64_t value) { return value == 1; };
  const auto is_zero = [](int64_t value) { return value == 0; };
  const auto rows = [](const std::vector<int64_t>& values) {
    return std::span(values).first(values.size() - 1);
  };
  const bool pools = !std::ranges::all_of(rows(kernel), is_one) ||
                     !std::ranges::all_of(rows(window.strides), is_one) ||
                     !std::ranges::all_of(rows(window.pads_begin), is_zero) ||
                     !std::ranges::all_of(rows(window.pads_end), is_zero);
  if (!pools) return y;
  std::vector<int64_t> heights = kernel, strides = window.strides, pads = window.pads_begin;
  heights.back() = strides.back() = 1;
  pads.back() = 0;
  pads.insert(pads.end(), window.pads_end.begin(), window.pads_end.end());
  pads.back() = 0;
  return Standard(op, "MaxPool", {y},
                  {{"kernel_shape", heights}, {"strides", strides}, {"pads", pads}});
}

}  // namespace sardonyx::ops::contrib
