#include "onnx/validate.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "onnx/graph_check.h"
#include "onnx/schema.h"

namespace sardonyx::onnx {
namespace {

using FunctionKey = std::tuple<std::string_view, std::string_view, std::string_view>;

FunctionKey KeyOf(const FunctionProto& function) {
  return {CanonicalDomain(function.domain.Get()), function.name.Get(), function.overload.Get()};
}
FunctionKey CalledBy(const NodeProto& node) {
  return {CanonicalDomain(node.domain.Get()), node.op_type.Get(), node.overload.Get()};
}

std::string PrintDomain(std::string_view domain) {
  return domain.empty() ? "the default domain (ai.onnx)" : fmt::format("the domain '{}'", domain);
}

// "com.example::Norm" or "Norm"; an overload follows a colon.
std::string PrintFunction(const FunctionProto& function) {
  const auto [domain, name, overload] = KeyOf(function);
  return fmt::format("{}{}{}{}{}", domain, domain.empty() ? "" : "::", name,
                     overload.empty() ? "" : ":", overload);
}

// The nodes of a graph or function, and the opset versions that rule them.
struct Body {
  const ModelProto* model;
  const FunctionProto* function;  // nullptr: the main graph

  int64_t Opset(std::string_view domain) const {
    return function == nullptr ? ImportedOpset(*model, domain)
                               : ImportedOpset(function->opset_import, domain);
  }
};

// Walks every node that can run: the main graph, subgraphs, and the functions they call.
class Walk {
 public:
  Walk(const ModelProto& model, int max_nesting) : model_(model), max_nesting_(max_nesting) {
    for (const FunctionProto& function : model.functions) {
      functions_.emplace(KeyOf(function), &function);
    }
  }

  // visit(node, body) for each node that is no call of a model-local function.
  template <typename Visit>
  void Run(Visit&& visit) {
    if (model_.graph) Nodes(model_.graph->node, {&model_, nullptr}, 0, visit);
    // called_ grows while its functions are walked.
    for (size_t i = 0; i < called_.size(); ++i) {
      Nodes(called_[i]->node, {&model_, called_[i]}, 0, visit);
    }
  }

  // Known after Run, in the order of the first call.
  const std::vector<const FunctionProto*>& called() const { return called_; }
  const FunctionProto* Find(const NodeProto& node) const {
    const auto found = functions_.find(CalledBy(node));
    return found == functions_.end() ? nullptr : found->second;
  }

 private:
  template <typename Visit>
  void Nodes(const std::vector<NodeProto>& nodes, const Body& body, int depth, Visit& visit) {
    if (depth > max_nesting_) {
      Fail(ErrorCode::kLimitExceeded,
           "graphs nest deeper than the limit of {} (ValidateOptions::max_nesting)", max_nesting_);
    }
    for (const NodeProto& node : nodes) {
      if (const FunctionProto* function = Find(node)) {
        if (seen_.insert(function).second) called_.push_back(function);
      } else {
        visit(node, body);
      }
      for (const AttributeProto& attribute : node.attribute) {
        if (attribute.g) Nodes(attribute.g->node, body, depth + 1, visit);
        for (const GraphProto& graph : attribute.graphs) Nodes(graph.node, body, depth + 1, visit);
      }
    }
  }

