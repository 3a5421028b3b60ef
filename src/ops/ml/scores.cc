#include "ops/ml/scores.h"

#include <numbers>

namespace sardonyx::ops::ml {
namespace {

constexpr double kNearZero = 1e-7;

// As softmax, but scores of zero stay near zero.
Val SoftmaxZero(Val x) {
  const Val largest = Reduce("max", x, {-1}, true);
  const Val kept = Where(Greater(Abs(x), kNearZero), Exp(x - largest), x * Exp(Neg(largest)));
  const Val sum = Reduce("sum", kept, {-1}, true);
  return Where(Equal(sum, 0.0), CastLike(x.builder->Scalar(DType::kFloat32, 0.5), x), kept / sum);
}

// Winitzki's approximation of the inverse error function, with the constants of ONNX Runtime.
Val Probit(Val x) {
  constexpr double kA = 0.147;
  const Val centred = x * 2.0 - 1.0;
  const Val log = Log((1.0 - centred) * (1.0 + centred));
  const Val v = 2.0 / (std::numbers::pi * kA) + log * 0.5;
  return Sign(centred) * Sqrt(Sqrt(v * v - log * (1 / kA)) - v) * std::numbers::sqrt2;
}

}  // namespace

Val Precise(Val x) { return x.dtype() == DType::kFloat32 ? x : Cast(x, DType::kFloat64); }

Val FeatureValues(Lowering& op, Val x, const Tensor& list, std::string_view name) {
  if (list.size() != 1 && x.size(-1) != list.size()) {
    op.Fail("{} has {} values for {} features", name, list.size(), x.size(-1));
  }
  return Cast(op.builder().Constant(list), x.dtype());
}

Val Rows(Lowering& op, DType dtype) {
  const Val x = Cast(op.in(0), dtype);
  return x.ranked() && x.rank() == 2 ? x : op.builder().Make(core::rows, {x});
}

Val Matrix(Lowering& op, std::string_view name, std::vector<int64_t> dims) {
  const std::vector<double>& list = op.attributes.Floats(name);
  if (static_cast<int64_t>(list.size()) != ElementCount(dims)) {
    op.Fail("{} has {} elements, not {}", name, list.size(), ElementCount(dims));
  }
  return op.builder().Constant(MakeVector(list).Reshaped(std::move(dims)));
}

Val PostTransform(Lowering& op, Val scores) {
  const std::string kind = op.String("post_transform", "NONE");
  if (kind == "PROBIT") return Probit(scores);
  if (kind != "NONE" && kind != "LOGISTIC" && kind != "SOFTMAX" && kind != "SOFTMAX_ZERO") {
    op.Fail("post_transform '{}' is unknown", kind);
  }
  if (kind == "NONE" || scores.size(1) == 1) return scores;
  if (kind == "LOGISTIC") return Sigmoid(scores);
  return kind == "SOFTMAX" ? Softmax(scores, 1) : SoftmaxZero(scores);
}

Val TwoClasses(Lowering& op, Val score, bool opposite) {
  const std::string kind = op.String("post_transform", "NONE");
  if (kind == "LOGISTIC") return Sigmoid(Concat({Neg(score), score}, 1));
  const Val both = Concat({opposite ? Neg(score) : 1.0 - score, score}, 1);
  return kind == "PROBIT" ? Probit(both) : both;
}

Val Largest(Val scores) {
  return scores.builder->Make(core::arg_reduce, {scores},
                              {{"kind", std::string("argmax")},
                               {"axis", int64_t{1}},
                               {"keepdims", int64_t{0}},
                               {"select_last_index", int64_t{0}}});
}

Val LabelsAt(Lowering& op, const Tensor& labels, Val positions) {
  return Gather(op.builder().Constant(labels), positions, 0);
}

}  // namespace sardonyx::ops::ml
