#pragma once
// What has to be checked of core nodes that come from a file, before inference looks at types and
// shapes.

#include <span>

#include "ir/graph.h"

namespace sardonyx::core {

// Throws kInvalidModel unless numbers and kinds of inputs, the number of outputs, and inputs and
// outputs of bodies are those of the operation. An input that is absent is null.
void CheckSignature(const CoreOp& op, std::span<const Value* const> inputs,
                    const Attributes& attributes, size_t outputs);

}  // namespace sardonyx::core