  const ModelProto& model_;
  int max_nesting_;
  std::map<FunctionKey, const FunctionProto*> functions_;
  std::set<const FunctionProto*> seen_;
  std::vector<const FunctionProto*> called_;
};

// How many letters were mistyped, left out, added or swapped with their neighbour to turn one word
// into the other ("optimal string alignment").
size_t Mistakes(std::string_view one, std::string_view other) {
  std::vector<std::vector<size_t>> least(one.size() + 1, std::vector<size_t>(other.size() + 1));
  for (size_t i = 0; i <= one.size(); ++i) {
    for (size_t j = 0; j <= other.size(); ++j) {
      size_t& here = least[i][j];
      here = i + j;
      if (i == 0 || j == 0) continue;
      const bool differs = one[i - 1] != other[j - 1];
      here = std::min({least[i - 1][j] + 1, least[i][j - 1] + 1, least[i - 1][j - 1] + differs});
      if (i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1]) {
        here = std::min(here, least[i - 2][j - 2] + 1);
      }
    }
  }
  return least[one.size()][other.size()];
}

// "; is Relu meant?", of any known domain; empty when no operator has a name much like this.
std::string Suggestion(std::string_view name) {
  constexpr size_t kLongest = 64;  // what a file may call its operator has no end
  if (name.size() > kLongest) return {};
  size_t fewest = name.size() / 4 + 1;
  std::string meant;
  for (const auto schemas : {AllSchemas(), ContributedSchemas()}) {
    for (const OpSchema& schema : schemas) {
      const size_t mistakes = Mistakes(name, schema.name);
      if (mistakes >= fewest) continue;
      fewest = mistakes;
      meant = fmt::format("; is {}{}{} meant?", schema.domain,
                          schema.domain.empty() ? "" : "::", schema.name);
    }
  }
  return meant;
}

// Why the node's operator cannot run; empty when it can.
std::string Obstacle(const NodeProto& node, int64_t opset, const SupportedOperator& supported,
                     bool& in_standard) {
  const std::string_view domain = CanonicalDomain(node.domain.Get());
  const std::string_view name = node.op_type.Get();
  in_standard = false;
  const auto versions = SchemaVersions(domain, name);
  if (versions.empty()) {
    if (supported && supported(domain, name)) return {};
    if (domain == kContributedDomain) return "not implemented in Sardonyx" + Suggestion(name);
    if (NewestOpset(domain) > 0) return "not in the ONNX standard" + Suggestion(name);
    // Weights lie in blocks of 8 or of 16 channels, and the model does not say of which.
    if (domain == "com.microsoft.nchwc") {
      return "ONNX Runtime has laid the weights out for one kind of processor, which the model "
             "does not name; save it at level ORT_ENABLE_EXTENDED or below, or take the original "
             "model";
    }
    return "the domain is not of the ONNX standard, and no model-local function has this name" +
           Suggestion(name);
  }
  if (opset == 0) return "the domain is missing from opset_import";
  if (FindSchema(domain, name, opset) == nullptr) {
    return fmt::format("added in opset {}", versions.front().since_version);
  }
  in_standard = true;
  if (supported && !supported(domain, name)) return "not implemented in Sardonyx";
  return {};
}

void CheckImports(const std::vector<OperatorSetIdProto>& imports, std::string_view context) {
  std::map<std::string_view, int64_t> seen;
  for (const OperatorSetIdProto& import : imports) {
    const std::string_view domain = CanonicalDomain(import.domain.Get());
    const int64_t version = import.version.Get();
    if (version < 1) {
      Fail(ErrorCode::kInvalidModel,
           "{}: opset_import gives version {} for {}; versions begin at 1", context, version,
           PrintDomain(domain));
    }
    const auto [found, added] = seen.emplace(domain, version);
    if (!added && found->second != version) {
      Fail(ErrorCode::kInvalidModel, "{}: opset_import gives two versions for {}: {} and {}",
           context, PrintDomain(domain), found->second, version);
    }
    const int newest = NewestOpset(domain);
    if (newest > 0 && version > newest) {
      Fail(ErrorCode::kUnsupported,
           "{}: the model needs opset {} of {}, but the newest known is {}; export it for opset {} "
           "or older",
           context, version, PrintDomain(domain), newest, newest);
    }
  }
}

void CheckVersions(const ModelProto& model, std::string_view model_name) {
  const int64_t ir_version = model.ir_version.Get();
  if (ir_version < 1) {
    Fail(ErrorCode::kInvalidModel, "{}: the model states no IR version (ir_version is {})",
         model_name, ir_version);
  }
  if (ir_version > kNewestIrVersion) {
    Fail(ErrorCode::kUnsupported,
         "{}: the model is of IR version {}, but the newest known is {}; export it for IR version "
         "{} or older",
         model_name, ir_version, kNewestIrVersion, kNewestIrVersion);
  }
  if (model.opset_import.empty() && ir_version >= 3) {
    Fail(ErrorCode::kInvalidModel,
         "{}: the model has no opset_import, so the versions of its operators are unknown",
         model_name);
  }
  CheckImports(model.opset_import, model_name);
}

void RefuseUnknownOperators(const ModelProto& model, std::string_view model_name,
                            const ValidateOptions& options) {
  constexpr size_t kShown = 3;
  const std::vector<UnknownOperator> unknown =
      WithContext(std::string(model_name), [&] { return FindUnknownOperators(model, options); });
  if (unknown.empty()) return;
  std::string text = fmt::format("{}: {} operator{} cannot run:", model_name, unknown.size(),
                                 unknown.size() == 1 ? "" : "s");
  for (const UnknownOperator& op : unknown) {
    text += fmt::format("\n  {}{}{}", op.domain, op.domain.empty() ? "" : "::", op.name);
    if (op.opset_version > 0) text += fmt::format(" (opset {})", op.opset_version);
    const size_t shown = std::min(kShown, op.nodes.size());
    text += fmt::format(": {}; used by {}", op.reason,
                        fmt::join(op.nodes.begin(), op.nodes.begin() + shown, ", "));
    if (op.nodes.size() > shown) text += fmt::format(" and {} more", op.nodes.size() - shown);
  }
  throw Error(ErrorCode::kUnsupported, text);
}

void CheckNodes(Walk& walk, std::string_view model_name) {
  std::vector<std::string> lines;
  walk.Run([&](const NodeProto& node, const Body& body) {
    const std::string_view domain = CanonicalDomain(node.domain.Get());
    const OpSchema* schema = FindSchema(domain, node.op_type.Get(), body.Opset(domain));
    if (schema == nullptr) return;  // a custom operator: its own code checks it
    const auto faults = NodeFaults(node, *schema, body.function != nullptr);
    if (faults.empty()) return;
    lines.push_back(fmt::format(
        "{}{}: {}",
        body.function == nullptr ? "" : fmt::format("function {}: ", PrintFunction(*body.function)),
        DescribeNode(node, schema->since_version), fmt::join(faults, "; ")));
  });
  if (lines.size() == 1) Fail(ErrorCode::kInvalidModel, "{}: {}", model_name, lines.front());
  if (!lines.empty()) {
    Fail(ErrorCode::kInvalidModel, "{}: {} nodes break the schema of their operator:\n  {}",
         model_name, lines.size(), fmt::join(lines, "\n  "));
  }
}

// Calls visit(callee) for the functions that the nodes call, subgraphs included.
template <typename Visit>
void ForEachCall(const Walk& walk, const std::vector<NodeProto>& nodes, Visit& visit) {
  for (const NodeProto& node : nodes) {
    if (const FunctionProto* callee = walk.Find(node)) visit(callee);
    for (const AttributeProto& attribute : node.attribute) {
      if (attribute.g) ForEachCall(walk, attribute.g->node, visit);
      for (const GraphProto& graph : attribute.graphs) ForEachCall(walk, graph.node, visit);
    }
  }
}

// A function that can reach itself could never be inlined. Takes away, again and again, the
// functions that call none of those left; what remains then is recursive.
void RefuseRecursion(const Walk& walk, std::string_view model_name) {
  std::map<const FunctionProto*, std::set<const FunctionProto*>> callers;
  std::map<const FunctionProto*, size_t> open_calls;
  std::vector<const FunctionProto*> ready;
  for (const FunctionProto* function : walk.called()) {
    std::set<const FunctionProto*> callees;
    const auto add = [&](const FunctionProto* callee) { callees.insert(callee); };
    ForEachCall(walk, function->node, add);
    for (const FunctionProto* callee : callees) callers[callee].insert(function);
    open_calls[function] = callees.size();
    if (callees.empty()) ready.push_back(function);
  }
  size_t done = 0;
  for (; done < ready.size(); ++done) {
    for (const FunctionProto* caller : callers[ready[done]]) {
      if (--open_calls[caller] == 0) ready.push_back(caller);
    }
  }
  if (done == walk.called().size()) return;
  std::vector<std::string> names;
  for (const FunctionProto* function : walk.called()) {
    if (open_calls[function] > 0) names.push_back(PrintFunction(*function));
  }
  Fail(ErrorCode::kInvalidModel, "{}: functions call themselves, directly or over others: {}",
       model_name, fmt::join(names, ", "));
}

// Whether the nodes of all are sorted.
bool CheckFunctions(const ModelProto& model, const Walk& walk, std::string_view model_name) {
  std::set<FunctionKey> keys;
  for (const FunctionProto& function : model.functions) {
    if (!keys.insert(KeyOf(function)).second) {
      Fail(ErrorCode::kInvalidModel, "{}: the function {} is defined twice", model_name,
           PrintFunction(function));
    }
  }
  RefuseRecursion(walk, model_name);
  bool are_sorted = true;
  for (const FunctionProto* function : walk.called()) {
    const std::string context =
        fmt::format("{}: function {}", model_name, PrintFunction(*function));
    CheckImports(function->opset_import, context);
    are_sorted = CheckFunctionStructure(*function, context) && are_sorted;
  }
  return are_sorted;
}

}  // namespace

