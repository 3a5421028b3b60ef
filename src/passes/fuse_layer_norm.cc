// d = sub(x, reduce(x) {kind="mean"})
// v = reduce(pow(d, 2)) {kind="mean"}
// u = div(d, sqrt(add(v, epsilon)))
// y = add(mul(u, scale), bias)          ->   y = layer_norm(x, scale, bias) {epsilon}
//
// over the last axis, as exporters write it for opsets that have no such operator.

#include "passes/passes.h"

namespace sardonyx::passes {
namespace {

bool Is(const Value* value, Fn fn) { return IsFrom(value, core::Elementwise(fn)); }

// What the value is a mean of, over the last axis, which stays; else null.
const Value* MeanOf(const Value* mean) {
  if (!IsFrom(mean, core::reduce)) return nullptr;
  const Node& node = *mean->producer;
  const Value* const x = node.input(0);
  const std::vector<int64_t>& axes = node.attributes.Ints("axes");
  const bool is_last = x->fact.ranked() && axes.size() == 1 &&
                       (axes[0] == -1 || axes[0] == static_cast<int64_t>(x->fact.rank()) - 1);
  const bool is_mean =
      node.attributes.String("kind") == "mean" && node.attributes.Int("keepdims") != 0;
  return is_last && is_mean ? x : nullptr;
}

bool IsSquareOf(const Value* square, const Value* x) {
  if (Is(square, Fn::kMul)) {
    return square->producer->input(0) == x && square->producer->input(1) == x;
  }
  return Is(square, Fn::kPow) && square->producer->input(0) == x &&
         IsConstantOf(square->producer->input(1), 2);
}

// The other operand, where the value is fn of a constant and that; else null.
const Value* BesideConstant(const Value* value, Fn fn, Value** constant) {
  if (!Is(value, fn)) return nullptr;
  for (const size_t i : {1, 0}) {
    *constant = value->producer->input(i);
    if ((*constant)->is_constant()) return value->producer->input(1 - i);
  }
  return nullptr;
}

// A number for each value of a row of x.
bool IsOfRow(const Value* constant, const Value* x) {
  const Tensor& tensor = constant->fact.constant;
  const Dim row = x->fact.shape->back();
  return tensor.dtype() == DType::kFloat32 && tensor.rank() == 1 && row.known() &&
         tensor.size() == row.value();
}

}  // namespace

Rewrite FuseLayerNorm(Node& node, PassContext& context) {
  Value *bias = nullptr, *scale = nullptr, *epsilon = nullptr;
  if (node.op != &core::Elementwise(Fn::kAdd)) return NoMatch{};
  const Value* const scaled = BesideConstant(node.outputs[0], Fn::kAdd, &bias);
  const Value* const unit = BesideConstant(scaled, Fn::kMul, &scale);
  if (!Is(unit, Fn::kDiv)) return NoMatch{};
  const Value* const centred = unit->producer->input(0);
  const Value* const deviation = unit->producer->input(1);
  if (!Is(centred, Fn::kSub) || !Is(deviation, Fn::kSqrt)) return NoMatch{};
  Value* const x = centred->producer->input(0);
  const Value* const variance = BesideConstant(deviation->producer->input(0), Fn::kAdd, &epsilon);
  if (MeanOf(centred->producer->input(1)) != x || !IsSquareOf(MeanOf(variance), centred)) {
    return NoMatch{};
  }
  if (x->fact.type.dtype != DType::kFloat32) return CheckFailed{"not of float32"};
  if (epsilon->fact.constant.size() != 1) return CheckFailed{"epsilon is not a number"};
  if (!IsOfRow(scale, x) || !IsOfRow(bias, x)) {
    return CheckFailed{"scale or bias is not a number for each value of a row"};
  }
  if (!HasOneUser(context.graph, scaled) || !HasOneUser(context.graph, unit)) {
    return CheckFailed{"what is scaled has other users"};
  }
  PatchMaker maker(context, node);
  const double number = ToDoubles(Aligned(epsilon->fact.constant))[0];
  return maker.Replace(
      node,
      {maker.builder().Make(core::layer_norm, {maker.Wrap(x), maker.Wrap(scale), maker.Wrap(bias)},
                            {{"axis", int64_t{-1}}, {"epsilon", number}})});
}

}  // namespace sardonyx::passes
