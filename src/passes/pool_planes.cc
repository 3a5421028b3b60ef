// t = transpose(x) {perm=[0,2,3,1]}           u = unsqueeze(x) {axes=[4]}
// p = max_pool(t) {kernel=[2,2]}          ->  q = max_pool(u) {kernel=[1,2,2]}
// y = transpose(p) {perm=[0,3,1,2]}           y = squeeze(q) {axes=[4]}
//
// Where the transposes around a pool did not cancel, the channels are one more spatial axis, which
// the window does not span. Average pools too.

#include "passes/passes.h"

namespace sardonyx::passes {

Rewrite PoolPlanes(Node& node, PassContext& context) {
  if (node.op != &core::transpose) return NoMatch{};
  if (!IsFrom(node.input(0), core::max_pool) && !IsFrom(node.input(0), core::average_pool)) {
    return NoMatch{};
  }
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
  PatchMaker maker(context, node);
  const Val planes = Unsqueeze(maker.Wrap(before.input(0)), {rank});
  const Val pooled = maker.builder().Make(*pool.op, {planes}, std::move(attributes));
  return maker.Replace(node, {Squeeze(pooled, {rank})});
}

}  // namespace sardonyx::passes
