#pragma once
// Nodes that were kept whole because their lowering needs what only a run tells.

#include <memory>
#include <span>

#include "ir/graph.h"

namespace sardonyx::core {

// The graph of a deferred node for inputs of which at least the ranks are known, null if more must
// be known. Graph inputs are the node's inputs in order, absent ones left out.
std::shared_ptr<Graph> LowerDeferred(const Node& node, std::span<const Fact* const> inputs,
                                     const std::shared_ptr<SymbolTable>& symbols);

// Whether a deferred node could not work for what it was given when it was imported. It says so
// when it runs, if it does.
bool HasFailed(const Node& node);

}  // namespace sardonyx::core
