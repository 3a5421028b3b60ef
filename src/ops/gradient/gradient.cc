#include "ops/gradient/gradient.h"

#include <algorithm>
#include <numeric>

#include "ops/gradient/backward.h"

namespace sardonyx::ops {
namespace {

bool IsDifferentiable(const Type& type) {
  return type.is_tensor() && IsFloat(type.dtype) && BitWidth(type.dtype) >= 16;
}

// Integers, bools and strings stop gradients; what else has no derivative must not be lost.
bool Stops(const Type& type) {
  return type.is_tensor() &&
         (IsInteger(type.dtype) || type.dtype == DType::kBool || type.dtype == DType::kString);
}

const GradientRule* FindRule(const CoreOp* op) {
  for (std::span<const GradientRule> rules : {ReductionRules(), MovementRules(), WindowRules()}) {
    for (const GradientRule& rule : rules) {
      if (rule.op == op) return &rule;
    }
  }
  return nullptr;
}

void PassNode(Backward& backward) {
  const Node& node = backward.node;
  Fn fn;
  try {
    if (node.op == &core::deferred) throw NotYetKnown{};
    if (core::IsElementwise(*node.op, &fn)) {
      if (ElementwiseBackward(fn, backward)) return;
    } else if (const GradientRule* rule = FindRule(node.op)) {
      return rule->apply(backward);
    }
  } catch (const NotYetKnown&) {
    backward.Refuse("without knowing ranks and sizes that this model leaves open");
  }
  backward.Refuse("by any rule");
}

}  // namespace

Val Backward::in(size_t i) const {
  return node.input(i) != nullptr ? b.Wrap(node.inputs[i]) : Val{};
}

Val Backward::grad(size_t i) const {
  if (i >= node.outputs.size()) return {};
  auto it = gradients_->find(node.outputs[i]);
  return it != gradients_->end() ? it->second : Val{};
}

bool Backward::wants(size_t i) const {
  return node.input(i) != nullptr && dependent_.contains(node.inputs[i]);
}

void Backward::Add(size_t i, Val gradient) const {
  if (!wants(i)) return;
  const Val share = CastLike(SumTo(gradient, in(i)), in(i));
  auto [it, first] = gradients_->try_emplace(node.inputs[i], share);
  if (!first) it->second = it->second + share;
}

Val Backward::Zeros(Val like) const {
  return Filled(ShapeOf(like), MakeFilled(like.dtype(), {1}, 0));
}

void Backward::Refuse(std::string_view why) const {
  Fail(ErrorCode::kUnsupported, "Gradient cannot pass {} ({}) {}",
       node.origin != nullptr ? Print(*node.origin) : "a node", node.op->name, why);
}

Val SumTo(Val gradient, Val like) {
  Builder& b = *gradient.builder;
  const bool ranked = gradient.ranked() && like.ranked() && gradient.rank() >= like.rank();
  if (!ranked) return b.Make(core::sum_to, {gradient, ShapeOf(like)});
  const Dims &from = gradient.shape(), &to = like.shape();
  const size_t lead = from.size() - to.size();
  std::vector<int64_t> summed(lead), leading(lead);
  std::iota(summed.begin(), summed.end(), 0);
  leading = summed;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] == from[lead + i]) continue;
    if (!(to[i] == Dim(1))) return b.Make(core::sum_to, {gradient, ShapeOf(like)});
    summed.push_back(static_cast<int64_t>(lead + i));
  }
  return summed.empty() ? gradient : Squeeze(Reduce("sum", gradient, summed, true), leading);
}

std::vector<Val> Gradients(Builder& builder, Val y, std::span<const Val> xs,
                           std::span<const Node* const> nodes) {
  if (!IsDifferentiable(y.type())) {
    Fail(ErrorCode::kInvalidModel, "the gradient of {} is not defined", Print(y.type()));
  }
  Backward::Values dependent;
  for (const Val& x : xs) {
    if (!IsDifferentiable(x.type())) {
      Fail(ErrorCode::kInvalidModel, "the gradient by {} is not defined", Print(x.type()));
    }
    dependent.insert(x.value);
  }
  for (const Node* node : nodes) {
    if (std::none_of(node->inputs.begin(), node->inputs.end(),
                     [&](const Value* input) { return dependent.contains(input); })) {
      continue;
    }
    for (const Value* output : node->outputs) {
      if (!Stops(output->fact.type)) dependent.insert(output);
    }
  }
  Backward::Gradients gradients;
  gradients[y.value] = Filled(ShapeOf(y), MakeFilled(y.dtype(), {1}, 1));
  for (size_t i = nodes.size(); i-- > 0;) {
    const Node& node = *nodes[i];
    const bool used = std::any_of(node.outputs.begin(), node.outputs.end(), [&](const Value* v) {
      return gradients.contains(v) && dependent.contains(v);
    });
    Backward backward(builder, node, dependent, &gradients);
    if (used) PassNode(backward);
  }
  std::vector<Val> results;
  for (const Val& x : xs) {
    auto it = gradients.find(x.value);
    results.push_back(it != gradients.end() ? it->second
                                            : Filled(ShapeOf(x), MakeFilled(x.dtype(), {1}, 0)));
  }
  return results;
}

}  // namespace sardonyx::ops
