// r = resize(a)                              p = conv(a, w[:, :64])
// t = concat(r, b) {axis=3}                  q = resize(p)
// y = conv(t, w) {1x1}                 ->    y = add(conv(b, w[:, 64:]), q)
//
// and without the concat. Resampling is linear, and alike for all channels, so that a convolution
// of single pixels can come first, when there are fewer of these.

#include <algorithm>
#include <optional>

#include "ops/core/reference.h"
#include "passes/passes.h"

namespace sardonyx::passes {
namespace {

// How many times the pixels.
constexpr double kLeastGrowth = 2;
// Products that a result saves at least: fewer take less time than to add what was resized (0.2 ns
// on Emerald Rapids), or, of more results than channels, to resize it (0.9 ns).
constexpr double kLeastSaved = 48, kLeastSavedOfMore = 96;

int64_t Channels(const Value* value) {
  const Dim last = value->fact.ranked() ? value->fact.shape->back() : Dim();
  return last.known() ? last.value() : 0;
}

// How many times as many pixels a resize makes as it reads, of channels that it leaves; nothing
// where that is not known, or a constant stands in what it makes.
std::optional<double> GrowthOf(const Node& resize) {
  const Attributes& attributes = resize.attributes;
  const std::string_view coordinates =
      attributes.String("coordinate_transformation_mode", "half_pixel");
  const Value *x = resize.input(0), *scales = resize.input(2), *sizes = resize.input(3);
  if (coordinates == "tf_crop_and_resize" || coordinates == "tf_half_pixel_for_nn" ||
      attributes.String("keep_aspect_ratio_policy", "stretch") != "stretch" || !x->fact.ranked()) {
    return {};
  }
  const int64_t last = x->fact.rank() - 1;
  const bool takes_all = attributes.Find("axes") == nullptr;
  for (const int64_t axis : attributes.Ints("axes")) {
    if (axis == last || axis == -1) return {};
  }
  std::vector<int64_t> in, out;
  double growth = 1;
  if (scales != nullptr) {
    if (!scales->is_constant()) return {};
    const std::vector<double> factors = ToDoubles(scales->fact.constant);
    if (factors.empty() || (takes_all && factors.back() != 1)) return {};
    for (const double factor : factors) growth *= factor;
    return growth;
  }
  if (sizes == nullptr || Channels(x) == 0 || Channels(x) != Channels(resize.output())) return {};
  if (!core::KnownSizes(*x->fact.shape, &in)) return {};
  if (!core::KnownSizes(*resize.output()->fact.shape, &out)) return {};
  for (size_t i = 0; i < in.size(); ++i) {
    growth *= static_cast<double>(out[i]) / static_cast<double>(std::max<int64_t>(in[i], 1));
  }
  return growth;
}

bool HasConstantWeights(const Node& conv) { return conv.input(1)->is_constant(); }
int64_t Results(const Node& conv) { return conv.input(1)->fact.constant.dims()[0]; }

// What a resize makes, and how much of the products of a result is saved if it comes later.
struct Part {
  const Value* value;
  double saved;

