#include "onnx/differentiated.h"

#include <algorithm>
#include <set>

#include "ir/core_op.h"

namespace sardonyx::onnx {
namespace {

// Names a node reads: its inputs, what its bodies may capture, the result that a Gradient node
// differentiates again.
void AddUsed(const NodeProto& node, std::set<std::string_view>* names) {
  names->insert(node.input.begin(), node.input.end());
  if (IsGradient(node.domain.Get(), node.op_type.Get())) names->insert(StringOf(node, "y"));
  for (const AttributeProto& attribute : node.attribute) {
    if (!attribute.g) continue;
    for (const NodeProto& inner : attribute.g->node) AddUsed(inner, names);
    for (const ValueInfoProto& output : attribute.g->output) names->insert(output.name.Get());
  }
}

// Uses of what `copy` draws become uses of what the node that it is a copy of draws.
void ShareDraw(Graph& graph, const Node& copy, size_t start) {
  for (size_t i = 0; i < start; ++i) {
    const Node& drawn = *graph.nodes()[i];
    if (drawn.op != copy.op || drawn.origin->name != copy.origin->name ||
        drawn.output()->fact.shape != copy.output()->fact.shape) {
      continue;
    }
    graph.ReplaceUses(copy.output(), drawn.output());
    return;
  }
}

}  // namespace

bool IsGradient(std::string_view domain, std::string_view op_type) {
  return domain == "ai.onnx.preview.training" && op_type == "Gradient";
}

std::string_view StringOf(const NodeProto& node, std::string_view name) {
  for (const AttributeProto& attribute : node.attribute) {
    if (attribute.name.Get() == name) return attribute.s.Get();
  }
  return "";
}

const std::vector<std::string_view>& StringsOf(const NodeProto& node, std::string_view name) {
  static const std::vector<std::string_view> kNone;
  for (const AttributeProto& attribute : node.attribute) {
    if (attribute.name.Get() == name) return attribute.strings;
  }
  return kNone;
}

std::vector<const NodeProto*> DifferentiatedNodes(const std::vector<NodeProto>& nodes,
                                                  const NodeProto& gradient) {
  std::set<std::string_view> roots;
  for (std::string_view list : {"xs", "zs"}) {
    const auto& names = StringsOf(gradient, list);
    roots.insert(names.begin(), names.end());
  }
  size_t count = 0;
  while (count < nodes.size() && &nodes[count] != &gradient) ++count;
  std::vector<std::set<std::string_view>> used(count);
  std::set<std::string_view> needed{StringOf(gradient, "y")};
  std::vector<bool> leads(count);
  for (size_t i = count; i-- > 0;) {
    leads[i] = std::any_of(nodes[i].output.begin(), nodes[i].output.end(), [&](auto name) {
      return !name.empty() && needed.contains(name) && !roots.contains(name);
    });
    if (!leads[i]) continue;
    AddUsed(nodes[i], &used[i]);
    needed.insert(used[i].begin(), used[i].end());
  }
  std::vector<const NodeProto*> result;
  std::set<std::string_view> dependent = roots;
  dependent.erase("");
  for (size_t i = 0; i < count; ++i) {
    if (!leads[i] || std::none_of(used[i].begin(), used[i].end(),
                                  [&](auto name) { return dependent.contains(name); })) {
      continue;
    }
    dependent.insert(nodes[i].output.begin(), nodes[i].output.end());
    dependent.erase("");
    result.push_back(&nodes[i]);
  }
  return result;
}

std::vector<const Node*> TakeCopies(Graph& graph, size_t start) {
  std::vector<const Node*> copies;
  for (size_t i = start; i < graph.nodes().size(); ++i) {
    const Node* copy = graph.nodes()[i].get();
    for (Value* output : copy->outputs) output->name.clear();
    if (!copy->op->is_pure) ShareDraw(graph, *copy, start);
    copies.push_back(copy);
  }
  return copies;
}

}  // namespace sardonyx::onnx
