#include "onnx/graph_check.h"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "onnx/node_order.h"
#include "onnx/schema.h"

namespace sardonyx::onnx {
namespace {

using NameSet = std::unordered_set<std::string_view>;

// One graph on the way down from the main graph: what it has defined so far. Once a value was
// missed, what any of its nodes makes, which counts if one of these was read before it was made.
struct Scope {
  const std::vector<NodeProto>* nodes;
  NameSet defined = {}, made = {};
  bool is_sorted = true;
};

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

  // Whether every node of what was checked stands behind those that it reads.
  bool is_sorted() const { return is_sorted_; }

  void Graph(const GraphProto& graph) {
    scopes_.push_back({&graph.node});
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
    scopes_.push_back({&function.node});
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
    return std::any_of(scopes_.rbegin(), scopes_.rend(), [&](const Scope& scope) {
      return scope.defined.contains(name) || (!scope.is_sorted && scope.made.contains(name));
    });
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
        if (!name.empty() && !Visible(name)) Await(node, name);
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

  // A value that no node before this one defines: if a later one does, the nodes have to be sorted.
  void Await(const NodeProto& node, std::string_view name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (scope->made.empty()) {
        for (const NodeProto& maker : *scope->nodes) {
          scope->made.insert(maker.output.begin(), maker.output.end());
        }
      }
      if (!scope->made.contains(name)) continue;
      const std::vector<size_t> cycle = FindCycle(SourcesOf(*scope->nodes));
      if (!cycle.empty()) Refuse("the graph has a cycle: {}", PrintCycle(*scope->nodes, cycle));
      scope->is_sorted = is_sorted_ = false;
      return;
    }
    Refuse(
        "{}: its input '{}' is undefined: no graph input, initializer or node output has this "
        "name",
        DescribeNode(node, 0), name);
  }

  std::string context_;
  std::vector<Scope> scopes_;
  bool is_sorted_ = true;
};

}  // namespace

bool CheckGraphStructure(const GraphProto& graph, std::string_view context) {
  Checker checker(context);
  checker.Graph(graph);
  return checker.is_sorted();
}

bool CheckFunctionStructure(const FunctionProto& function, std::string_view context) {
  Checker checker(context);
  checker.Function(function);
  return checker.is_sorted();
}

}  // namespace sardonyx::onnx
