#pragma once
// The structure of a graph: every value defined once and before its use.

#include <string_view>

#include "onnx/model.h"

namespace sardonyx::onnx {

// Throws kInvalidModel for values defined twice or never, cycles, and nodes that stand before their
// inputs; subgraphs included, which see the values that the outer graphs define before them.
// `context` begins the message. The caller bounds the nesting.
void CheckGraphStructure(const GraphProto& graph, std::string_view context);
void CheckFunctionStructure(const FunctionProto& function, std::string_view context);

}  // namespace sardonyx::onnx