  bool Saves(const Node& conv) const {
    const bool is_more = Results(conv) > Channels(value);
    return saved >= (is_more ? kLeastSavedOfMore : kLeastSaved);
  }
};

bool JoinsChannels(const Node& node) {
  const Fact& y = node.output()->fact;
  return node.op == &core::concat && y.ranked() &&
         node.attributes.Int("axis") == static_cast<int64_t>(y.rank()) - 1;
}

// Nothing but convolutions that come before the resize reads its channels, if need be beside
// others.
bool IsForConvolutions(const Graph& graph, const Value* value, const Part& part) {
  return !graph.IsOutput(value) &&
         std::all_of(value->users.begin(), value->users.end(), [&](const Node* user) {
           if (JoinsChannels(*user)) return IsForConvolutions(graph, user->output(), part);
           return user->input(0) == value && IsProductOfChannels(*user) &&
                  HasConstantWeights(*user) && part.Saves(*user);
         });
}

// Empty if the convolution comes before the resize that makes these channels of its input.
std::string_view Refusal(const Graph& graph, const Node& conv, const Value* value) {
  const std::optional<double> growth = GrowthOf(*value->producer);
  if (!growth) return "how a resize grows its input is not known, or not all it does";
  if (*growth < kLeastGrowth) return "a resize makes few more pixels";
  const Part part{value, static_cast<double>(Channels(value)) * (1 - 1 / *growth)};
  if (!part.Saves(conv)) return "a resize has few channels";
  if (!IsForConvolutions(graph, value, part)) return "a resize has other users";
  return "";
}

// The resize of x, which has so many channels, as `resize` does it of its input.
Val ResizeAs(PatchMaker& maker, const Node& resize, Val x, int64_t channels) {
  std::vector<Val> inputs = {x, maker.Wrap(resize.input(1)), maker.Wrap(resize.input(2)),
                             maker.Wrap(resize.input(3))};
  if (inputs[3] && resize.attributes.Find("axes") == nullptr) {
    inputs[3] = Concat({Slice(inputs[3], {0}, {-1}, {0}), maker.builder().Ints({channels})}, 0);
  }
  return maker.builder().Make(core::resize, inputs, resize.attributes);
}

}  // namespace

Rewrite SinkResizes(Node& node, PassContext& context) {
  if (!IsProductOfChannels(node) || node.attributes.Expr("epilogue") != nullptr) return NoMatch{};
  Value *const x = node.input(0), *const w = node.input(1);
  std::vector<Value*> parts = {x};
  if (x->producer != nullptr && JoinsChannels(*x->producer)) parts = x->producer->inputs;
  const auto is_resize = [](const Value* part) { return IsFrom(part, core::resize); };
  if (std::none_of(parts.begin(), parts.end(), is_resize)) return NoMatch{};
  // What is float16 is not rounded between products (widen_halves).
  if (x->fact.type != DType::kFloat32 && x->fact.type != DType::kFloat16) {
    return CheckFailed{"its sums would be rounded"};
  }
  if (!HasConstantWeights(node)) return CheckFailed{"its weights vary"};
  std::string_view why;
  const auto comes_first = [&](const Value* part) {
    if (!is_resize(part)) return false;
    const std::string_view refusal = Refusal(context.graph, node, part);
    if (!refusal.empty()) why = refusal;
    return refusal.empty();
  };
  std::vector<bool> sinks;
  for (const Value* part : parts) {
    if (Channels(part) == 0) return CheckFailed{"how many channels are joined is not known"};
    sinks.push_back(comes_first(part));
  }
  if (std::none_of(sinks.begin(), sinks.end(), [](bool sink) { return sink; })) {
    return CheckFailed{std::string(why)};
  }
  PatchMaker maker(context, node);
  const Val weights = maker.Wrap(w);
  std::vector<Val> others, other_weights, resized;
  int64_t first = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t end = first + Channels(parts[i]);
    const Val own = parts.size() > 1 ? Slice(weights, {first}, {end}, {1}) : weights;
    first = end;
    if (!sinks[i]) {
      others.push_back(maker.Wrap(parts[i]));
      other_weights.push_back(own);
      continue;
    }
    const Node& resize = *parts[i]->producer;
    const Val before =
        maker.builder().Make(core::conv, {maker.Wrap(resize.input(0)), own}, node.attributes);
    resized.push_back(ResizeAs(maker, resize, before, Results(node)));
  }
  Val sum;
  if (!others.empty()) {
    const Val rest = others.size() == 1 ? others[0] : Concat(others, x->fact.rank() - 1);
    const Val of_rest = other_weights.size() == 1 ? other_weights[0] : Concat(other_weights, 1);
    sum = maker.builder().Make(core::conv, {rest, of_rest}, node.attributes);
  }
  for (const Val& part : resized) sum = sum ? sum + part : part;
  return maker.Replace(node, {sum});
}

}  // namespace sardonyx::passes
