// t = transpose(x) {perm=[0,2,3,1]}
// c = conv(t, w) {1x1, of many channels} ->   p = matmul(reshape(w), reshape(x, [n,c,h*w]))
// y = transpose(c) {perm=[0,3,1,2]}           y = reshape(p, [n,d,h,w])
//
// t = transpose(x) {perm=[0,2,3,1]}
// c = conv(t, w) {group=c, or 1x1}       ->   y = conv(x, w) {group=c, perm_x=[0,2,3,1],
// y = transpose(c) {perm=[0,3,1,2]}                           perm_y=[0,3,1,2]}
//
// One from few channels to many is such as well. One of groups of few channels is also such where
// its channels are last: these would leave vectors almost empty, and take several times as long as
// two more transposes.
//
// Where the transposes around a convolution did not cancel, each takes about as long as a
// convolution of few products.

#include <algorithm>
#include <optional>
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
constexpr int64_t kWidestWindow = 64, kTallestColumn = 128, kLongestStride = 4;
constexpr int64_t kWidestLine = 1024, kLongestLineStride = 16;
// Of few channels planes are faster, small ones as well, if vectors find so much of a line.
constexpr int64_t kLeastPixelsOfFew = 32, kShortLine = 12;

// A convolution's groups, and the channels of one.
struct Groups {
  int64_t count, in, out;
};

// Whether vectors of channels would have little to do: kernels of channels last have some for
// groups of whole vectors (but of few products, and where windows reach far into the padding, they
// take 1.05 to 3 times as long), and, if there are enough of them, of 1, 2 and 4. Measured in
// networks of channels last (Zen 4, AVX-512 and AVX2): groups of 3 to 12 channels take 0.1 to 0.8
// of the time, from up to 15 to up to 30 channels 0.35 to 0.95, of 20 twice as long; lines of many
// such groups 1.05 to 1.3, and windows apart, with shuffles around them, 1.6 to 1.8 to more than
// 16; one group of up to 8 channels takes 0.5 to 0.9. To more, transposes of the result take longer
// than what is won, but for three axes, of which Winograd's forms of few channels know nothing.
// From 32 channels or more to up to 4, as networks that make pictures end, it takes 0.2 to 0.8,
// from fewer and of lines to up to 2, 0.5 to 0.95: a panel has 8 columns at least.
bool HasFewChannels(const Groups& groups, int64_t axes, bool is_line, bool are_apart,
                    bool reaches_far) {
  const int64_t in = groups.in, out = groups.out, products = in * out, all = groups.count * in;
  if (groups.count == 1) {
    if (out <= (is_line || in < 32 ? 2 : 4)) return true;
    return in <= 8 && out <= (axes == 3 ? 16 : 8) && products <= (is_line ? 16 : 36);
  }
  if (in == 1 && groups.count < 8 && out <= 16) return true;
  if (in == 1 && (out == 1 || out == 2 || out == 4)) return false;
  if (in == out && (in == 2 || in == 4) && all >= 16 && all % 4 == 0) return false;
  const bool pays = axes > 1 || products <= 16 || groups.count * out <= 128;
  const bool fills_vectors = out % 8 == 0 && products > 32 && !reaches_far;
  return !fills_vectors && in <= 16 && out <= (are_apart ? 16 : 30) && pays;
}

// Whether more than one window of a line lies in the padding with part of it, at either end.
bool ReachesFar(const Node& conv) {
  const std::vector<int64_t>& strides = conv.attributes.Ints("strides");
  const std::vector<int64_t>& pads = conv.attributes.Ints("pads");
  const int64_t stride = strides.empty() ? 1 : strides.back();
  return !pads.empty() && std::max(pads[pads.size() / 2 - 1], pads.back()) > stride;
}

