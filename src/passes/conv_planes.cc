// t = transpose(x) {perm=[0,2,3,1]}
// c = conv(t, w) {1x1}                   ->   p = matmul(reshape(w), reshape(x, [n,c,h*w]))
// y = transpose(c) {perm=[0,3,1,2]}           y = reshape(p, [n,d,h,w])
//
// t = transpose(x) {perm=[0,2,3,1]}
// c = conv(t, w) {group=c}               ->   y = conv(x, w) {group=c, perm_x=[0,2,3,1],
// y = transpose(c) {perm=[0,3,1,2]}                           perm_y=[0,3,1,2]}
//
// A convolution of groups of few channels is also such where its channels are last: these would
// leave vectors almost empty, and take several times as long as two more transposes.
//
// Where the transposes around a convolution did not cancel, each takes about as long as a
// convolution of few products.

#include <algorithm>
#include <string>
#include <string_view>

#include "ops/core/reference.h"
#include "passes/passes.h"

namespace sardonyx::passes {
namespace {

using Perm = std::vector<int64_t>;

// So many pixels fill the vectors of a plane, and its product is faster than one of pixels.
constexpr int64_t kLeastPixels = 512;
// Of depthwise windows along an axis, and of those of a line alone: kernels keep the lines of one
// in their cache.
constexpr int64_t kWidestWindow = 64, kLongestStride = 4;
constexpr int64_t kWidestLine = 1024, kLongestLineStride = 16;
// Of few channels planes are faster, small ones as well, if vectors find so much of a line.
constexpr int64_t kLeastPixelsOfFew = 32, kShortLine = 12;

// A convolution's groups, and the channels of one.
struct Groups {
  int64_t count, in, out;
};

// The pixels of a shape [n, h, w, c]; 0 where an axis is not known.
int64_t PixelsOf(const Dims& shape) {
  int64_t pixels = 1;
  for (size_t i = 1; i + 1 < shape.size(); ++i) {
    if (!shape[i].known()) return 0;
    pixels *= shape[i].value();
  }
  return pixels;
}

// Whether vectors of channels would have little to do: kernels of channels last have some for
// groups of whole vectors, and, if there are enough of them, of 1, 2 and 4 channels. Measured in
// networks of channels last (Zen 4, AVX-512 and AVX2): groups of 3 to 12 channels take 0.1 to 0.8
// of the time, of 20 twice as long; one group of up to 8 channels takes 0.5 to 0.9. To more,
// transposes of the result take longer than what is won, but for three axes, of which Winograd's
// forms of few channels know nothing.
bool HasFewChannels(const Groups& groups, int64_t axes, bool is_line) {
  const int64_t in = groups.in, out = groups.out, products = in * out, all = groups.count * in;
  if (groups.count == 1) {
    return in <= 8 && out <= (axes == 3 ? 16 : 8) && products <= (is_line ? 16 : 36);
  }
  if (in == 1 && groups.count < 8 && out <= 16) return true;
  if (in == 1 && (out == 1 || out == 2 || out == 4)) return false;
  if (in == out && (in == 2 || in == 4) && all >= 16 && all % 4 == 0) return false;
  return out % 8 != 0 && in <= 16 && out <= 16 && (!is_line || products <= 16);
}

// Why windows are of more than planes have for one of a few lines, else empty.
std::string_view WindowRefusal(const Node& conv, const std::vector<int64_t>& weights) {
  const size_t spatial = weights.size() - 2;
  const std::vector<int64_t>& strides = conv.attributes.Ints("strides");
  const std::vector<int64_t>& dilations = conv.attributes.Ints("dilations");
  for (size_t i = spatial == 3 ? 1 : 0; i < spatial; ++i) {
    const int64_t dilation = dilations.empty() ? 1 : dilations[i], kernel = weights[2 + i];
    const bool of_line = i + 1 == spatial && (spatial == 1 || weights[1 + i] == 1);
    const int64_t widest = of_line ? kWidestLine : kWidestWindow;
    if (kernel > widest || (kernel > 1 && dilation > (widest - 1) / (kernel - 1))) {
      return "its window is wide";
    }
    if (!strides.empty() && strides[i] > (of_line ? kLongestLineStride : kLongestStride)) {
      return "its stride is long";
    }
  }
  return "";
}

// Each operand of the epilogue is one value for all, or one a channel.
bool HasOperandsOfChannels(const Node& conv) {
  return std::all_of(conv.inputs.begin() + 2, conv.inputs.end(), [](const Value* operand) {
    const Dims& shape = *operand->fact.shape;
    return std::all_of(shape.begin(), shape.end() - std::min<size_t>(shape.size(), 1),
                       [](Dim d) { return d == Dim(1); });
  });
}

// Each is such, or has an axis for each of the result's.
bool HasOperandsToTurn(const Node& conv) {
  const size_t rank = conv.output()->fact.ranked() ? conv.output()->fact.shape->size() : 0;
  return HasOperandsOfChannels(conv) ||
         std::all_of(conv.inputs.begin() + 2, conv.inputs.end(), [&](const Value* operand) {
           return IsOne(operand) || operand->fact.shape->size() == rank;
         });
}

// Appends operands of channels, for such that stand before `spatial` axes, and of pixels.
void TurnOperands(PatchMaker& maker, const Node& conv, int64_t spatial, std::vector<Val>* inputs) {
  const bool of_channels = HasOperandsOfChannels(conv);
  for (size_t i = 2; i < conv.inputs.size(); ++i) {
    const Val operand = maker.Wrap(conv.input(i));
    if (!of_channels && !IsOne(operand.value)) {
      inputs->push_back(Transpose(operand, Inverse(ChannelsLast(spatial + 2))));
      continue;
    }
    std::vector<int64_t> dims(spatial + 1, 1);
    dims[0] = -1;
    if (IsOne(operand.value)) dims.clear();
    inputs->push_back(Reshape(operand, dims));
  }
}

Rewrite MakeProduct(Node& node, const Node& conv, Value* x, PassContext& context) {
  PatchMaker maker(context, node);
  maker.builder().SetOrigin(conv.origin);
  std::vector<Val> inputs = {Flatten(maker.Wrap(conv.input(1)), 1),
                             Reshape(maker.Wrap(x), {0, 0, -1})};
  TurnOperands(maker, conv, 1, &inputs);
  Attributes attributes;
  if (const Expression* epilogue = conv.attributes.Expr("epilogue")) {
    attributes.Set("epilogue", *epilogue);
  }
  std::vector<int64_t> dims;
  for (const Dim dim : *node.output()->fact.shape) dims.push_back(dim.known() ? dim.value() : 0);
  const Val product = maker.builder().Make(core::matmul, inputs, std::move(attributes));
  return maker.Replace(node, {Reshape(product, dims)});
}

// The convolution of planes: of x, whose channels come before its pixels.
Val OfPlanes(PatchMaker& maker, const Node& conv, Val x, const Perm& to_last) {
  std::vector<Val> inputs = {x, maker.Wrap(conv.input(1))};
  TurnOperands(maker, conv, static_cast<int64_t>(to_last.size()) - 2, &inputs);
  Attributes attributes = conv.attributes;
  attributes.Set("perm_x", to_last);
  attributes.Set("perm_y", Inverse(to_last));
  return maker.builder().Make(core::conv, inputs, std::move(attributes));
}

// A convolution of few channels, with a transpose before it and one behind.
Rewrite TurnFewChannels(Node& conv, PassContext& context) {
  const Value* const w = conv.input(1);
  Value* const x = conv.input(0);
  std::vector<int64_t> sizes;
  if (!w->fact.ranked() || !core::KnownSizes(*w->fact.shape, &sizes)) return NoMatch{};
  const int64_t count = conv.attributes.Int("group", 1);
  const bool is_line = std::count(sizes.begin() + 2, sizes.end(), 1) + 3 >= std::ssize(sizes);
  const bool is_turned = conv.attributes.Find("perm_x") != nullptr;
  if (is_turned || IsPointwise(conv)) return NoMatch{};
  const Groups groups{count, sizes[1], sizes[0] / count};
  if (!HasFewChannels(groups, std::ssize(sizes) - 2, is_line)) return NoMatch{};
  if (x->fact.type != DType::kFloat32 || w->fact.type != DType::kFloat32) {
    return CheckFailed{"it is not of float"};
  }
  if (!HasOperandsToTurn(conv)) return CheckFailed{"its epilogue reads pixels"};
  if (std::string_view why = WindowRefusal(conv, sizes); !why.empty()) {
    return CheckFailed{std::string(why)};
  }
  if (conv.output()->fact.ranked()) {
    const Dims& y = *conv.output()->fact.shape;
    const Dim line = y[y.size() - 2];
    const int64_t pixels = PixelsOf(y);
    const bool is_short = line.known() && line.value() < kShortLine && groups.out >= 8;
    if (is_short || (pixels > 0 && pixels < kLeastPixelsOfFew)) {
      return CheckFailed{"its planes are small"};
    }
  }
  const Perm to_last = ChannelsLast(static_cast<int64_t>(sizes.size()));
  PatchMaker maker(context, conv);
  const bool was_turned =
      IsFrom(x, core::transpose) && x->producer->attributes.Ints("perm") == to_last;
  const Val planes =
      was_turned ? maker.Wrap(x->producer->input(0)) : Transpose(maker.Wrap(x), Inverse(to_last));
  return maker.Replace(conv, {Transpose(OfPlanes(maker, conv, planes, to_last), to_last)});
}

}  // namespace

Rewrite ConvPlanes(Node& node, PassContext& context) {
  if (node.op == &core::conv) return TurnFewChannels(node, context);
  if (node.op == &core::transpose && IsFrom(node.input(0), core::transpose)) {
    return RemoveIdentities(node, context);
  }
  if (node.op != &core::transpose || !IsFrom(node.input(0), core::conv)) return NoMatch{};
  const Node& conv = *node.input(0)->producer;
  if (!IsFrom(conv.input(0), core::transpose)) return NoMatch{};
  const Node& before = *conv.input(0)->producer;
  const std::vector<int64_t>& perm = before.attributes.Ints("perm");
  const int64_t rank = static_cast<int64_t>(perm.size());
  if (perm != ChannelsLast(rank) || node.attributes.Ints("perm") != Inverse(perm)) return NoMatch{};
  Value *const x = before.input(0), *const y = node.input(0), *const w = conv.input(1);
  std::vector<int64_t> sizes;
  if (!w->fact.ranked() || !core::KnownSizes(*w->fact.shape, &sizes)) return NoMatch{};
  const bool is_depthwise = sizes[1] == 1 && sizes[0] == conv.attributes.Int("group", 1);
  const bool is_pointwise = IsProductOfChannels(conv);
  if (!is_depthwise && !is_pointwise) return NoMatch{};
  if (!HasOneUser(context.graph, y)) return CheckFailed{"the convolution has other users"};
  if (x->fact.type != DType::kFloat32 || w->fact.type != DType::kFloat32) {
    return CheckFailed{"it is not of float"};
  }
  if (!y->fact.ranked() || PixelsOf(*y->fact.shape) < kLeastPixels) {
    return CheckFailed{"its planes are small, or may be"};
  }
  if (!HasOperandsOfChannels(conv)) return CheckFailed{"its epilogue reads pixels"};
  if (is_pointwise) return MakeProduct(node, conv, x, context);
  // Each line of the input is copied for several depths, and to part what steps leave out takes
  // longer than the transposes.
  const std::vector<int64_t>& strides = conv.attributes.Ints("strides");
  if (rank == 5 && !strides.empty() && strides.back() > 1) {
    return CheckFailed{"it has three axes and steps"};
  }
  if (std::string_view why = WindowRefusal(conv, sizes); !why.empty()) {
    return CheckFailed{std::string(why)};
  }
  PatchMaker maker(context, node);
  maker.builder().SetOrigin(conv.origin);
  return maker.Replace(node, {OfPlanes(maker, conv, maker.Wrap(x), perm)});
}

}  // namespace sardonyx::passes
