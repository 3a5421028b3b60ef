// c = cast(x: float16) {to=float}
// n = layer_norm(c, scale, bias)
// y = cast(n) {to=float16}               ->   y = layer_norm(x, scale, bias) {to=float16}
//
// on either side alone as well: rows are widened and rounded while they are in the first cache.

#include <algorithm>

#include "passes/expressions.h"
#include "passes/passes.h"

namespace sardonyx::passes {
namespace {

// Casts of float32 to one type of 16 bits, forth and back perhaps, which round as one of them does.
bool RoundsToHalf(const Node& node) {
  if (!IsElementwise(node) || node.inputs.size() != 1) return false;
  const Expression expression = ExpressionOf(node);
  const DType to = expression.ResultType();
  if (!IsHalf(to) || expression.inputs[0] != DType::kFloat32) return false;
  return std::ranges::all_of(expression.code, [&](const Instruction& instruction) {
    return instruction.fn == Fn::kCast &&
           (instruction.type == to || instruction.type == DType::kFloat32);
  });
}

// The normalisation of `x` instead, whose result is of type `to`, in the place of the node.
Rewrite NormalisationOf(const Node& norm, Value* x, DType to, const Node& node,
                        PassContext& context) {
  PatchMaker maker(context, node);
  maker.builder().SetOrigin(norm.origin);
  Attributes attributes = norm.attributes;
  attributes.Set("to", static_cast<int64_t>(to));
  const Val result = maker.builder().Make(
      core::layer_norm, {maker.Wrap(x), maker.Wrap(norm.input(1)), maker.Wrap(norm.input(2))},
      std::move(attributes));
  return maker.Replace(node, {result});
}

}  // namespace

Rewrite AbsorbCasts(Node& node, PassContext& context) {
  if (node.op == &core::layer_norm) {
    Value* const wide = node.input(0);
    if (!IsFrom(wide, core::Elementwise(Fn::kCast)) || wide->fact.type.dtype != DType::kFloat32) {
      return NoMatch{};
    }
    Value* const x = wide->producer->input(0);
    if (!IsHalf(x->fact.type.dtype)) return NoMatch{};
    if (node.outputs.size() > 1) return CheckFailed{"the normalisation gives its statistics"};
    return NormalisationOf(node, x, node.outputs[0]->fact.type.dtype, node, context);
  }
  if (!RoundsToHalf(node) || !IsFrom(node.input(0), core::layer_norm)) return NoMatch{};
  const Node& norm = *node.input(0)->producer;
  if (norm.outputs.size() > 1) return CheckFailed{"the normalisation gives its statistics"};
  if (!HasOneUser(context.graph, node.input(0))) {
    return CheckFailed{"the normalisation is also used as it is"};
  }
  return NormalisationOf(norm, norm.input(0), node.outputs[0]->fact.type.dtype, node, context);
}

}  // namespace sardonyx::passes
