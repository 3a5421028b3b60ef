// a = transpose(x) {perm=[0,3,1,2]}
// b = relu(a)                          ->   a = relu(x)
// c = transpose(b) {perm=[0,2,3,1]}         c = transpose(transpose(a) ...), which cancels
//
// A transpose moves below operations that work the same in the order of its input. Lowerings put
// one behind every spatial operation (to channels-first) and one before (to channels-last); moved
// down, they meet and vanish, so whole regions of a model run channels-last.

#include <algorithm>
#include <numeric>
#include <optional>

#include "passes/passes.h"

namespace sardonyx::passes {
namespace {

using Perm = std::vector<int64_t>;

const Perm& PermOf(const Value* value) { return value->producer->attributes.Ints("perm"); }

int64_t Positive(int64_t axis, int64_t rank) { return axis < 0 ? axis + rank : axis; }

// Elements of the value if known, else a large number: what permuting it anew would cost.
int64_t CostOf(const Value* value) {
  if (!value->fact.ranked()) return int64_t{1} << 40;
  int64_t count = 1, above_one = 0;
  for (Dim dim : *value->fact.shape) {
    if (dim == 1) continue;
    ++above_one;
    count *= dim.known() ? std::min<int64_t>(dim.value(), 1 << 20) : 1 << 12;
    count = std::min<int64_t>(count, int64_t{1} << 40);
  }
  return above_one <= 1 ? 0 : count;  // a permuted vector is a view
}

// A permuted constant is folded later: it costs nothing, and gains nothing by moving.
bool IsConstantLike(const Value* value) {
  return value->is_constant() ||
         (IsFrom(value, core::transpose) && value->producer->input(0)->is_constant());
}

// An operand in the order before the transpose: the transpose's own input, or itself permuted back.
Val Before(PatchMaker& maker, Value* operand, const Perm& perm) {
  if (IsFrom(operand, core::transpose) && PermOf(operand) == perm) {
    return maker.Wrap(operand->producer->input(0));
  }
  const int rank = operand->fact.rank();
  if (rank == 0) return maker.Wrap(operand);
  // Leading dimensions that broadcasting would add.
  std::vector<int64_t> axes(perm.size() - rank);
  std::iota(axes.begin(), axes.end(), 0);
  return Transpose(Unsqueeze(maker.Wrap(operand), axes), Inverse(perm));
}

// Elementwise operations and concat: all operands must be seen in one order.
Rewrite SinkThroughAligned(Node& node, PassContext& context, int64_t concat_axis) {
  const bool is_concat = node.op == &core::concat;
  const Perm* perm = nullptr;
  for (const Value* input : node.inputs) {
    if (IsFrom(input, core::transpose) && !IsConstantLike(input)) {
      perm = &PermOf(input);
      break;
    }
  }
  if (perm == nullptr) return NoMatch{};
  const size_t rank = perm->size();
  // Each counts for something, so that no two orders of small operands chase each other.
  int64_t saved = 0, spent = 0;
  for (const Value* input : node.inputs) {
    if (!input->fact.ranked() || input->fact.rank() > static_cast<int>(rank)) return NoMatch{};
    if (is_concat && input->fact.rank() != static_cast<int>(rank)) return NoMatch{};
    if (IsConstantLike(input) || input->fact.rank() == 0) continue;
    const int64_t cost = std::max<int64_t>(CostOf(input), 1);
    if (IsFrom(input, core::transpose) && PermOf(input) == *perm) {
      // Other users of the transpose may follow: each saves its share.
      saved += std::max<int64_t>(cost / static_cast<int64_t>(input->users.size()), 1);
    } else {
      spent += cost;
    }
  }
  if (saved <= spent) {
    return CheckFailed{"more operands would be transposed than are now"};
  }
  PatchMaker maker(context, node);
  const Perm chosen = *perm;
  std::vector<Val> inputs;
  for (Value* input : node.inputs) inputs.push_back(Before(maker, input, chosen));
  Attributes attributes = node.attributes;
  if (is_concat) attributes.Set("axis", chosen[concat_axis]);
  return maker.Replace(
      node, {Transpose(maker.builder().Make(*node.op, inputs, std::move(attributes)), chosen)});
}

// Operations on one tensor with an axis or axes, which keep its rank.
Rewrite SinkThroughAxes(Node& node, PassContext& context, const Perm& perm) {
  PatchMaker maker(context, node);
  Attributes attributes = node.attributes;
  const int64_t rank = static_cast<int64_t>(perm.size());
  auto moved = [&](int64_t axis) { return perm[Positive(axis, rank)]; };
  std::vector<Val> inputs = {maker.Wrap(node.input(0)->producer->input(0))};
  if (attributes.Find("axes") != nullptr) {
    std::vector<int64_t> axes;
    for (int64_t axis : attributes.Ints("axes")) axes.push_back(moved(axis));
    std::sort(axes.begin(), axes.end());
    attributes.Set("axes", axes);
  } else if (node.op != &core::reduce) {
    attributes.Set("axis", moved(attributes.Int("axis")));
  }
  for (size_t i = 1; i < node.inputs.size(); ++i) inputs.push_back(maker.Wrap(node.inputs[i]));
  const std::vector<Val> outputs =
      maker.builder().MakeMany(*node.op, inputs, attributes, static_cast<int>(node.outputs.size()));
  // Axes that are gone leave the others in their order.
  const bool drops = (node.op == &core::reduce || node.op == &core::arg_reduce) &&
                     attributes.Int("keepdims", 1) == 0;
  Perm after = perm;
  if (drops) {
    std::vector<int64_t> gone = attributes.Ints("axes");
    if (node.op == &core::arg_reduce) gone = {attributes.Int("axis")};
    if (node.op == &core::reduce && attributes.Find("axes") == nullptr) after.clear();
    std::erase_if(after, [&](int64_t axis) {
      return std::find(gone.begin(), gone.end(), axis) != gone.end();
    });
    for (int64_t& axis : after) {
      axis -= std::count_if(gone.begin(), gone.end(), [&](int64_t g) { return g < axis; });
    }
  }
  std::vector<Val> results;
  for (Val output : outputs) results.push_back(Transpose(output, after));
  return maker.Replace(node, results);
}

// slice and pad name their axes in inputs: (…, axes at `axes_input`).
Rewrite SinkThroughRanges(Node& node, PassContext& context, const Perm& perm) {
  const bool is_pad = node.op == &core::pad;
  const size_t axes_input = 3;
  const Value* counted = node.input(1);  // starts, or pads
  if (!counted->fact.constant.defined() && !counted->fact.elements) return NoMatch{};
  const int64_t rank = static_cast<int64_t>(perm.size());
  std::vector<int64_t> axes;
  if (const Value* given = node.input(axes_input)) {
    if (!given->fact.constant.defined()) return NoMatch{};
    axes = ToInts(given->fact.constant);
  } else {
    const int64_t count = counted->fact.elements
                              ? static_cast<int64_t>(counted->fact.elements->size())
                              : counted->fact.constant.size();
    for (int64_t i = 0; i < (is_pad ? count / 2 : count); ++i) axes.push_back(i);
  }
  for (int64_t& axis : axes) axis = perm[Positive(axis, rank)];
  PatchMaker maker(context, node);
  std::vector<Val> inputs;
  for (Value* input : node.inputs) inputs.push_back(maker.Wrap(input));
  inputs[0] = maker.Wrap(node.input(0)->producer->input(0));
  if (inputs.size() <= axes_input) inputs.resize(axes_input + 1);
  inputs[axes_input] = maker.builder().Ints(axes);
  return maker.Replace(node,
                       {Transpose(maker.builder().Make(*node.op, inputs, node.attributes), perm)});
}

// resize with a size or scale for every dimension, or for `axes`.
Rewrite SinkThroughResize(Node& node, PassContext& context, const Perm& perm) {
  if (node.input(1) != nullptr &&
      node.attributes.String("coordinate_transformation_mode") == "tf_crop_and_resize") {
    return NoMatch{};
  }
  PatchMaker maker(context, node);
  const int64_t rank = static_cast<int64_t>(perm.size());
  std::vector<int64_t> axes = node.attributes.Ints("axes");
  if (axes.empty()) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (int64_t& axis : axes) axis = perm[Positive(axis, rank)];
  std::vector<Val> inputs;
  for (Value* input : node.inputs) inputs.push_back(maker.Wrap(input));
  inputs[0] = maker.Wrap(node.input(0)->producer->input(0));
  if (inputs.size() > 1) inputs[1] = Val{};
  Attributes attributes = node.attributes;
  attributes.Set("axes", axes);
  return maker.Replace(
      node, {Transpose(maker.builder().Make(*node.op, inputs, std::move(attributes)), perm)});
}

Rewrite SinkThroughSqueeze(Node& node, PassContext& context, const Perm& perm) {
  if (node.attributes.Find("axes") == nullptr) return NoMatch{};
  const int64_t rank = static_cast<int64_t>(perm.size());
  std::vector<int64_t> gone;
  for (int64_t axis : node.attributes.Ints("axes")) gone.push_back(perm[Positive(axis, rank)]);
  Perm after = perm;
  std::erase_if(
      after, [&](int64_t axis) { return std::find(gone.begin(), gone.end(), axis) != gone.end(); });
  for (int64_t& axis : after) {
    axis -= std::count_if(gone.begin(), gone.end(), [&](int64_t g) { return g < axis; });
  }
  PatchMaker maker(context, node);
  std::sort(gone.begin(), gone.end());
  return maker.Replace(
      node, {Transpose(Squeeze(maker.Wrap(node.input(0)->producer->input(0)), gone), after)});
}

// New dimensions of size 1 may stand anywhere below the transpose: put them in front.
Rewrite SinkThroughUnsqueeze(Node& node, PassContext& context, const Perm& perm) {
  const int64_t added = static_cast<int64_t>(node.attributes.Ints("axes").size());
  const int64_t rank = static_cast<int64_t>(perm.size()) + added;
  std::vector<int64_t> axes;
  for (int64_t axis : node.attributes.Ints("axes")) axes.push_back(Positive(axis, rank));
  std::sort(axes.begin(), axes.end());
  std::vector<int64_t> front(added);
  std::iota(front.begin(), front.end(), 0);
  Perm after;
  int64_t next_new = 0, next_old = 0;
  for (int64_t i = 0; i < rank; ++i) {
    if (std::find(axes.begin(), axes.end(), i) != axes.end()) {
      after.push_back(next_new++);
    } else {
      after.push_back(perm[next_old++] + added);
    }
  }
  PatchMaker maker(context, node);
  return maker.Replace(
      node, {Transpose(Unsqueeze(maker.Wrap(node.input(0)->producer->input(0)), front), after)});
}

// Whether a reshape leaves dimension 0 as it is: the same symbol, or a symbol that can have no
// other size than the one asked for, since all the rest is known. Exporters that were shown a batch
// of one write such.
bool StaysFirst(const Dims& from, const Dims& to) {
  if (from[0] == to[0]) return true;
  if (from[0].known()) return false;
  int64_t before = 1, after = 1;  // elements of an item
  for (size_t i = 1; i < from.size(); ++i) {
    if (!from[i].known() || __builtin_mul_overflow(before, from[i].value(), &before)) return false;
  }
  for (size_t i = 1; i < to.size(); ++i) {
    if (!to[i].known() || __builtin_mul_overflow(after, to[i].value(), &after)) return false;
  }
  return to[0].known() && before == after && before > 0;
}

// The reshape behind a channel shuffle, [N, g, c, rest...] to [N, g * c, rest...] of a transposed
// [N, rest..., {g, c}]: only g and c change places, then channels-last they become one.
Rewrite SinkThroughShuffle(Node& node, PassContext& context, const Perm& perm) {
  const size_t rank = perm.size();
  if (rank < 4 || perm[0] != 0) return NoMatch{};
  const size_t rest = rank - 3;
  for (size_t i = 0; i < rest; ++i) {
    if (perm[3 + i] != static_cast<int64_t>(1 + i)) return NoMatch{};
  }
  const Dims& from = *node.input(0)->fact.shape;
  const Dims& to = *node.output()->fact.shape;
  if (to.size() != rank - 1 || !(from[0] == to[0])) return NoMatch{};
  if (!from[1].known() || !from[2].known() || !to[1].known() || to[1] == 0 ||
      from[1].value() * from[2].value() != to[1].value()) {
    return NoMatch{};
  }
  Perm swap = {0}, after = {0, static_cast<int64_t>(1 + rest)};
  std::vector<int64_t> target(1 + rest, 0);  // 0 copies the size
  for (size_t i = 0; i < rest; ++i) {
    if (!(from[3 + i] == to[2 + i])) return NoMatch{};
    swap.push_back(perm[3 + i]);
    after.push_back(static_cast<int64_t>(1 + i));
  }
  swap.insert(swap.end(), {perm[1], perm[2]});
  target.push_back(to[1].value());
  PatchMaker maker(context, node);
  const Val x = maker.Wrap(node.input(0)->producer->input(0));
  return maker.Replace(node, {Transpose(Reshape(Transpose(x, swap), target), after)});
}

// A reshape to [N, C, rest...] of a channels-first tensor whose N and C stay: the same reshape of
// the spatial dimensions alone, channels last.
Rewrite SinkThroughReshape(Node& node, PassContext& context, const Perm& perm) {
  const Value* x = node.input(0)->producer->input(0);
  const size_t rank = perm.size();
  if (rank < 3 || !node.output()->fact.ranked() || !x->fact.ranked()) return NoMatch{};
  if (Rewrite shuffled = SinkThroughShuffle(node, context, perm);
      !std::holds_alternative<NoMatch>(shuffled)) {
    return shuffled;
  }
  for (size_t i = 0; i < rank; ++i) {
    const int64_t expected = i == 0   ? 0
                             : i == 1 ? static_cast<int64_t>(rank) - 1
                                      : static_cast<int64_t>(i) - 1;
    if (perm[i] != expected) return NoMatch{};
  }
  const Dims& from = *node.input(0)->fact.shape;
  const Dims& to = *node.output()->fact.shape;
  if (to.size() < 2 || !StaysFirst(from, to)) return NoMatch{};
  // The dimensions that C becomes, then the spatial ones: [N, C] or [N, g, C/g].
  size_t channels = 0;
  if (from[1] == to[1]) {
    channels = 1;
  } else if (to.size() >= 3 && from[1].known() && to[1].known() && to[2].known() &&
             from[1].value() == to[1].value() * to[2].value()) {
    channels = 2;
  } else {
    return NoMatch{};
  }
  const size_t rest = to.size() - 1 - channels;
  std::vector<int64_t> target(1, to[0].known() ? to[0].value() : 0);  // 0 copies the symbol
  int unknown = 0;
  for (size_t i = 0; i < rest; ++i) {
    const Dim dim = to[1 + channels + i];
    target.push_back(dim.known() ? dim.value() : -1);
    unknown += dim.known() ? 0 : 1;
    if (dim == 0) return NoMatch{};
  }
  if (to[0] == 0 || unknown > 1) return NoMatch{};
  for (size_t i = 0; i < channels; ++i) {
    if (!to[1 + i].known() || to[1 + i] == 0) return NoMatch{};
    target.push_back(to[1 + i].value());
  }
  Perm after = {0};
  for (size_t i = 0; i < channels; ++i) after.push_back(static_cast<int64_t>(1 + rest + i));
  for (size_t i = 0; i < rest; ++i) after.push_back(static_cast<int64_t>(1 + i));
  PatchMaker maker(context, node);
  return maker.Replace(
      node, {Transpose(Reshape(maker.Wrap(node.input(0)->producer->input(0)), target), after)});
}

// A scale or bias {[..., G], [..., G, C/G]} with ones behind it, of rows [N, G, ...], as [C]; none
// if it is another.
std::optional<Val> OfChannels(PatchMaker& maker, Value* parameter, const Dims& rows,
                              int64_t channels) {
  if (!parameter->fact.ranked()) return std::nullopt;
  const Dims& dims = *parameter->fact.shape;
  const size_t lacking = rows.size() - dims.size();
  const auto size = [&](size_t i) { return i < lacking ? Dim(1) : dims[i - lacking]; };
  const int64_t groups = rows[1].value(), each = channels / groups;
  const bool is_of_each = !(size(2) == 1);
  bool fits = size(0) == 1 && size(1) == groups;
  if (is_of_each) fits &= size(2) == each && rows[2] == each;
  for (size_t i = 3; i < rows.size(); ++i) fits &= size(i) == 1;
  if (!fits) return std::nullopt;
  Val given = maker.Wrap(parameter);
  if (!is_of_each && each > 1) {
    given = Expand(Reshape(given, std::vector<int64_t>{groups, 1}),
                   maker.builder().Ints({groups, each}));
  }
  return Reshape(given, std::vector<int64_t>{channels});
}

// Whether all that uses a reshape normalises its rows (SinkThroughGroups).
bool AreRowsOfGroups(const Node& reshape) {
  const std::vector<Node*>& users = reshape.output()->users;
  return !users.empty() &&
         std::ranges::all_of(users, [](const Node* user) { return user->op == &core::layer_norm; });
}

// t = transpose(x) {perm=[0,3,1,2]}
// r = reshape(t, [N, G, -1])
// n = layer_norm(r) {axis=2}
// y = reshape(n, shape(t))         ->   mean, factor = group_moments(x) {groups=G}
//                                       y = transpose(mul(sub(x, mean), factor)) {perm=[0,3,1,2]}
//
// A group normalisation with its channels last, of which all but the moments joins a chain.
Rewrite SinkThroughGroups(Node& node, PassContext& context) {
  const Node& norm = *node.input(0)->producer;
  if (!IsFrom(norm.input(0), core::reshape)) return NoMatch{};
  const Value* const rows = norm.input(0);
  const Value* const first = rows->producer->input(0);
  if (!IsFrom(first, core::transpose) || !rows->fact.ranked() || !first->fact.ranked() ||
      !SameShape(first, node.output())) {
    return NoMatch{};
  }
  const Perm perm = PermOf(first);
  const Dims& from = *first->fact.shape;
  const Dims& to = *rows->fact.shape;
  if (perm.size() < 3 || Inverse(perm) != ChannelsLast(from.size()) || to.size() < 3) {
    return NoMatch{};
  }
  const int64_t rank = static_cast<int64_t>(to.size());
  if (Positive(norm.attributes.Int("axis", -1), rank) != 2 || norm.attributes.Int("rms") != 0 ||
      norm.outputs.size() > 1 || norm.output()->fact.type.dtype != first->fact.type.dtype) {
    return NoMatch{};
  }
  if (!StaysFirst(from, to) || !from[1].known() || !to[1].known() || to[1] == 0 ||
      from[1].value() % to[1].value() != 0) {
    return CheckFailed{"groups of unknown channels"};
  }
  PatchMaker maker(context, node);
  std::optional<Val> parameters[2];  // scale, bias
  const double neutral[] = {1, 0};
  for (size_t i = 0; i < 2; ++i) {
    Value* const given = norm.input(1 + i);
    if (given == nullptr || IsConstantOf(given, neutral[i])) continue;
    parameters[i] = OfChannels(maker, given, to, from[1].value());
    if (!parameters[i]) return CheckFailed{"its scale or bias is none of channels or groups"};
    parameters[i] = Widen(*parameters[i]);
  }
  maker.builder().SetOrigin(norm.origin);
  const Val x = maker.Wrap(first->producer->input(0)), wide = Widen(x);
  const std::vector<Val> moments = maker.builder().MakeMany(
      core::group_moments, {wide, parameters[0].value_or(Val{})},
      {{"groups", to[1].value()}, {"epsilon", norm.attributes.Float("epsilon", 1e-5)}}, 2);
  Val y = (wide - moments[0]) * moments[1];
  if (parameters[1]) y = y + *parameters[1];
  return maker.Replace(node, {Transpose(CastLike(y, x), perm)});
}

}  // namespace

Rewrite SinkTransposes(Node& node, PassContext& context) {
  if (node.op == &core::transpose) return RemoveIdentities(node, context);
  if (node.op->expression != nullptr) return SinkThroughAligned(node, context, 0);
  if (node.op == &core::concat) {
    const Value* output = node.output();
    if (!output->fact.ranked()) return NoMatch{};
    return SinkThroughAligned(node, context,
                              Positive(node.attributes.Int("axis"), output->fact.rank()));
  }
  if (node.op == &core::reshape && IsFrom(node.input(0), core::layer_norm)) {
    return SinkThroughGroups(node, context);
  }
  if (node.op == &core::reshape && AreRowsOfGroups(node)) return NoMatch{};
  if (!IsFrom(node.input(0), core::transpose)) return NoMatch{};
  const Perm perm = PermOf(node.input(0));
  if (node.op == &core::reduce || node.op == &core::arg_reduce || node.op == &core::softmax ||
      node.op == &core::split || node.op == &core::cumulative) {
    if (node.op == &core::softmax && node.attributes.Find("axis") == nullptr) return NoMatch{};
    return SinkThroughAxes(node, context, perm);
  }
  if (node.op == &core::slice || node.op == &core::pad) {
    return SinkThroughRanges(node, context, perm);
  }
  if (node.op == &core::resize) return SinkThroughResize(node, context, perm);
  if (node.op == &core::squeeze) return SinkThroughSqueeze(node, context, perm);
  if (node.op == &core::unsqueeze) return SinkThroughUnsqueeze(node, context, perm);
  if (node.op == &core::reshape || node.op == &core::flatten) {
    return SinkThroughReshape(node, context, perm);
  }
  return NoMatch{};
}

}  // namespace sardonyx::passes
