#pragma once
// Checks of a whole model against the rules of the standard, before it is imported.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/model.h"

namespace sardonyx::onnx {

// Whether the importer has a way to run the operator. Domains are canonical ("" for the default).
using SupportedOperator = std::function<bool(std::string_view domain, std::string_view name)>;

struct ValidateOptions {
  // Null: every operator of the standard counts as supported. Asked for operators outside the
  // standard too, so that custom operators can be known.
  SupportedOperator supported;
  // Graphs within graphs.
  int max_nesting = 64;
};

// An operator that cannot run, and the nodes that use it.
struct UnknownOperator {
  std::string domain;  // canonical
  std::string name;
  int64_t opset_version;           // that the model imports; 0 when it does not import the domain
  std::string reason;              // "not in the ONNX standard", "added in opset 20", ...
  bool in_standard;                // legal, but without an implementation
  std::vector<std::string> nodes;  // DescribeNode's texts; subgraphs and functions included
};

// Every operator of the model, subgraphs and called functions included, that is neither of the
// standard and supported, nor a model-local function. Sorted by domain and name. Throws
// kLimitExceeded for graphs that nest deeper than the limit.
std::vector<UnknownOperator> FindUnknownOperators(const ModelProto& model,
                                                  const ValidateOptions& options = {});

// Throws sardonyx::Error, naming `model_name`, the node and the operator, for: no or unknown IR
// version, no graph, missing, contradictory or too new opset imports, unknown domains and operators
// (kUnsupported; all of them in one message), nodes that break their schema (all of them), values
// defined twice or never, cycles, repeated inputs and initializers, repeated and recursive
// functions. Functions that nothing calls are not checked. Returns whether all nodes stand behind
// those that they read: the standard asks for it, but converters that add casts leave others, and
// everyone runs these. SortNodes (node_order.h) puts them right.
bool ValidateModel(const ModelProto& model, std::string_view model_name,
                   const ValidateOptions& options = {});

// The opset version that the list imports for the domain ("ai.onnx" equals ""); 0 when absent.
// Contributed operators have but one, 1, and converters leave their domain out.
int64_t ImportedOpset(const std::vector<OperatorSetIdProto>& opset_import, std::string_view domain);
// The same for the model's graph. Models before IR version 3 could not state it: 1 there.
int64_t ImportedOpset(const ModelProto& model, std::string_view domain);

// The model-local function that the node calls (domain, op_type, overload), or nullptr.
const FunctionProto* FindFunction(const ModelProto& model, const NodeProto& node);

}  // namespace sardonyx::onnx
