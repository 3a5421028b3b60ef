#pragma once
// The graph as text, for people and for tests, and back.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "ir/core_op.h"

namespace sardonyx {

// Deterministic. Large constants are shown by type and shape only, so what is printed of a graph
// with such constants cannot be parsed.
std::string PrintGraph(const Graph& graph);

// Throws kInvalidArgument with the line. `find` gives core operations by name (core::Find).
std::unique_ptr<Graph> ParseGraph(std::string_view text,
                                  const std::function<const CoreOp*(std::string_view)>& find);

}  // namespace sardonyx