// Whether no two windows read the same pixel.
bool AreApart(const Node& conv, const std::vector<int64_t>& sizes) {
  const std::vector<int64_t>& strides = conv.attributes.Ints("strides");
  for (size_t i = 2; i < sizes.size(); ++i) {
    if (sizes[i] > (strides.empty() ? 1 : strides[i - 2])) return false;
  }
  return true;
}

// The same of a transposed convolution, whose kernels of channels last are for whole vectors, for
// single channels if steps are shorter than there are channels, and for one group to up to 4
// channels; their sums of few taps are of short pieces. Measured as above: 0.1 to 0.9 of the time.
bool HasFewTransposed(const Groups& groups, const Node& conv, const std::vector<int64_t>& sizes) {
  constexpr int64_t kFewTaps = 7, kLongLine = 64;
  const int64_t in = groups.in, out = groups.out, axes = std::ssize(sizes) - 2;
  const std::vector<int64_t>& strides = conv.attributes.Ints("strides");
  const int64_t stride = strides.empty() ? 1 : strides.back();
  if (groups.count == 1) {
    if (in <= 8 && in * out <= (axes == 3 ? 36 : 9)) return true;
    const Fact& y = conv.output()->fact;
    return out == 1 && in <= 32 && sizes.back() <= kFewTaps && y.ranked() &&
           (*y.shape)[axes].known() && (*y.shape)[axes].value() >= kLongLine;
  }
  if (in == 1 && out == 1) return groups.count < 8 || groups.count <= stride;
  return in <= 16 && out < 8;
}

// Why a transposed convolution has windows that a kernel of planes cannot hold, else empty.
std::string_view TransposedRefusal(const Node& conv, const std::vector<int64_t>& weights,
                                   int64_t in) {
  constexpr int64_t kMostTaps = 128, kLongestTransposed = 64, kMostLines = 64, kMostSums = 448,
                    kLineFloats = 8192;
  const std::vector<int64_t>& strides = conv.attributes.Ints("strides");
  const std::vector<int64_t>& dilations = conv.attributes.Ints("dilations");
  if (std::any_of(dilations.begin(), dilations.end(), [](int64_t d) { return d != 1; })) {
    return "it is dilated";
  }
  int64_t lines = in, taps = 1;  // of the input that a line sees, and of each
  for (size_t i = 2; i < weights.size(); ++i) {
    lines *= taps;
    const int64_t stride = strides.empty() ? 1 : strides[i - 2];
    if (weights[i] > kMostTaps || stride > kLongestTransposed) return "its window is wide";
    taps = (weights[i] + stride - 1) / stride;
    if (lines > kMostLines) return "its window is wide";
  }
  const bool fits = lines * taps <= kMostSums && lines * (taps + kMostTaps) <= kLineFloats;
  return fits ? "" : "its window is wide";
}

// Why windows are of more than planes have for one of a few lines, else empty.
std::string_view WindowRefusal(const Node& conv, const std::vector<int64_t>& weights) {
  const size_t spatial = weights.size() - 2;
  const std::vector<int64_t>& strides = conv.attributes.Ints("strides");
  const std::vector<int64_t>& dilations = conv.attributes.Ints("dilations");
  for (size_t i = spatial == 3 ? 1 : 0; i < spatial; ++i) {
    const int64_t dilation = dilations.empty() ? 1 : dilations[i], kernel = weights[2 + i];
    const bool of_line = i + 1 == spatial && (spatial == 1 || weights[1 + i] == 1);
    const bool of_column = i + 2 == spatial && weights.back() == 1;
    const int64_t widest = of_line ? kWidestLine : of_column ? kTallestColumn : kWidestWindow;
    if (kernel > widest || (kernel > 1 && dilation > (widest - 1) / (kernel - 1))) {
      return "its window is wide";
    }
    if (!strides.empty() && strides[i] > (of_line ? kLongestLineStride : kLongestStride)) {
      return "its stride is long";
    }
  }
  return "";
}

