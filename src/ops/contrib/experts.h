#pragma once
// What mixtures of experts have in common: routing, the layers of an expert and its activation.

#include <functional>

#include "ops/lowering.h"

namespace sardonyx::ops::contrib {

// The layers of an expert.
enum ExpertLayer : size_t { kFc1, kFc2, kFc3 };

// Rows [R,K] times a layer's matrices of experts [R,S], with its bias: [R,S,N], in float32.
using ExpertProduct = std::function<Val(ExpertLayer, Val rows, Val experts)>;

// What the results of the chosen experts are multiplied with.
struct Routing {
  Val weights;          // the chosen experts' of these [T,E], if given; else the router's softmax
  bool is_normalized;   // of these, divided by their sum
  bool is_over_chosen;  // the softmax: over the chosen experts, not over all
};

// Inputs 0 and 1 are the tokens and the router's logits.
Outputs MixtureOfExperts(Lowering& op, const Routing& routing, bool has_fc3,
                         const ExpertProduct& product);

}  // namespace sardonyx::ops::contrib
