// t = transpose(x) {perm=[0,2,3,1]}           u = unsqueeze(x) {axes=[4]}
// p = max_pool(t) {kernel=[2,2]}          ->  q = max_pool(u) {kernel=[1,2,2]}
// y = transpose(p) {perm=[0,3,1,2]}           y = squeeze(q) {axes=[4]}
//
// Where the transposes around a pool did not cancel, the channels are one more spatial axis, which
// the window does not span. Average pools too.
//
// A pool of few channels is also such where its channels are last and its windows lie more than a
// pixel apart (PoolFewPlanes): vectors would be almost empty, and it takes several times as long as
// two more transposes.

#include "passes/passes.h"

namespace sardonyx::passes {
namespace {

// Measured (Zen 4, 120 x 160 pixels, float32): windows of 2 x 2 take 0.4 of the time for 3
// channels, 0.9 for 8. Below so many pixels the transposes' own steps count.
constexpr int64_t kFewChannels = 8, kLeastPixels = 1024;

bool IsPool(const Node& node) {
  return node.op == &core::max_pool || node.op == &core::average_pool;
}

// The pool of planes x [n, c, ...], whose rank it is.
Val OfPlanes(PatchMaker& maker, const Node& pool, Val x, int64_t rank) {
  Attributes attributes = pool.attributes;
  const auto widen = [&](std::string_view name, int64_t value, bool twice) {
    std::vector<int64_t> values = attributes.Ints(name);
    if (values.empty()) return;
    if (twice) values.insert(values.begin() + static_cast<int64_t>(values.size()) / 2, value);
    values.insert(values.begin(), value);
    attributes.Set(name, values);
  };
  widen("kernel", 1, false);
  widen("strides", 1, false);
  widen("dilations", 1, false);
  widen("pads", 0, true);
  const Val pooled = maker.builder().Make(*pool.op, {Unsqueeze(x, {rank})}, std::move(attributes));
  return Squeeze(pooled, {rank});
}

}  // namespace

Rewrite PoolPlanes(Node& node, PassContext& context) {
  if (node.op != &core::transpose) return NoMatch{};
  if (node.input(0)->producer == nullptr || !IsPool(*node.input(0)->producer)) return NoMatch{};
  const Node& pool = *node.input(0)->producer;
  if (!IsFrom(pool.input(0), core::transpose)) return NoMatch{};
  const Node& before = *pool.input(0)->producer;
  const std::vector<int64_t>& perm = before.attributes.Ints("perm");
  const int64_t rank = static_cast<int64_t>(perm.size());
  if (perm != ChannelsLast(rank)) return NoMatch{};
  if (node.attributes.Ints("perm") != Inverse(perm)) return NoMatch{};
  if (!HasOneUser(context.graph, node.input(0)) || pool.outputs.size() > 1) {
    return CheckFailed{"the pool has other users or indices"};
  }
  if (rank > 5) return CheckFailed{"more than three spatial axes"};
  PatchMaker maker(context, node);
  return maker.Replace(node, {OfPlanes(maker, pool, maker.Wrap(before.input(0)), rank)});
}

Rewrite PoolFewPlanes(Node& node, PassContext& context) {
  if (node.op == &core::transpose) {
    return IsFrom(node.input(0), core::transpose) ? RemoveIdentities(node, context)
                                                  : PoolPlanes(node, context);
  }
  if (!IsPool(node) || node.outputs.size() > 1 || !node.output()->fact.ranked()) return NoMatch{};
  const Dims& shape = *node.output()->fact.shape;
  const auto rank = static_cast<int64_t>(shape.size());
  const Dim channels = shape.back();
  // One channel is a plane as it is.
  if (!channels.known() || channels.value() < 2 || channels.value() >= kFewChannels) {
    return NoMatch{};
  }
  const std::vector<int64_t>& strides = node.attributes.Ints("strides");
  if (strides.empty() || strides.back() == 1) return NoMatch{};
  if (rank > 5) return CheckFailed{"more than three spatial axes"};
  if (node.output()->fact.type != DType::kFloat32) return CheckFailed{"it is not of float32"};
  if (PixelsOf(shape) < kLeastPixels) return CheckFailed{"its planes are small, or may be"};
  const std::vector<int64_t> to_last = ChannelsLast(rank);
  PatchMaker maker(context, node);
  const Val planes = Transpose(maker.Wrap(node.input(0)), Inverse(to_last));
  return maker.Replace(node, {Transpose(OfPlanes(maker, node, planes, rank), to_last)});
}

}  // namespace sardonyx::passes