// Why a depthwise convolution of many channels is faster with two transposes around it, else empty.
// Those of a large map read and write memory, and take as long as it; of small ones they take less
// than planes lose by steps and wide windows. Measured (Zen 4, AVX-512 and AVX2): what is left
// takes 0.2 to 0.95 of the time, what is refused 1.1 to 2.4 times as long as channels last.
std::string_view TransposesRefusal(const Node& conv, const std::vector<int64_t>& weights,
                                   int64_t elements) {
  constexpr int64_t kLarge = 3 << 17, kMostTapsOfLarge = 25, kMostTapsOfLine = 3;
  const std::vector<int64_t>& strides = conv.attributes.Ints("strides");
  const int64_t axes = std::ssize(weights) - 2;
  int64_t taps = 1;
  for (int64_t i = 0; i < axes; ++i) taps *= weights[2 + i];
  if (taps == 1) return "";
  const bool is_large = elements >= kLarge;
  const bool steps = std::any_of(strides.begin(), strides.end(), [](int64_t s) { return s != 1; });
  if (axes == 1 && (is_large || (!steps && taps <= kMostTapsOfLine))) return "";
  // The axes behind the one that windows span are one: 32 channels of columns of 9 to 33 pixels
  // take 0.5 of the time.
  if (axes > 1 && !steps && std::count(weights.begin() + 3, weights.end(), 1) == axes - 1)
    return "";
  if (steps) return "it has steps";
  if (!is_large) return "its planes are not large";
  return taps <= kMostTapsOfLarge ? "" : "its window is wide";
}

// Whether a convolution of one group has so few channels, and taps, that planes take it faster than
// a product and a transpose of its result: measured as above, 0.5 to 0.98 of the time. Squares of 3
// and 4 pixels from 3 channels on, and large ones, are Winograd's, or of pixels at steps of 2 but
// for narrow maps; lines a long step apart are slow to lay out, so that much must be made of them.
// Winograd has nothing for dilated ones, of up to 6 channels (0.2 to 0.6 of the time).
bool IsFromFewChannels(const Node& conv, const std::vector<int64_t>& sizes) {
  constexpr int64_t kMostTaps = 25, kLargeTaps = 49, kMostOfLarge = 16, kMadeOfLongSteps = 64,
                    kNarrow = 64;
  const int64_t axes = std::ssize(sizes) - 2, in = sizes[1], out = sizes[0];
  const std::vector<int64_t>& strides = conv.attributes.Ints("strides");
  const std::vector<int64_t>& dilations = conv.attributes.Ints("dilations");
  const bool is_dilated =
      std::any_of(dilations.begin(), dilations.end(), [](int64_t d) { return d != 1; });
  if (axes > 2 || in < 1 || in > (is_dilated ? 6 : 4)) return false;
  if (conv.attributes.Int("group", 1) != 1) return false;
  int64_t taps = 1, stride = 1;
  for (int64_t i = 0; i < axes; ++i) {
    taps *= sizes[2 + i];
    if (!strides.empty()) stride = std::max(stride, strides[i]);
  }
  if (std::count(sizes.begin() + 2, sizes.end(), 1) + 1 >= axes) {
    return stride <= 4 || out >= kMadeOfLongSteps * in;
  }
  if (taps > kMostTaps) {
    return taps <= kLargeTaps && out <= kMostOfLarge && stride <= (in == 1 ? 2 : 1);
  }
  if (in == 1 || taps <= 4) return true;
  if (is_dilated && stride == 1) return true;
  if (taps <= 9) {
    const Fact& y = conv.output()->fact;
    const bool is_narrow =
        y.ranked() && (*y.shape)[axes].known() && (*y.shape)[axes].value() <= kNarrow;
    return in == 2 ? stride <= 2 : in == 3 && stride == 2 && is_narrow;
  }
  return stride == 1 && sizes[2] > 4 && sizes[3] > 4;
}

