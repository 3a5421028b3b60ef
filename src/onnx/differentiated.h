#pragma once
// Which nodes of a list an ONNX Gradient node differentiates.

#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "onnx/model.h"

namespace sardonyx::onnx {

bool IsGradient(std::string_view domain, std::string_view op_type);

// Strings of an attribute, none if it is absent; its string.
std::string_view StringOf(const NodeProto& node, std::string_view name);
const std::vector<std::string_view>& StringsOf(const NodeProto& node, std::string_view name);

// Those before `gradient`, in order, that lie on a path from a value named in its `xs` or `zs` to
// the one named in `y`.
std::vector<const NodeProto*> DifferentiatedNodes(const std::vector<NodeProto>& nodes,
                                                  const NodeProto& gradient);

// The nodes from `start` on, which are copies of earlier ones: names stay with those, and so do the
// random numbers they draw, at which the copies are differentiated.
std::vector<const Node*> TakeCopies(Graph& graph, size_t start);

}  // namespace sardonyx::onnx