std::vector<UnknownOperator> FindUnknownOperators(const ModelProto& model,
                                                  const ValidateOptions& options) {
  std::map<std::tuple<std::string_view, std::string_view, int64_t>, UnknownOperator> unknown;
  Walk(model, options.max_nesting).Run([&](const NodeProto& node, const Body& body) {
    const std::string_view domain = CanonicalDomain(node.domain.Get());
    const std::string_view name = node.op_type.Get();
    const int64_t opset = body.Opset(domain);
    bool in_standard = false;
    std::string reason = Obstacle(node, opset, options.supported, in_standard);
    if (reason.empty()) return;
    UnknownOperator& entry = unknown[{domain, name, opset}];
    if (entry.nodes.empty()) {
      entry = {std::string(domain), std::string(name), opset, std::move(reason), in_standard, {}};
    }
    entry.nodes.push_back(DescribeNode(node, 0));
  });
  std::vector<UnknownOperator> result;
  result.reserve(unknown.size());
  for (auto& [key, entry] : unknown) result.push_back(std::move(entry));
  return result;
}

bool ValidateModel(const ModelProto& model, std::string_view model_name,
                   const ValidateOptions& options) {
  if (!model.graph) Fail(ErrorCode::kInvalidModel, "{}: the model has no graph", model_name);
  CheckVersions(model, model_name);
  RefuseUnknownOperators(model, model_name, options);
  Walk walk(model, options.max_nesting);
  CheckNodes(walk, model_name);
  const bool are_sorted = CheckFunctions(model, walk, model_name);
  return CheckGraphStructure(*model.graph, model_name) && are_sorted;
}

int64_t ImportedOpset(const std::vector<OperatorSetIdProto>& opset_import,
                      std::string_view domain) {
  for (const OperatorSetIdProto& import : opset_import) {
    if (CanonicalDomain(import.domain.Get()) == CanonicalDomain(domain)) {
      return import.version.Get();
    }
  }
  return domain == kContributedDomain ? 1 : 0;
}

int64_t ImportedOpset(const ModelProto& model, std::string_view domain) {
  const bool implicit = model.ir_version.Get() < 3 && model.opset_import.empty();
  if (implicit && CanonicalDomain(domain).empty()) return 1;
  return ImportedOpset(model.opset_import, domain);
}

const FunctionProto* FindFunction(const ModelProto& model, const NodeProto& node) {
  for (const FunctionProto& function : model.functions) {
    if (KeyOf(function) == CalledBy(node)) return &function;
  }
  return nullptr;
}

}  // namespace sardonyx::onnx
