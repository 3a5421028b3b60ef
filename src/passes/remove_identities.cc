// y = transpose(transpose(x) {perm=[0,2,1]}) {perm=[0,2,1]}   ->   y = x
//
// and other nodes, or pairs of them, that only hand their input on.

#include <algorithm>
#include <span>

#include "passes/passes.h"

namespace sardonyx::passes {
namespace {

bool IsView(const Node& node) { return node.op->is_view; }

// A reshape of a view reads the memory of the view's input.
Rewrite MergeViews(Node& node, PassContext& context) {
  if (node.op != &core::reshape || node.input(0)->producer == nullptr ||
      !IsView(*node.input(0)->producer)) {
    return NoMatch{};
  }
  // Only a target that does not refer to the dimensions of its input means the same elsewhere.
  const auto& elements = node.input(1)->fact.elements;
  if (!elements) return NoMatch{};
  const bool copies =
      std::any_of(elements->begin(), elements->end(), [](Dim dim) { return dim == 0; });
  if (copies) return NoMatch{};
  PatchMaker maker(context, node);
  return maker.Replace(
      node, {Reshape(maker.Wrap(node.input(0)->producer->input(0)), maker.Wrap(node.input(1)),
                     node.attributes.Int("allowzero"))});
}

Rewrite MergeTransposes(Node& node, PassContext& context) {
  if (node.op != &core::transpose || !IsFrom(node.input(0), core::transpose)) return NoMatch{};
  const Node& first = *node.input(0)->producer;
  const auto& inner = first.attributes.Ints("perm");
  const auto& outer = node.attributes.Ints("perm");
  std::vector<int64_t> perm;
  for (int64_t axis : outer) perm.push_back(inner[axis]);
  PatchMaker maker(context, node);
  return maker.Replace(node, {Transpose(maker.Wrap(first.input(0)), perm)});
}

// All parts of a split, side by side again, are what was split.
Rewrite JoinSplit(Node& node, PassContext& context) {
  if (node.op != &core::concat || !node.output()->fact.ranked()) return NoMatch{};
  const auto axis_of = [&](const Node& of) {
    const int64_t axis = of.attributes.Int("axis");
    return axis < 0 ? axis + node.output()->fact.rank() : axis;
  };
  std::vector<Value*> parts;
  for (size_t i = 0; i < node.inputs.size();) {
    const std::span rest = std::span(node.inputs).subspan(i);
    const Node* split = rest[0]->producer;
    if (IsFrom(rest[0], core::split) && axis_of(*split) == axis_of(node) &&
        split->outputs.size() <= rest.size() &&
        std::ranges::equal(split->outputs, rest.first(split->outputs.size()))) {
      parts.push_back(split->input(0));
      i += split->outputs.size();
    } else {
      parts.push_back(rest[0]);
      ++i;
    }
  }
  if (parts.size() == node.inputs.size()) return NoMatch{};
  PatchMaker maker(context, node);
  std::vector<Val> values;
  for (Value* part : parts) values.push_back(maker.Wrap(part));
  return maker.Replace(node, {values.size() == 1 ? values[0] : Concat(values, axis_of(node))});
}

// mul(x, expand(s)) of the shape of x, as `x * s.expand_as(x)` is exported: s broadcasts by itself.
Rewrite DropExpand(Node& node, PassContext& context) {
  Fn fn;
  if (!core::IsElementwise(*node.op, &fn)) return NoMatch{};
  const auto is_expanded = [](const Value* input) { return IsFrom(input, core::expand); };
  const auto found = std::ranges::find_if(node.inputs, is_expanded);
  const bool has_shape = std::ranges::any_of(node.inputs, [&](const Value* input) {
    return !is_expanded(input) && input != nullptr && SameShape(input, node.output());
  });
  if (found == node.inputs.end() || !has_shape) return NoMatch{};
  PatchMaker maker(context, node);
  std::vector<Val> inputs;
  for (Value* input : node.inputs) {
    inputs.push_back(maker.Wrap(is_expanded(input) ? input->producer->input(0) : input));
  }
  return maker.Replace(node, {maker.builder().Make(*node.op, inputs, node.attributes)});
}

bool KeepsShape(const Node& node) { return SameShape(node.input(0), node.output()); }

bool IsScalarLike(const Value* value, const Value* output) {
  // Dropping the operand must not change the shape: it broadcasts into the other.
  return value->fact.ranked() && output->fact.ranked() && value->fact.rank() <= output->fact.rank();
}

bool HasSteps(const Node& slice, int64_t step) {
  return slice.input(4) == nullptr || IsConstantOf(slice.input(4), static_cast<double>(step));
}

// To the size that the image has. Of other coordinates and policies one that keeps its size may
// still move.
bool ResizesToItself(const Node& node) {
  const std::string_view coordinates =
      node.attributes.String("coordinate_transformation_mode", "half_pixel");
  const bool moves = coordinates == "tf_crop_and_resize" || coordinates == "tf_half_pixel_for_nn" ||
                     node.attributes.String("keep_aspect_ratio_policy", "stretch") != "stretch";
  return !moves && KeepsShape(node) && (node.input(2) == nullptr || IsConstantOf(node.input(2), 1));
}

// The operand that the node hands on, or null.
Value* HandsOn(const Node& node) {
  const CoreOp* op = node.op;
  Value* x = node.input(0);
  if (x == nullptr) return nullptr;
  Fn fn;
  if (core::IsElementwise(*op, &fn)) {
    Value* y = node.input(1);
    switch (fn) {
      case Fn::kCast: return x->fact.type == node.output()->fact.type ? x : nullptr;
      case Fn::kMul:
      case Fn::kDiv:
        if (IsConstantOf(y, 1) && KeepsShape(node) && IsScalarLike(y, node.output())) return x;
        if (fn == Fn::kMul && IsConstantOf(x, 1) && SameShape(y, node.output())) return y;
        return nullptr;
      case Fn::kAdd:
      case Fn::kSub:
        // x + 0 turns -0 into 0: no reader of floats minds.
        if (IsConstantOf(y, 0) && KeepsShape(node)) return x;
        if (fn == Fn::kAdd && IsConstantOf(x, 0) && SameShape(y, node.output())) return y;
        return nullptr;
      default: return nullptr;
    }
  }
  if ((op->is_view || op == &core::expand || op == &core::tile) && KeepsShape(node)) return x;
  if (op == &core::transpose) {
    const auto& perm = node.attributes.Ints("perm");
    return std::is_sorted(perm.begin(), perm.end()) ? x : nullptr;
  }
  // Backwards, or cut as much as added, a tensor keeps its shape but not its elements.
  if (op == &core::slice) {
    return HasSteps(node, 1) && KeepsShape(node) ? x : nullptr;
  }
  if (op == &core::pad) return IsConstantOf(node.input(1), 0) && KeepsShape(node) ? x : nullptr;
  if (op == &core::resize) return ResizesToItself(node) ? x : nullptr;
  if (op == &core::concat && node.inputs.size() == 1) return x;
  if (op == &core::split && node.outputs.size() == 1 && KeepsShape(node)) return x;
  return nullptr;
}

}  // namespace

Rewrite RemoveIdentities(Node& node, PassContext& context) {
  if (Value* value = HandsOn(node)) {
    PatchMaker maker(context, node);
    return maker.Replace(node, {maker.Wrap(value)});
  }
  if (Rewrite merged = MergeTransposes(node, context); std::holds_alternative<Patch>(merged)) {
    return merged;
  }
  if (Rewrite joined = JoinSplit(node, context); std::holds_alternative<Patch>(joined)) {
    return joined;
  }
  if (Rewrite dropped = DropExpand(node, context); std::holds_alternative<Patch>(dropped)) {
    return dropped;
  }
  return MergeViews(node, context);
}

}  // namespace sardonyx::passes
