#pragma once
// The operator schemas of the ONNX standard: every version of every operator of its domains, as
// generated from the `onnx` package by tools/generate_schemas.py; and those of the contributed
// operators (com.microsoft), from the `onnxruntime` package by
// tools/generate_contributed_schemas.py.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "onnx/model.h"
#include "sardonyx/dtype.hpp"

namespace sardonyx::onnx {

// Maps that the standard's type constraints name; bit numbers of TypeSet::maps.
enum class MapKind : uint8_t {
  kInt64ToFloat,
  kInt64ToDouble,
  kInt64ToString,
  kStringToFloat,
  kStringToDouble,
  kStringToInt64,
};
inline constexpr int kMapKindCount = 6;

// A set of types. Bit d of a word stands for the element type DType(d) in that kind of value.
struct TypeSet {
  uint32_t tensor = 0;             // tensor(T)
  uint32_t sequence = 0;           // seq(tensor(T))
  uint32_t optional = 0;           // optional(tensor(T))
  uint32_t optional_sequence = 0;  // optional(seq(tensor(T)))
  uint8_t map = 0;                 // map(K, V): bits are MapKind
  uint8_t sequence_map = 0;        // seq(map(K, V)): bits are MapKind

  friend bool operator==(const TypeSet&, const TypeSet&) = default;
};
inline bool AllowsTensor(const TypeSet& types, DType type) {
  return (types.tensor >> static_cast<int>(type)) & 1;
}

// "T" to the types it may stand for.
struct TypeConstraint {
  std::string_view name;
  TypeSet types;
};

enum class ParameterOption : uint8_t { kSingle, kOptional, kVariadic };

struct FormalParameter {
  std::string_view name;
  std::string_view type;  // a type constraint's name ("T"), or a type ("tensor(int64)")
  ParameterOption option;
  bool homogeneous;   // variadic: all of one type
  uint8_t min_arity;  // variadic: the least number
};

struct AttributeSchema {
  std::string_view name;
  AttributeType type;
  bool required;
  bool has_default;
  // The default value, by type. Strings default one at a time in `strings`.
  float f;
  int64_t i;
  std::span<const int64_t> ints;
  std::span<const std::string_view> strings;  // STRING: one element; STRINGS: all
};

// A body of the standard for an operator that is a function: a serialized FunctionProto that needs
// at least the opset version `since_opset` of the default domain.
struct FunctionBodyEntry {
  int since_opset;
  std::string_view bytes;
};

inline constexpr int kUnbounded = INT32_MAX;  // of max_inputs and max_outputs

struct OpSchema {
  std::string_view name;
  std::string_view domain;  // canonical: "" for the default domain
  int since_version;
  bool deprecated;
  bool has_context_dependent_body;  // the standard has a body that depends on types or attributes
  int min_inputs, max_inputs, min_outputs, max_outputs;
  std::span<const FormalParameter> inputs;
  std::span<const FormalParameter> outputs;
  std::span<const AttributeSchema> attributes;
  std::span<const TypeConstraint> type_constraints;
  std::span<const FunctionBodyEntry> bodies;  // ascending since_opset

  const AttributeSchema* FindAttribute(std::string_view name) const;
};

// All schemas of the standard, sorted by domain, name, since_version.
std::span<const OpSchema> AllSchemas();
// Those of operators that were experiments of ONNX 1.0 to 1.4, written by hand, sorted alike.
std::span<const OpSchema> ExperimentalSchemas();
// Those of contributed operators, sorted alike. Some are of the default domain, where ONNX Runtime
// writes operators that the standard has not, or only has since a later opset.
std::span<const OpSchema> ContributedSchemas();

// The schema that rules `name` in opset `opset_version` of `domain` ("ai.onnx" equals ""): the one
// with the newest since_version not above it. nullptr when there is none. A deprecated operator is
// found (check `deprecated`).
const OpSchema* FindSchema(std::string_view domain, std::string_view name, int64_t opset_version);
// All versions of one operator, oldest first, the standard's if it has any; empty when unknown.
std::span<const OpSchema> SchemaVersions(std::string_view domain, std::string_view name);

// The domain of contributed operators.
inline constexpr std::string_view kContributedDomain = "com.microsoft";

struct DomainInfo {
  std::string_view domain;  // canonical
  int newest_opset;
};
// The domains of the standard, and that of contributed operators.
std::span<const DomainInfo> KnownDomains();
// The newest opset version of the domain; 0 when the domain is unknown.
int NewestOpset(std::string_view domain);

// The function body of the operator for a model of opset `opset_version` of the default domain: a
// serialized FunctionProto, the newest whose needs that opset meets, else the oldest (the opset its
// nodes are of stands in its opset_import). Empty when the operator is no function, or only a
// context-dependent one. ParseFunction (reader.h) reads it.
std::string_view FunctionBody(const OpSchema& schema, int64_t opset_version);

// The types the parameter's type string stands for.
TypeSet TypesOf(const OpSchema& schema, const FormalParameter& parameter);
bool Allows(const TypeSet& types, const Type& type);
// The input's (output's) formal parameter; the last one repeats when variadic. nullptr when out of
// range.
const FormalParameter* InputParameter(const OpSchema& schema, size_t index);
const FormalParameter* OutputParameter(const OpSchema& schema, size_t index);

// "node 'name' (Op-13)", or "node that makes 'y' (com.example::Op-1)" when the node has no name.
// `version` is the schema's since_version; 0 leaves it out.
std::string DescribeNode(const NodeProto& node, int64_t version);

// What is wrong with the node by its schema: number of inputs and outputs, single inputs left out,
// unknown, repeated, wrongly typed or missing attributes, deprecation. One sentence a fault,
// without the model's and node's name; empty when all is well. `in_function` allows attributes that
// refer to the function's (ref_attr_name).
std::vector<std::string> NodeFaults(const NodeProto& node, const OpSchema& schema,
                                    bool in_function);
// Throws kInvalidModel with NodeFaults' sentences: "<model>: node 'n' (Op-13): <faults>".
void ValidateNode(std::string_view model, const NodeProto& node, const OpSchema& schema,
                  bool in_function = false);

}  // namespace sardonyx::onnx
