#pragma once
// Running a graph with the reference computes alone: the oracle of tests, and of bodies that are
// folded.

#include <span>
#include <vector>

#include "ir/graph.h"

namespace sardonyx {

// Outputs of the graph for its inputs in order.
std::vector<Datum> Evaluate(const Graph& graph, std::span<const Datum> inputs);

}  // namespace sardonyx
