#include "ops/contrib/experts.h"

namespace sardonyx::ops::contrib {

// Inputs: tokens, router's logits, then weights and bias of three layers.
Outputs LowerMoE(Lowering& op) {
  const Routing routing{.weights = {},
                        .is_normalized = false,
                        .is_over_chosen = op.Int("normalize_routing_weights") != 0};
  return MixtureOfExperts(op, routing, op.has(6), [&](ExpertLayer layer, Val rows, Val experts) {
    const Val w = op.in(2 + 2 * layer), bias = op.in(3 + 2 * layer);
    // Halves stay so where they are packed once.
    return op.builder().Make(core::expert_matmul, {rows, w.is_constant() ? w : Widen(w), experts,
                                                   bias ? Widen(bias) : Val{}});
  });
}

}  // namespace sardonyx::ops::contrib
