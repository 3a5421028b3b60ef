#include "ops/lowering.h"

namespace sardonyx::ops {

namespace {

// Minus the entry of log_prob [N,C,d...] that target [N,d...] names, weighted by class.
Val NegativeLogLikelihood(Lowering& op, Val log_prob, Val target, Val weights) {
  Builder& b = op.builder();
  Val kept;  // where the target is not to be ignored
  if (op.HasAttribute("ignore_index")) {
    const Val ignored = b.Scalar(target.dtype(), static_cast<double>(op.Int("ignore_index")));
    kept = Not(Equal(target, ignored));
    target = Where(kept, target, b.Scalar(target.dtype(), 0));
  }
  Val loss = -Squeeze(GatherElements(log_prob, Unsqueeze(target, {1}), 1), {1});
  Val weight;  // of each element; absent: 1
  if (weights) weight = Gather(weights, target, 0);
  if (kept) {
    const Val one = b.Scalar(loss.dtype(), 1), zero = b.Scalar(loss.dtype(), 0);
    weight = Where(kept, weight ? weight : one, zero);
    loss = Where(kept, loss, zero);
  }
  if (weight) loss = loss * weight;
  const std::string reduction = op.String("reduction", "mean");
  if (reduction == "none") return loss;
  if (reduction == "sum") return ReduceAll("sum", loss, false);
  if (reduction != "mean") op.Fail("attribute reduction is '{}', not none, sum or mean", reduction);
  if (!weight) return ReduceAll("mean", loss, false);
  return ReduceAll("sum", loss, false) / ReduceAll("sum", weight, false);
}

}  // namespace

Outputs LowerNegativeLogLikelihoodLoss(Lowering& op) {
  return NegativeLogLikelihood(op, op.in(0), op.in(1), op.in(2));
}

Outputs LowerSoftmaxCrossEntropyLoss(Lowering& op) {
  const Val log_prob = Softmax(op.in(0), 1, true);
  return {NegativeLogLikelihood(op, log_prob, op.in(1), op.in(2)), log_prob};
}

}  // namespace sardonyx::ops
