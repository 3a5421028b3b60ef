#include "onnx/graph_check.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "onnx/schema.h"

namespace sardonyx::onnx {
namespace {

using NameSet = std::unordered_set<std::string_view>;

// One graph on the way down from the main graph: what it has defined so far.
struct Scope {
  const std::vector<NodeProto>* nodes;
  NameSet defined;
};

template <typename Visit>
void ForEachSubgraph(const NodeProto& node, Visit&& visit) {
  for (const AttributeProto& attribute : node.attribute) {
    if (attribute.g) visit(*attribute.g);
    for (const GraphProto& graph : attribute.graphs) visit(graph);
  }
}

// Names that the graph reads from outside.
void CollectFreeNames(const GraphProto& graph, NameSet& result) {
  NameSet used;
  NameSet own;
  for (const ValueInfoProto& input : graph.input) own.insert(input.name.Get());
  for (const TensorProto& tensor : graph.initializer) own.insert(tensor.name.Get());
  for (const SparseTensorProto& tensor : graph.sparse_initializer) {
    if (tensor.values) own.insert(tensor.values->name.Get());
  }
  for (const NodeProto& node : graph.node) {
    used.insert(node.input.begin(), node.input.end());
    own.insert(node.output.begin(), node.output.end());
    ForEachSubgraph(node, [&](const GraphProto& inner) { CollectFreeNames(inner, used); });
  }
  for (const ValueInfoProto& output : graph.output) used.insert(output.name.Get());
  for (const std::string_view name : used) {
    if (!own.contains(name)) result.insert(name);
  }
}

// The nodes of one cycle, in the order of the data from the first in the file; empty when there is
// none.
std::vector<size_t> FindCycle(const std::vector<NodeProto>& nodes) {
  std::unordered_map<std::string_view, size_t> producer;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string_view name : nodes[i].output) producer.emplace(name, i);
  }
  std::vector<std::vector<size_t>> sources(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    NameSet reads(nodes[i].input.begin(), nodes[i].input.end());
    ForEachSubgraph(nodes[i], [&](const GraphProto& inner) { CollectFreeNames(inner, reads); });
    reads.erase("");
    for (const std::string_view name : reads) {
      if (const auto found = producer.find(name); found != producer.end()) {
        sources[i].push_back(found->second);
      }
    }
  }
  enum class Mark : uint8_t { kNew, kOpen, kDone };
  std::vector<Mark> marks(nodes.size(), Mark::kNew);
  std::vector<size_t> path;         // from a node to its sources
  std::vector<size_t> next_source;  // beside path
  for (size_t root = 0; root < nodes.size(); ++root) {
    if (marks[root] != Mark::kNew) continue;
    path = {root};
    next_source = {0};
    marks[root] = Mark::kOpen;
    while (!path.empty()) {
      const size_t node = path.back();
      if (next_source.back() == sources[node].size()) {
        marks[node] = Mark::kDone;
        path.pop_back();
        next_source.pop_back();
        continue;
      }
      const size_t source = sources[node][next_source.back()++];
      if (marks[source] == Mark::kOpen) {
        path.erase(path.begin(), std::find(path.begin(), path.end(), source));
        std::reverse(path.begin(), path.end());
        std::rotate(path.begin(), std::min_element(path.begin(), path.end()), path.end());
        return path;
      }
      if (marks[source] == Mark::kNew) {
        marks[source] = Mark::kOpen;
        path.push_back(source);
        next_source.push_back(0);
      }
    }
  }
  return {};
}

// "node 'a' (Add) -> node 'b' (Mul) -> node 'a' (Add)".
std::string PrintCycle(const std::vector<NodeProto>& nodes, const std::vector<size_t>& cycle) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < cycle.size(); ++i) {
    if (i == kShown && cycle.size() > kShown + 1) {
      text += fmt::format("{} more -> ", cycle.size() - kShown);
      break;
    }
    text += DescribeNode(nodes[cycle[i]], 0) + " -> ";
  }
  return text + DescribeNode(nodes[cycle.front()], 0);
}

class Checker {
 public:
  explicit Checker(std::string_view context) : context_(context) {}

  void Graph(const GraphProto& graph) {
    scopes_.push_back({&graph.node, {}});
    for (const ValueInfoProto& input : graph.input) {
      DefineFixed("graph input", input.name.Get());
    }
    Initializers(graph);
    Nodes(graph.node);
    for (const ValueInfoProto& output : graph.output) {
      if (!Visible(output.name.Get())) {
        Refuse(
            "the graph{}'s output '{}' is the output of no node, no graph input and no "
            "initializer",
            graph.name.Get().empty() ? "" : fmt::format(" '{}'", *graph.name), output.name.Get());
      }
    }
    scopes_.pop_back();
  }