// The same to so few that most of a panel's columns are empty: 0.4 to 0.9 of the time.
bool IsToFewChannels(const Node& conv, const std::vector<int64_t>& sizes) {
  constexpr int64_t kMostResults = 6, kMostChannels = 48;
  return conv.attributes.Int("group", 1) == 1 && sizes[0] <= kMostResults &&
         sizes[1] <= kMostChannels && sizes.size() <= 4;
}

// Whether vectors find enough in the planes of a result [n, ..., c]. Of many results a few lines
// lose little where it is not known.
bool HasLargePlanes(const Dims& shape, bool is_from_few, int64_t products) {
  constexpr int64_t kLeastOfMany = 32, kFewProducts = 32, kShortOfFew = 8;
  const int64_t pixels = PixelsOf(shape);
  if (!is_from_few) return pixels >= kLeastPixels;
  const Dim line = shape[shape.size() - 2];
  const int64_t least = products <= kFewProducts ? kShortOfFew : kShortLine;
  return (pixels == 0 || pixels >= kLeastOfMany) && (!line.known() || line.value() >= least);
}

// Of float32, or of halves, which are computed in it.
bool IsOfFloats(const Value* x, const Value* w) {
  const auto is_float = [](const Value* value) {
    return value->fact.type.is_tensor() &&
           (value->fact.type.dtype == DType::kFloat32 || IsHalf(value->fact.type.dtype));
  };
  return is_float(x) && is_float(w);
}

// An operand of the epilogue that is one value for all, or one a channel.
bool IsOfChannels(const Value* operand) {
  const Dims& shape = *operand->fact.shape;
  return std::all_of(shape.begin(), shape.end() - std::min<size_t>(shape.size(), 1),
                     [](Dim d) { return d == Dim(1); });
}

bool HasOperandsOfChannels(const Node& conv) {
  return std::all_of(conv.inputs.begin() + 2, conv.inputs.end(), IsOfChannels);
}

// Each is such, or has an axis for each of the result's.
bool HasOperandsToTurn(const Node& conv) {
  const size_t rank = conv.output()->fact.ranked() ? conv.output()->fact.shape->size() : 0;
  return std::all_of(conv.inputs.begin() + 2, conv.inputs.end(), [&](const Value* operand) {
    return IsOfChannels(operand) || operand->fact.shape->size() == rank;
  });
}

