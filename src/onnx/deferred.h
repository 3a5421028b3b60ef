#pragma once
// A node that was kept whole (core operation `deferred`) against its operator's schema, as nodes of
// a model are before they are imported. For graphs that come from elsewhere.

#include "ir/graph.h"

namespace sardonyx::onnx {

// Throws kInvalidModel if the node has other inputs or attributes than its operator has.
void CheckDeferred(const Node& node);

}  // namespace sardonyx::onnx
