#include "ops/contrib/experts.h"

#include <limits>

#include "ops/contrib/standard.h"

namespace sardonyx::ops::contrib {
namespace {

bool IsSwiglu(const Lowering& op) { return op.String("activation_type", "relu") == "swiglu"; }

// G * sigmoid(alpha * G) * (L + beta), G and L clipped at swiglu_limit.
Val Swiglu(const Lowering& op, Val g, Val l) {
  if (op.HasAttribute("swiglu_limit")) {
    const double limit = op.Float("swiglu_limit");
    g = Min(g, limit);
    l = Clip(l, -limit, limit);
  }
  return g * Sigmoid(op.Float("activation_alpha", 1) * g) * (l + op.Float("activation_beta", 0));
}

Val Activate(Lowering& op, Val x) {
  const std::string name = op.String("activation_type", "relu");
  if (name == "relu") return Relu(x);
  if (name == "silu") return x * Sigmoid(x);
  if (name == "identity") return x;
  // ONNX Runtime's is the approximate one.
  if (name == "gelu") {
    return Standard(op, "Gelu", {x}, {{"approximate", std::string("tanh")}}).values[0];
  }
  op.Unsupported(
      "attribute activation_type is '{}', but must be relu, gelu, silu, swiglu or identity", name);
}

// What the second layer reads, of the first layer's result [T,k,N] (and the third one's).
Val Between(Lowering& op, Val first, Val third) {
  if (!IsSwiglu(op)) return third ? Activate(op, first) * third : Activate(op, first);
  switch (op.Int("swiglu_fusion")) {
    case 0: return Swiglu(op, first, third);
    case 1: {
      constexpr int64_t kEnd = INT64_MAX;
      return Swiglu(op, Slice(first, {0}, {kEnd}, {2}, {2}), Slice(first, {1}, {kEnd}, {2}, {2}));
    }
    default: {
      const int64_t half = first.size(2) / 2;
      const std::vector<Val> parts = Split(first, {half, half}, 2);
      return Swiglu(op, parts[0], parts[1]);
    }
  }
}

void Check(const Lowering& op, bool has_fc3) {
  const int64_t fusion = op.Int("swiglu_fusion");
  if (fusion < 0 || fusion > 2) {
    op.Fail("attribute swiglu_fusion is {}, but must be 0, 1 or 2", fusion);
  }
  if (!IsSwiglu(op)) return;
  if (fusion == 0 && !has_fc3) {
    op.Fail("swiglu takes fc3_experts_weights where swiglu_fusion is 0");
  }
  if (fusion != 0 && has_fc3) {
    op.Fail("fc3_experts_weights are given, but with swiglu_fusion {} they stand in fc1", fusion);
  }
}

// The experts of each token, int64 [T,k], and what their results are multiplied with, float32.
struct Chosen {
  Val experts, weights;
};

Chosen Best(Val logits, int64_t k) {
  Builder& b = *logits.builder;
  const std::vector<Val> top = b.MakeMany(core::topk, {logits, b.Ints({k})},
                                          {{"axis", int64_t{-1}}, {"largest", int64_t{1}}}, 2);
  return {top[1], top[0]};
}

// Two experts, one after the other, each with its share of those that come near it (SparseMixer,
// Liu et al. 2023, as Phi-3.5-MoE chooses). ONNX Runtime's CPU kernels pass over the attribute, but
// models that set it were trained with this.
Chosen SparseMixer(Lowering& op, Val logits, int64_t k) {
  if (k != 2) op.Fail("attribute k is {}, but use_sparse_mixer chooses 2 experts", k);
  Builder& b = op.builder();
  const Val none = b.Scalar(DType::kFloat32, -std::numeric_limits<double>::infinity());
  constexpr double kNear = 0.02;  // of the larger magnitude
  std::vector<Val> experts, weights;
  Val left = logits;
  for (int64_t i = 0; i < k; ++i) {
    const Chosen best = Best(left, 1);
    const Val far = Greater(best.weights - logits, kNear * Max(Abs(logits), best.weights));
    weights.push_back(GatherElements(Softmax(Where(far, none, left), -1), best.experts, 1));
    experts.push_back(best.experts);
    left = ScatterElements(logits, best.experts, Expand(none, ShapeOf(best.experts)), 1);
  }
  return {Concat(experts, 1), Concat(weights, 1)};
}

Chosen Choose(Lowering& op, const Routing& routing, Val logits, int64_t k) {
  if (op.Int("use_sparse_mixer") != 0) {
    if (routing.weights) op.Fail("router_weights are given, but use_sparse_mixer makes its own");
    return SparseMixer(op, logits, k);
  }
  auto [experts, weights] = Best(logits, k);
  if (routing.weights) {
    weights = GatherElements(Widen(routing.weights), experts, 1);
    if (routing.is_normalized) weights = weights / Reduce("sum", weights, {1}, true);
  } else if (routing.is_over_chosen) {
    weights = Softmax(weights, -1);
  } else {
    weights = GatherElements(Softmax(logits, -1), experts, 1);
  }
  return {experts, weights};
}

}  // namespace

// y = sum over the k experts that the router prefers of weight * fc2(activation(fc1(x))).
Outputs MixtureOfExperts(Lowering& op, const Routing& routing, bool has_fc3,
                         const ExpertProduct& product) {
  Check(op, has_fc3);
  const Val x = op.in(0), logits = Widen(op.in(1));
  const int rank = x.rank();
  if (rank != 2 && rank != 3) op.Fail("input has {} axes, but must have 2 or 3", rank);
  for (const Val& router : {logits, routing.weights}) {
    if (router && router.rank() != 2) {
      op.Fail("router_probs or router_weights have {} axes, but must have 2", router.rank());
    }
  }
  const int64_t k = op.Int("k", 1);
  const Dim count = logits.shape()[1];
  if (k < 1 || (count.known() && k > count.value())) {
    op.Fail("attribute k is {}, but must be from 1 to the number of experts, {}", k,
            count.known() ? fmt::to_string(count.value()) : "any");
  }
  const auto [experts, weights] = Choose(op, routing, logits, k);
  const Val rows = Widen(rank == 2 ? x : Flatten(x, 2));
  const Val third = has_fc3 ? product(kFc3, rows, experts) : Val{};
  const Val inner = Between(op, product(kFc1, rows, experts), third);
  const Val results = product(kFc2, Flatten(inner, 2), Reshape(experts, {-1, 1}));
  const Val y = Reduce("sum", Reshape(results, {-1, k, 0}) * Unsqueeze(weights, {2}), {1}, false);
  return Cast(rank == 2 ? y : Reshape(y, ShapeOf(x)), x.dtype());
}

}  // namespace sardonyx::ops::contrib
