#pragma once
// Types of values: as files state them, and as schemas allow them.

#include <vector>

#include "ir/graph.h"
#include "onnx/model.h"
#include "onnx/schema.h"
#include "ops/builder.h"

namespace sardonyx::onnx {

// The type that a TypeProto states, and the fact of a value declared so. Named dimensions become
// symbols of the table.
Type ToType(const TypeProto& proto);
Fact ToFact(const TypeProto& proto, SymbolTable& symbols);

// Throws kInvalidModel unless the schema allows the types of a node's inputs, and those of one type
// parameter are the same. Sequences and optionals of tensors are left to the lowering.
void CheckTypes(const OpSchema& schema, const std::vector<Val>& inputs);

// Types of a node's outputs as far as the schema's type parameters tell from the inputs'.
std::vector<Type> OutputTypes(const OpSchema* schema, const NodeProto& node,
                              const std::vector<Val>& inputs);

}  // namespace sardonyx::onnx
