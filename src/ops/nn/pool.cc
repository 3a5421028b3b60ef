#include <algorithm>
#include <numeric>

#include "ops/lowering.h"
#include "ops/nn/window.h"

namespace sardonyx::ops {

namespace {

Attributes PoolWindow(Lowering& op) {
  const std::vector<int64_t>& kernel = op.Ints("kernel_shape");
  Attributes attributes = Window(op, op.in(0).rank() - 2, kernel);
  attributes.Set("kernel", kernel);
  attributes.Set("ceil_mode", op.Int("ceil_mode"));
  return attributes;
}

// Reduces the spatial axes of x [N,C,spatial...] to size 1.
Val GlobalPool(Val x, std::string_view kind) {
  std::vector<int64_t> axes(x.rank() - 2);
  std::iota(axes.begin(), axes.end(), 1);
  return ToChannelsFirst(Reduce(kind, ToChannelsLast(x), axes, true));
}

// Whether one window is all of the image, as far as the graph knows.
bool CoversAll(Val x, const Attributes& window) {
  const std::vector<int64_t>&kernel = window.Ints("kernel"), &pads = window.Ints("pads");
  const std::vector<int64_t>& dilations = window.Ints("dilations");
  bool all = window.String("auto_pad") == "NOTSET";
  for (size_t i = 0; i < kernel.size(); ++i) {
    all = all && x.shape()[i + 2] == kernel[i] && dilations[i] == 1;
  }
  return all && std::all_of(pads.begin(), pads.end(), [](int64_t pad) { return pad == 0; });
}

// The exponent is an integer since version 2.
double Exponent(const Lowering& op) {
  return op.version() < 2 ? op.Float("p", 2) : static_cast<double>(op.Int("p", 2));
}

}  // namespace

Outputs LowerMaxPool(Lowering& op) {
  Attributes attributes = PoolWindow(op);
  attributes.Set("storage_order", op.Int("storage_order"));
  std::vector<Val> results = op.builder().MakeMany(core::max_pool, {ToChannelsLast(op.in(0))},
                                                   attributes, op.wants(1) ? 2 : 1);
  for (Val& result : results) result = ToChannelsFirst(result);
  return results;
}

Outputs LowerAveragePool(Lowering& op) {
  Attributes attributes = PoolWindow(op);
  if (CoversAll(op.in(0), attributes)) return GlobalPool(op.in(0), "mean");
  attributes.Set("count_include_pad", op.Int("count_include_pad"));
  return ToChannelsFirst(
      op.builder().Make(core::average_pool, {ToChannelsLast(op.in(0))}, attributes));
}

Outputs LowerLpPool(Lowering& op) {
  Attributes attributes = PoolWindow(op);
  attributes.Set("p", Exponent(op));
  return ToChannelsFirst(op.builder().Make(core::lp_pool, {ToChannelsLast(op.in(0))}, attributes));
}

Outputs LowerGlobalAveragePool(Lowering& op) { return GlobalPool(op.in(0), "mean"); }
Outputs LowerGlobalMaxPool(Lowering& op) { return GlobalPool(op.in(0), "max"); }

Outputs LowerGlobalLpPool(Lowering& op) {
  const Val x = op.in(0);
  const double p = Exponent(op);
  if (p == 1) return GlobalPool(x, "l1");
  if (p == 2) return GlobalPool(x, "l2");
  return Cast(Pow(GlobalPool(Pow(Abs(Widen(x)), p), "sum"), 1 / p), x.dtype());
}

}  // namespace sardonyx::ops
