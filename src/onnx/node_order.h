#pragma once
// In which order nodes run: each behind what it reads.

#include <cstddef>
#include <vector>

#include "onnx/model.h"

namespace sardonyx::onnx {

template <typename Visit>
void ForEachSubgraph(const NodeProto& node, Visit&& visit) {
  for (const AttributeProto& attribute : node.attribute) {
    if (attribute.g) visit(*attribute.g);
    for (const GraphProto& graph : attribute.graphs) visit(graph);
  }
}

// For each node of a list those of the list that it, or a graph in it, reads outputs of.
using NodeSources = std::vector<std::vector<size_t>>;
NodeSources SourcesOf(const std::vector<NodeProto>& nodes);

// The nodes of one cycle, in the order of the data from the first in the file; empty when there is
// none.
std::vector<size_t> FindCycle(const NodeSources& sources);

// Moves nodes of all graphs and functions behind those that they read; what stands so already keeps
// its order. In what order the nodes of a cycle then are is not defined.
void SortNodes(ModelProto& model);

}  // namespace sardonyx::onnx
