// p = pad(x, {0,1,1,0,0,1,1,0})
// y = conv(p, w) {pads=[0,0,0,0]}      ->   y = conv(x, w) {pads=[1,1,1,1]}
//
// Also with a transpose between them, as at the first convolution of a model.

#include <algorithm>

#include "passes/passes.h"

namespace sardonyx::passes {

Rewrite AbsorbPads(Node& node, PassContext& context) {
  if (node.op != &core::conv) return NoMatch{};
  const Value* source = node.input(0);
  std::vector<int64_t> perm;
  if (IsFrom(source, core::transpose)) {
    perm = source->producer->attributes.Ints("perm");
    source = source->producer->input(0);
  }
  if (!IsFrom(source, core::pad)) return NoMatch{};
  const Node& pad = *source->producer;
  const std::string_view auto_pad = node.attributes.String("auto_pad", "NOTSET");
  if (auto_pad.starts_with("SAME")) return CheckFailed{"auto_pad computes the padding"};
  if (pad.attributes.String("mode", "constant") != "constant") {
    return CheckFailed{"the pad's mode is not constant"};
  }
  if (pad.input(2) != nullptr && !IsConstantOf(pad.input(2), 0)) {
    return CheckFailed{"the pad's value is not 0"};
  }
  if (!pad.input(1)->fact.constant.defined() || !source->fact.ranked()) return NoMatch{};
  const std::vector<int64_t> given = ToInts(pad.input(1)->fact.constant);
  const int64_t rank = source->fact.rank();
  std::vector<int64_t> axes;
  if (pad.input(3) != nullptr) {
    if (!pad.input(3)->fact.constant.defined()) return NoMatch{};
    axes = ToInts(pad.input(3)->fact.constant);
  } else {
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  }
  std::vector<int64_t> begin(rank, 0), end(rank, 0);  // in the convolution's order
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    if (!perm.empty()) axis = std::find(perm.begin(), perm.end(), axis) - perm.begin();
    begin[axis] = given[i];
    end[axis] = given[axes.size() + i];
  }
  const bool inside = std::all_of(begin.begin(), begin.end(), [](int64_t p) { return p >= 0; }) &&
                      std::all_of(end.begin(), end.end(), [](int64_t p) { return p >= 0; });
  if (!inside || begin[0] != 0 || end[0] != 0 || begin[rank - 1] != 0 || end[rank - 1] != 0) {
    return CheckFailed{"more than spatial borders are padded, or some are cut"};
  }
  const int64_t spatial = rank - 2;
  std::vector<int64_t> pads = node.attributes.Ints("pads");
  if (pads.empty() || auto_pad == "VALID") pads.assign(2 * spatial, 0);
  for (int64_t i = 0; i < spatial; ++i) {
    pads[i] += begin[1 + i];
    pads[spatial + i] += end[1 + i];
  }
  PatchMaker maker(context, node);
  Attributes attributes = node.attributes;
  attributes.Set("pads", pads);
  attributes.Erase("auto_pad");
  std::vector<Val> inputs;
  for (Value* input : node.inputs) inputs.push_back(maker.Wrap(input));
  inputs[0] = maker.Wrap(pad.input(0));
  if (!perm.empty()) inputs[0] = Transpose(inputs[0], perm);
  return maker.Replace(node, {maker.builder().Make(*node.op, inputs, std::move(attributes))});
}

}  // namespace sardonyx::passes