// Appends operands of channels, for such that stand before `spatial` axes, and of pixels.
void TurnOperands(PatchMaker& maker, const Node& conv, int64_t spatial, std::vector<Val>* inputs) {
  for (size_t i = 2; i < conv.inputs.size(); ++i) {
    const Val operand = maker.Wrap(conv.input(i));
    if (IsOne(operand.value)) {
      inputs->push_back(Reshape(operand, std::vector<int64_t>{}));
    } else if (IsOfChannels(operand.value)) {
      std::vector<int64_t> dims(spatial + 1, 1);
      dims[0] = -1;
      inputs->push_back(Reshape(operand, dims));
    } else {
      inputs->push_back(Transpose(operand, Inverse(ChannelsLast(spatial + 2))));
    }
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
  return maker.builder().Make(*conv.op, inputs, std::move(attributes));
}

// Empty if the convolution has few channels and planes take it, else why not; nothing to say of one
// of many channels.
std::optional<std::string_view> RefusalOfFew(const Node& conv, const std::vector<int64_t>& sizes) {
  const int64_t count = conv.attributes.Int("group", 1), axes = std::ssize(sizes) - 2;
  if (conv.op == &core::conv_transpose) {
    const Groups groups{count, sizes[0] / count, sizes[1]};
    if (!HasFewTransposed(groups, conv, sizes)) return {};
    return TransposedRefusal(conv, sizes, groups.in);
  }
  const auto ones = std::count(sizes.begin() + 2, sizes.end(), 1);
  const bool is_line = ones + 1 >= axes && ones < axes;
  const Groups groups{count, sizes[1], sizes[0] / count};
  if (IsProductOfChannels(conv) ||
      !HasFewChannels(groups, axes, is_line, AreApart(conv, sizes), ReachesFar(conv))) {
    return {};
  }
  // Vectors of a short line are not full either.
  const bool is_from_many = groups.count == 1 && groups.in > 8;
  if ((groups.out >= 8 || is_from_many) && conv.output()->fact.ranked()) {
    const Dim line = (*conv.output()->fact.shape)[axes];
    if (line.known() && line.value() < kShortLine) return "its planes are small";
  }
  return WindowRefusal(conv, sizes);
}

// A convolution of few channels, with a transpose before it and one behind.
Rewrite TurnFewChannels(Node& conv, PassContext& context) {
  const Value* const w = conv.input(1);
  Value* const x = conv.input(0);
  std::vector<int64_t> sizes;
  if (conv.attributes.Find("perm_x") != nullptr) return NoMatch{};
  if (!w->fact.ranked() || !core::KnownSizes(*w->fact.shape, &sizes)) return NoMatch{};
  const std::optional<std::string_view> refusal = RefusalOfFew(conv, sizes);
  if (!refusal.has_value()) return NoMatch{};
  if (!refusal->empty()) return CheckFailed{std::string(*refusal)};
  if (!IsOfFloats(x, w)) return CheckFailed{"it is not of float"};
  if (!HasOperandsToTurn(conv)) return CheckFailed{"its epilogue reads pixels"};
  if (conv.output()->fact.ranked()) {
    const int64_t pixels = PixelsOf(*conv.output()->fact.shape);
    if (pixels > 0 && pixels < kLeastPixelsOfFew) return CheckFailed{"its planes are small"};
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
  if (node.op == &core::conv || node.op == &core::conv_transpose) {
    return TurnFewChannels(node, context);
  }
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
  const bool is_pointwise = !is_depthwise && IsPointwise(conv);
  const bool is_from_few =
      !is_pointwise && (IsFromFewChannels(conv, sizes) || IsToFewChannels(conv, sizes));
  if (!is_depthwise && !is_pointwise && !is_from_few) return NoMatch{};
  if (!HasOneUser(context.graph, y)) return CheckFailed{"the convolution has other users"};
  if (!IsOfFloats(x, w)) return CheckFailed{"it is not of float"};
  // Read where they lie, single pixels of up to so many channels take 0.2 to 0.95 of the time of a
  // product, which packs them.
  constexpr int64_t kMostInPlace = 384, kLeastInPlace = 96;
  const bool is_in_place = is_pointwise && sizes[0] > 1 && sizes[1] <= kMostInPlace;
  if (!y->fact.ranked() ||
      !(is_in_place ? PixelsOf(*y->fact.shape) >= kLeastInPlace
                    : HasLargePlanes(*y->fact.shape, is_from_few, sizes[0] * sizes[1]))) {
    return CheckFailed{"its planes are small, or may be"};
  }
  if (!HasOperandsOfChannels(conv)) return CheckFailed{"its epilogue reads pixels"};
  if (is_pointwise && w->fact.type != DType::kFloat32) return CheckFailed{"it is not of float32"};
  if (is_pointwise && !is_in_place) {
    if (conv.attributes.Int("group", 1) > 1) return CheckFailed{"its groups have many channels"};
    return MakeProduct(node, conv, x, context);
  }
  if (std::string_view why = TransposesRefusal(conv, sizes, PixelsOf(*y->fact.shape) * sizes[0]);
      is_depthwise && !why.empty()) {
    return CheckFailed{std::string(why)};
  }
  if (std::string_view why = WindowRefusal(conv, sizes); !why.empty()) {
    return CheckFailed{std::string(why)};
  }
  PatchMaker maker(context, node);
  maker.builder().SetOrigin(conv.origin);
  return maker.Replace(node, {OfPlanes(maker, conv, maker.Wrap(x), perm)});
}

}  // namespace sardonyx::passes
