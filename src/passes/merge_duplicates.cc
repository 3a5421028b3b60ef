// a = exp(x)                         a = exp(x)
// b = exp(x)                    ->   c = add(a, a)
// c = add(a, b)

#include <algorithm>
#include <functional>
#include <unordered_set>

#include "passes/passes.h"

namespace sardonyx::passes {
namespace {

constexpr int64_t kHashedBytes = 4 << 10;  // of a constant: more of a file is not read for this

size_t HashConstant(const Value* value) {
  const Tensor& tensor = value->fact.constant;
  size_t hash = static_cast<size_t>(tensor.dtype());
  for (int64_t dim : tensor.dims()) hash = hash * 31 + static_cast<size_t>(dim);
  if (tensor.dtype() == DType::kString) return hash;
  const auto hashed = static_cast<size_t>(std::min(tensor.bytes(), kHashedBytes));
  return hash ^ std::hash<std::string_view>()({static_cast<const char*>(tensor.raw()), hashed});
}

bool SameConstant(const Value* a, const Value* b) {
  return a == b || BitEqual(a->fact.constant, b->fact.constant);
}

size_t HashNode(const Node* node) {
  size_t hash = std::hash<const void*>()(node->op);
  for (const Value* input : node->inputs) hash = hash * 31 + std::hash<const void*>()(input);
  return hash * 31 + node->attributes.items().size();
}

bool SameNode(const Node* a, const Node* b) {
  return a->op == b->op && a->inputs == b->inputs && a->outputs.size() == b->outputs.size() &&
         a->attributes == b->attributes;
}

int MergeConstants(Graph& graph) {
  std::vector<Value*> constants;
  for (const auto& node : graph.nodes()) {
    for (Value* input : node->inputs) {
      if (input != nullptr && input->is_constant() && !input->is_input) constants.push_back(input);
    }
  }
  std::unordered_set<Value*, decltype(&HashConstant), decltype(&SameConstant)> seen(
      constants.size(), HashConstant, SameConstant);
  int changes = 0;
  for (Value* value : constants) {
    if (value->users.empty()) continue;
    Value* first = *seen.insert(value).first;
    if (first == value) continue;
    graph.ReplaceUses(value, first);
    ++changes;
  }
  return changes;
}

}  // namespace

int MergeDuplicates(PassContext& context) {
  Graph& graph = context.graph;
  int changes = MergeConstants(graph);
  std::unordered_set<Node*, decltype(&HashNode), decltype(&SameNode)> seen(graph.nodes().size(),
                                                                           HashNode, SameNode);
  for (const auto& node : graph.nodes()) {
    if (!node->op->is_pure) continue;
    const Node* first = *seen.insert(node.get()).first;
    if (first == node.get()) continue;
    for (size_t i = 0; i < node->outputs.size(); ++i) {
      graph.ReplaceUses(node->outputs[i], first->outputs[i]);
    }
    ++changes;
  }
  return changes;
}

}  // namespace sardonyx::passes
