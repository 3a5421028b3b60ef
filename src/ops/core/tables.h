#pragma once
// Tables whose numbers are positions in other tables: lowerings make them right, files may not.

#include "ir/graph.h"

namespace sardonyx::core {

// Throws kInvalidModel unless the tables of the node (trees, n-grams) are constants that point
// nowhere but into each other. Other nodes have none.
void CheckTables(const Node& node);

}  // namespace sardonyx::core
