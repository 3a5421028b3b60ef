#pragma once
// The structure of a graph: every value defined once, and how it can be computed.

#include <string_view>

#include "onnx/model.h"

namespace sardonyx::onnx {

// Throws kInvalidModel for values defined twice or never and for cycles; subgraphs included, which
// see the values of the outer graphs. `context` begins the message. The caller bounds the nesting.
// Returns whether all nodes stand behind those that they read, as the standard has it; SortNodes
// (node_order.h) puts others there.
bool CheckGraphStructure(const GraphProto& graph, std::string_view context);
bool CheckFunctionStructure(const FunctionProto& function, std::string_view context);

}  // namespace sardonyx::onnx