  void Function(const FunctionProto& function) {
    scopes_.push_back({&function.node, {}});
    for (const std::string_view input : function.input) DefineFixed("function input", input);
    Nodes(function.node);
    for (const std::string_view output : function.output) {
      if (!Visible(output)) {
        Refuse("the function's output '{}' is the output of no node", output);
      }
    }
    scopes_.pop_back();
  }

 private:
  template <typename... Args>
  [[noreturn]] void Refuse(fmt::format_string<Args...> text, Args&&... args) {
    Fail(ErrorCode::kInvalidModel, "{}: {}", context_,
         fmt::format(text, std::forward<Args>(args)...));
  }

  bool Visible(std::string_view name) const {
    return std::any_of(scopes_.rbegin(), scopes_.rend(),
                       [&](const Scope& scope) { return scope.defined.contains(name); });
  }

  void DefineFixed(std::string_view kind, std::string_view name) {
    if (name.empty()) Refuse("a {} has no name", kind);
    if (!scopes_.back().defined.insert(name).second) {
      Refuse("the {} '{}' is given twice; names must be unique in a graph", kind, name);
    }
  }

  // An initializer of a graph input's name is that input's default value. Models before IR version
  // 4 had to list every initializer among the inputs; one that does not is clear nevertheless.
  void Initializers(const GraphProto& graph) {
    NameSet seen;
    const auto define = [&](std::string_view name) {
      if (name.empty()) Refuse("an initializer has no name");
      if (!seen.insert(name).second) {
        Refuse("the initializer '{}' is given twice; names must be unique in a graph", name);
      }
      scopes_.back().defined.insert(name);
    };
    for (const TensorProto& tensor : graph.initializer) define(tensor.name.Get());
    for (const SparseTensorProto& tensor : graph.sparse_initializer) {
      if (!tensor.values) Refuse("a sparse initializer has no values");
      define(tensor.values->name.Get());
    }
  }

  void Nodes(const std::vector<NodeProto>& nodes) {
    for (const NodeProto& node : nodes) {
      for (const std::string_view name : node.input) {
        if (!name.empty() && !Visible(name)) ExplainMissing(node, name);
      }
      ForEachSubgraph(node, [&](const GraphProto& graph) { Graph(graph); });
      for (const std::string_view name : node.output) {
        if (name.empty() || scopes_.back().defined.insert(name).second) continue;
        ExplainRepeated(node, name);
      }
    }
  }

  [[noreturn]] void ExplainRepeated(const NodeProto& node, std::string_view name) {
    for (const NodeProto& other : *scopes_.back().nodes) {
      if (&other == &node) break;
      if (std::find(other.output.begin(), other.output.end(), name) != other.output.end()) {
        Refuse("{}: its output '{}' is already an output of {}; every value must be defined once",
               DescribeNode(node, 0), name, DescribeNode(other, 0));
      }
    }
    if (std::count(node.output.begin(), node.output.end(), name) > 1) {
      Refuse("{}: it has two outputs named '{}'; every value must be defined once",
             DescribeNode(node, 0), name);
    }
    Refuse(
        "{}: its output '{}' is already an input or initializer of the graph; every value must "
        "be defined once",
        DescribeNode(node, 0), name);
  }

  [[noreturn]] void ExplainMissing(const NodeProto& node, std::string_view name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      for (const NodeProto& producer : *scope->nodes) {
        if (std::find(producer.output.begin(), producer.output.end(), name) ==
            producer.output.end()) {
          continue;
        }
        const std::vector<size_t> cycle = FindCycle(*scope->nodes);
        if (!cycle.empty()) {
          Refuse("the graph has a cycle: {}", PrintCycle(*scope->nodes, cycle));
        }
        Refuse(
            "{}: its input '{}' is made by {}, which stands after it; ONNX requires nodes sorted "
            "so that each follows its inputs (there is no cycle: sort the nodes and save again)",
            DescribeNode(node, 0), name, DescribeNode(producer, 0));
      }
    }
    Refuse(
        "{}: its input '{}' is undefined: no graph input, initializer or node output has this "
        "name",
        DescribeNode(node, 0), name);
  }

  std::string context_;
  std::vector<Scope> scopes_;
};

}  // namespace

void CheckGraphStructure(const GraphProto& graph, std::string_view context) {
  Checker(context).Graph(graph);
}

void CheckFunctionStructure(const FunctionProto& function, std::string_view context) {
  Checker(context).Function(function);
}

}  // namespace sardonyx::onnx
