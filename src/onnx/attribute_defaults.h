#pragma once
// What a schema says of attributes that a node leaves out.

#include "ir/graph.h"
#include "onnx/model.h"
#include "onnx/schema.h"

namespace sardonyx::onnx {

// Sets all attributes that have a default.
void AddDefaults(const OpSchema& schema, Attributes* attributes);

// The default of an attribute that has one, as a model would state it.
AttributeProto DefaultProto(const AttributeSchema& schema);

}  // namespace sardonyx::onnx
