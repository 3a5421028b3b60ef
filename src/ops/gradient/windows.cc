// Convolutions and pools. A convolution is linear in its input and in its weights, and so are the
// three gradient operations in each of theirs: the rules close among themselves.

#include <algorithm>
#include <numeric>

#include "ops/core/window.h"
#include "ops/gradient/backward.h"

namespace sardonyx::ops {
namespace {

Val InputGradient(Val g, Val w, Val x, const Attributes& attributes) {
  return g.builder->Make(core::conv_input_gradient, {g, w, ShapeOf(x)}, attributes);
}

Val WeightGradient(Val x, Val g, Val w, const Attributes& attributes) {
  return g.builder->Make(core::conv_weight_gradient, {x, g, ShapeOf(w)}, attributes);
}

void ConvBackward(Backward& node) {
  const Val x = node.in(0), w = node.in(1), g = node.grad();
  if (node.wants(0)) node.Add(0, InputGradient(g, w, x, node.attributes()));
  if (node.wants(1)) node.Add(1, WeightGradient(x, g, w, node.attributes()));
}

void ConvInputGradientBackward(Backward& node) {
  const Val g = node.in(0), w = node.in(1), d = node.grad();
  if (node.wants(0)) node.Add(0, node.b.Make(core::conv, {d, w}, node.attributes()));
  if (node.wants(1)) node.Add(1, WeightGradient(d, g, w, node.attributes()));
}

void ConvWeightGradientBackward(Backward& node) {
  const Val x = node.in(0), g = node.in(1), d = node.grad();
  if (node.wants(0)) node.Add(0, InputGradient(g, d, x, node.attributes()));
  if (node.wants(1)) node.Add(1, node.b.Make(core::conv, {x, d}, node.attributes()));
}

// Pads with which the convolution over the result of a transposed one gives positions of its input,
// begins and then ends; negative where elements that no weight reached are to be cut off.
std::vector<int64_t> PadsBack(const Attributes& attributes, Val x, Val w) {
  const size_t rank = static_cast<size_t>(w.rank()) - 2;
  const std::string_view mode = attributes.String("auto_pad", "NOTSET");
  if (attributes.Ints("output_shape").empty() && !mode.starts_with("SAME")) {
    std::vector<int64_t> pads = attributes.Ints("pads");
    if (pads.empty() || mode == "VALID") pads.assign(2 * rank, 0);
    const std::vector<int64_t>& extra = attributes.Ints("output_padding");
    for (size_t i = 0; i < extra.size(); ++i) pads[rank + i] -= extra[i];
    return pads;
  }
  std::vector<int64_t> in, kernel;
  for (size_t i = 0; i < rank; ++i) {
    in.push_back(x.size(static_cast<int>(i) + 1));
    kernel.push_back(w.size(static_cast<int>(i) + 2));
  }
  const core::Window window = core::ResolveTransposedWindow(attributes, in, kernel);
  std::vector<int64_t> pads = window.pads_begin;
  for (size_t i = 0; i < rank; ++i) {
    pads.push_back((in[i] - 1) * window.strides[i] + (kernel[i] - 1) * window.dilations[i] + 1 -
                   window.pads_begin[i] - window.out[i]);
  }
  return pads;
}

// A transposed convolution is the input gradient of the convolution of the same weights.
void ConvTransposeBackward(Backward& node) {
  const Val x = node.in(0), w = node.in(1);
  std::vector<int64_t> pads = PadsBack(node.attributes(), x, w), cuts(1, 0);
  for (size_t i = 0; i < pads.size(); ++i) {
    if (2 * i == pads.size()) cuts.insert(cuts.end(), {0, 0});  // channels, then the ends' batch
    cuts.push_back(std::min<int64_t>(pads[i], 0));
    pads[i] = std::max<int64_t>(pads[i], 0);
  }
  cuts.push_back(0);
  const Val g =
      node.b.Make(core::pad, {node.grad(), node.b.Ints(cuts)}, {{"mode", std::string("constant")}});
  Attributes attributes = node.attributes();
  for (const char* name : {"auto_pad", "output_padding", "output_shape"}) attributes.Erase(name);
  attributes.Set("pads", pads);
  if (node.wants(0)) node.Add(0, node.b.Make(core::conv, {g, w}, attributes));
  if (node.wants(1)) node.Add(1, WeightGradient(g, x, w, attributes));
}

// The indices count in [N, C, spatial...], -1 where a window has but padding.
void MaxPoolBackward(Backward& node) {
  const Val x = node.in(0), first = ToChannelsFirst(x), shape = ShapeOf(first);
  Attributes attributes = node.attributes();
  attributes.Set("storage_order", int64_t{0});
  const Val found = node.b.MakeMany(core::max_pool, {x}, attributes, 2)[1];
  const auto flat = [](Val value) {
    return Reshape(ToChannelsFirst(value), std::vector<int64_t>{-1});
  };
  const Val indices = flat(found), g = flat(node.grad());
  const Val kept = Where(Less(indices, 0), node.b.Scalar(g.dtype(), 0), g);
  const Val zeros = Filled(Reduce("prod", shape, {0}, true), MakeFilled(x.dtype(), {1}, 0));
  const Val sums = node.b.Make(core::scatter_elements, {zeros, Max(indices, 0), kept},
                               {{"axis", int64_t{0}}, {"reduction", std::string("add")}});
  node.Add(0, ToChannelsLast(Reshape(sums, shape, true)));
}

void AveragePoolBackward(Backward& node) {
  node.Add(0, node.b.Make(core::average_pool_gradient, {node.grad(), ShapeOf(node.in(0))},
                          node.attributes()));
}

void AveragePoolGradientBackward(Backward& node) {
  node.Add(0, node.b.Make(core::average_pool, {node.grad()}, node.attributes()));
}

// y = (sum |x|^p)^(1/p) = (n * average |x|^p)^(1/p): the number of elements of a window is
// constant.
void LpPoolBackward(Backward& node) {
  if (node.attributes().Int("ceil_mode") != 0) node.Refuse("with ceil_mode");
  const Val x = node.in(0), y = node.out(), g = node.grad();
  const double p = node.attributes().Float("p", 2);
  Attributes attributes = node.attributes();
  attributes.Erase("p");
  attributes.Set("count_include_pad", int64_t{1});
  const auto& kernel = attributes.Ints("kernel");
  const double count = static_cast<double>(
      std::accumulate(kernel.begin(), kernel.end(), int64_t{1}, std::multiplies<>()));
  const Val zero = node.b.Scalar(g.dtype(), 0);
  const Val share = Where(Equal(y, 0), zero, g * Pow(y, 1 - p)) * count;
  const Val spread = node.b.Make(core::average_pool_gradient, {share, ShapeOf(x)}, attributes);
  node.Add(0, spread * Sign(x) * Pow(Abs(x), p - 1));
}

}  // namespace

std::span<const GradientRule> WindowRules() {
  static constexpr GradientRule kRules[] = {
      {&core::conv, ConvBackward},
      {&core::conv_transpose, ConvTransposeBackward},
      {&core::conv_input_gradient, ConvInputGradientBackward},
      {&core::conv_weight_gradient, ConvWeightGradientBackward},
      {&core::max_pool, MaxPoolBackward},
      {&core::average_pool, AveragePoolBackward},
      {&core::average_pool_gradient, AveragePoolGradientBackward},
      {&core::lp_pool, LpPoolBackward},
  };
  return kRules;
}

}  // namespace sardonyx::ops
