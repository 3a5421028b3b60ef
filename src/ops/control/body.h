#pragma once
// Bodies of ONNX operators that call them once: their nodes in line.

#include <span>
#include <vector>

#include "ops/builder.h"

namespace sardonyx::ops {

// Makes the body's nodes for these values of its inputs, captures included; gives its outputs.
std::vector<Val> Inline(Builder& builder, const Graph& body, std::span<const Val> arguments);

}  // namespace sardonyx::ops
