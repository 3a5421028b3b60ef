#pragma once
// Reverse-mode differentiation of core nodes: what ONNX Gradient becomes.

#include <span>
#include <vector>

#include "ops/vocabulary.h"

namespace sardonyx::ops {

// Appends to the builder's graph what computes the gradients of the sum of y's elements with regard
// to each of `xs`, of their shapes and types; zeros where y does not depend on one. `nodes`, in
// order, are those by which y may depend on xs; all else is constant. Throws kUnsupported, naming
// the ONNX node, for an operation that gradients cannot pass.
std::vector<Val> Gradients(Builder& builder, Val y, std::span<const Val> xs,
                           std::span<const Node* const> nodes);

}  // namespace sardonyx::ops
