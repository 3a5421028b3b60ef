// c = conv(x, w)
// y = mul(c, s: float[Cout])      ->   y = conv(x, mul(w, s))
//
// and for matmul and conv_transpose, and into the factor of a group normalisation (group_moments).
// Sums between are reordered so that factors reach the weights:
// mul(add(c, b), s) -> add(mul(c, s), mul(b, s)); add(add(c, a), b) -> add(c, add(a, b)).

#include <algorithm>

#include "passes/passes.h"

namespace sardonyx::passes {
namespace {

bool HasWeights(const Value* value) {
  return IsFrom(value, core::conv) || IsFrom(value, core::conv_transpose) ||
         IsFrom(value, core::matmul);
}

// A float constant that has one element, or one for each element of the last axis of `like`.
bool IsPerChannel(const Value* value, const Value* like) {
  if (!value->is_constant() || !like->fact.ranked() || like->fact.rank() == 0) return false;
  const Tensor& tensor = value->fact.constant;
  if (tensor.dtype() != DType::kFloat32 && tensor.dtype() != DType::kFloat64) return false;
  if (tensor.size() == 1) return tensor.rank() <= like->fact.rank();
  const Dim channels = like->fact.shape->back();
  return tensor.rank() >= 1 && tensor.rank() <= like->fact.rank() && channels.known() &&
         tensor.size() == channels.value() && tensor.dims().back() == channels.value();
}

// Splits add/mul into the variable operand and the constant.
bool Operands(const Node& node, Value** variable, Value** constant) {
  for (int i = 0; i < 2; ++i) {
    *variable = node.input(i);
    *constant = node.input(1 - i);
    if (!(*variable)->is_constant() && IsPerChannel(*constant, *variable)) return true;
  }
  return false;
}

const CoreOp& AddOp() { return core::Elementwise(Fn::kAdd); }
const CoreOp& MulOp() { return core::Elementwise(Fn::kMul); }

// Constant, or scaled by this pass: the next one folds it.
bool WillBeConstant(const Value* weights) {
  return weights->is_constant() ||
         (IsFrom(weights, MulOp()) &&
          std::ranges::all_of(weights->producer->inputs, &Value::is_constant));
}

Rewrite IntoWeights(Node& node, PassContext& context, Value* product, Value* scale) {
  const Node& source = *product->producer;
  if (source.attributes.Expr("epilogue") != nullptr) return NoMatch{};
  if (!HasOneUser(context.graph, product)) {
    return CheckFailed{"the product is also used without the factor"};
  }
  Value* weights = source.input(1);
  if (!WillBeConstant(weights)) return CheckFailed{"the weights are not constant"};
  // [Cin, Cout/g, k...]: one factor an output channel works for one group alone.
  const bool is_grouped =
      source.op == &core::conv_transpose && source.attributes.Int("group", 1) != 1;
  if (is_grouped && scale->fact.constant.size() > 1)
    return CheckFailed{"the convolution has groups"};
  PatchMaker maker(context, node);
  Val factor = maker.Wrap(scale);
  const int64_t count = scale->fact.constant.size();
  if (count == 1) {
    factor = Reshape(factor, std::vector<int64_t>{1});
  } else {
    factor = Reshape(factor, std::vector<int64_t>{count});
    const int rank = weights->fact.rank();
    if (source.op == &core::conv) {
      std::vector<int64_t> axes;  // [Cout] -> [Cout,1,...,1]
      for (int i = 1; i < rank; ++i) axes.push_back(i);
      factor = Unsqueeze(factor, axes);
    } else if (source.op == &core::conv_transpose) {
      std::vector<int64_t> axes;
      for (int i = 1; i + 1 < rank; ++i) axes.push_back(i);
      factor = Unsqueeze(factor, axes);
    } else if (source.attributes.Int("trans_b") != 0) {
      factor = Unsqueeze(factor, {1});
    }
  }
  std::vector<Val> inputs;
  for (Value* input : source.inputs) inputs.push_back(maker.Wrap(input));
  inputs[1] = maker.Wrap(weights) * factor;
  maker.builder().SetOrigin(source.origin);
  return maker.Replace(node, {maker.builder().Make(*source.op, inputs, source.attributes)});
}

// The moments by which value = mul(sub(x, mean), factor) is normalised, if nothing else uses the
// factor.
const Node* MomentsOf(const Value* value, const Graph& graph) {
  if (!IsFrom(value, MulOp()) || !IsFrom(value->producer->input(0), core::Elementwise(Fn::kSub))) {
    return nullptr;
  }
  const Value* const factor = value->producer->input(1);
  const bool is_factor =
      IsFrom(factor, core::group_moments) && factor->producer->outputs[1] == factor;
  return is_factor && HasOneUser(graph, factor) ? factor->producer : nullptr;
}

Rewrite IntoFactor(Node& node, PassContext& context, const Value* normalised, const Node& moments,
                   Value* scale) {
  const Dim channels = moments.input(0)->fact.shape->back();
  if (!(channels == scale->fact.constant.size())) return NoMatch{};
  if (!HasOneUser(context.graph, normalised)) {
    return CheckFailed{"the normalised value is also used without the factor"};
  }
  PatchMaker maker(context, node);
  Val factor = Reshape(maker.Wrap(scale), std::vector<int64_t>{-1});
  if (moments.input(1) != nullptr) factor = maker.Wrap(moments.input(1)) * factor;
  const Val x = maker.Wrap(normalised->producer->input(0)->producer->input(0));
  const std::vector<Val> made = maker.builder().MakeMany(
      core::group_moments, {maker.Wrap(moments.input(0)), factor}, moments.attributes, 2);
  return maker.Replace(node, {(x - made[0]) * made[1]});
}

}  // namespace

Rewrite FoldScales(Node& node, PassContext& context) {
  const bool is_mul = node.op == &MulOp();
  if (!is_mul && node.op != &AddOp()) return NoMatch{};
  if (node.inputs.size() != 2 || node.output()->fact.type.dtype != DType::kFloat32)
    return NoMatch{};
  Value *variable, *constant;
  if (!Operands(node, &variable, &constant)) return NoMatch{};
  if (is_mul && HasWeights(variable)) return IntoWeights(node, context, variable, constant);
  if (const Node* moments = is_mul ? MomentsOf(variable, context.graph) : nullptr) {
    return IntoFactor(node, context, variable, *moments, constant);
  }
  // An operation of the same kind, or an addition under a factor, over a product.
  if (!IsFrom(variable, AddOp())) return NoMatch{};
  const Node& inner = *variable->producer;
  Value *product, *addend;
  if (!Operands(inner, &product, &addend) || !HasWeights(product) ||
      !HasOneUser(context.graph, variable)) {
    return NoMatch{};
  }
  PatchMaker maker(context, node);
  const Val x = maker.Wrap(product), a = maker.Wrap(addend), c = maker.Wrap(constant);
  return maker.Replace(node, {is_mul ? x * c + a * c : x + (a + c)});
}

}  // namespace sardonyx::passes
