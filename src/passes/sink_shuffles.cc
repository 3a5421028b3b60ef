// s = shuffle(x: float[n,h,w,g*m])        x4 = reshape(x, [n,h,w*g,m])
// y = conv(s, v) {group=k, 1x1}       ->  y = conv(x4, reshape(v, [Cout,m/k,1,g])) {group=k,
//                                                          kernel [1,g], strides=[1,g]}
//
// where shuffle is reshape(transpose(reshape(x, [n,h,w,g,m]), [0,1,2,4,3]), [n,h,w,g*m]), as in
// ShuffleNet: a group of the convolution takes m/k channels of each of the g blocks, which a line
// of a kernel names as well. A depthwise convolution between the two works on channels as they
// come, its weights and epilogue shuffled back.

#include <algorithm>

#include "passes/passes.h"

namespace sardonyx::passes {
namespace {

// Channel c of block g of x, of g blocks of m channels, becomes channel c * blocks + g.
struct Shuffle {
  Value* x = nullptr;
  int64_t blocks = 0, channels = 0;
};

bool MatchShuffle(const Value* value, Shuffle* shuffle) {
  if (!IsFrom(value, core::reshape) || !IsFrom(value->producer->input(0), core::transpose)) {
    return false;
  }
  const Node& transpose = *value->producer->input(0)->producer;
  if (!IsFrom(transpose.input(0), core::reshape)) return false;
  const Value* split = transpose.input(0);
  shuffle->x = split->producer->input(0);
  if (!SameShape(shuffle->x, value)) return false;
  const size_t rank = shuffle->x->fact.rank();
  std::vector<int64_t> swapped(rank + 1);
  for (size_t i = 0; i <= rank; ++i) swapped[i] = static_cast<int64_t>(i);
  std::swap(swapped[rank - 1], swapped[rank]);
  if (transpose.attributes.Ints("perm") != swapped || split->fact.shape->size() != rank + 1) {
    return false;
  }
  const auto& whole = *shuffle->x->fact.shape;
  const auto& parts = *split->fact.shape;
  if (!std::equal(whole.begin(), whole.end() - 1, parts.begin())) return false;
  if (!parts[rank - 1].known() || !parts[rank].known()) return false;
  shuffle->blocks = parts[rank - 1].value();
  shuffle->channels = parts[rank].value();
  return shuffle->blocks > 0 && shuffle->channels > 0;
}

// Whether `node` is a pointwise convolution whose groups take whole blocks of the shuffled
// channels.
bool CanRead(const Node& node, const Shuffle& shuffle) {
  return IsPointwise(node) && node.input(1)->is_constant() &&
         shuffle.channels % node.attributes.Int("group", 1) == 0;
}

bool IsDepthwise(const Node& node, int64_t channels) {
  if (node.op != &core::conv || node.attributes.Int("group", 1) != channels) return false;
  if (!node.input(1)->is_constant() || !(node.output()->fact.shape->back() == channels)) {
    return false;
  }
  return std::all_of(node.inputs.begin() + 2, node.inputs.end(), [&](const Value* operand) {
    if (!operand->is_constant()) return false;
    const Tensor& tensor = operand->fact.constant;
    return tensor.size() == 1 || (tensor.size() == channels && tensor.dims().back() == channels);
  });
}

Rewrite SinkBelow(const Node& node, const Shuffle& shuffle, PassContext& context) {
  PatchMaker maker(context, node);
  // A constant of one value, or of one slice a channel, of the channels before the shuffle.
  const auto before = [&](Value* value) {
    const Val all = maker.Wrap(value);
    if (value->fact.constant.size() == 1) return all;
    const Val slices = Reshape(all, std::vector<int64_t>{shuffle.channels, shuffle.blocks, -1});
    return Reshape(Transpose(slices, {1, 0, 2}), value->fact.constant.dims());
  };
  std::vector<Val> inputs = {maker.Wrap(shuffle.x)};
  for (size_t i = 1; i < node.inputs.size(); ++i) inputs.push_back(before(node.inputs[i]));
  const Val y = maker.builder().Make(*node.op, inputs, node.attributes);
  const int64_t rank = node.output()->fact.rank();
  std::vector<int64_t> split(rank - 1, 0), swapped, whole(rank - 1, 0);
  split.insert(split.end(), {shuffle.blocks, shuffle.channels});
  whole.push_back(shuffle.blocks * shuffle.channels);
  for (int64_t i = 0; i + 1 < rank; ++i) swapped.push_back(i);
  swapped.insert(swapped.end(), {rank, rank - 1});
  return maker.Replace(node, {Reshape(Transpose(Reshape(y, split), swapped), whole)});
}

}  // namespace

Rewrite SinkShuffles(Node& node, PassContext& context) {
  Shuffle shuffle;
  if (node.op != &core::conv || !MatchShuffle(node.input(0), &shuffle)) return NoMatch{};
  const Value* y = node.output();
  if (IsDepthwise(node, shuffle.blocks * shuffle.channels)) {
    if (!HasOneUser(context.graph, y) || y->users[0]->input(0) != y ||
        !CanRead(*y->users[0], shuffle)) {
      return CheckFailed{"no grouped convolution behind takes the channels in their order"};
    }
    return SinkBelow(node, shuffle, context);
  }
  if (!CanRead(node, shuffle))
    return CheckFailed{"no pointwise convolution whose groups take whole blocks"};
  PatchMaker maker(context, node);
  const int64_t rank = y->fact.rank();
  std::vector<int64_t> dims(rank, 0);
  dims[rank - 2] = -1;
  dims[rank - 1] = shuffle.channels;
  std::vector<int64_t> weights = node.input(1)->fact.constant.dims();
  weights[1] /= shuffle.blocks;
  weights.back() = shuffle.blocks;
  std::vector<int64_t> strides(rank - 2, 1);
  strides.back() = shuffle.blocks;
  Attributes attributes = node.attributes;
  attributes.Set("strides", strides);
  // Those of a window of one place say nothing, those of the wider one would.
  attributes.Set("dilations", std::vector<int64_t>(strides.size(), 1));
  std::vector<Val> inputs;
  for (Value* input : node.inputs) inputs.push_back(maker.Wrap(input));
  inputs[0] = Reshape(maker.Wrap(shuffle.x), dims);
  inputs[1] = Reshape(inputs[1], weights);
  return maker.Replace(node, {maker.builder().Make(*node.op, inputs, std::move(attributes))});
}

}  // namespace sardonyx::passes
