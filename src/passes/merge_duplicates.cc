// a = exp(x)                         a = exp(x)
// b = exp(x)                    ->   c = add(a, a)
// c = add(a, b)

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "passes/passes.h"

namespace sardonyx::passes {
namespace {

constexpr int64_t kHashedBytes = 4 << 10;  // of a constant: more of a file is not read for this

size_t Hash(const Node& node) {
  size_t hash = std::hash<const void*>()(node.op);
  for (const Value* input : node.inputs) hash = hash * 31 + std::hash<const void*>()(input);
  return hash * 31 + node.attributes.items().size();
}

int MergeConstants(Graph& graph) {
  std::unordered_map<size_t, std::vector<Value*>> seen;
  std::vector<Value*> constants;
  for (const auto& node : graph.nodes()) {
    for (Value* input : node->inputs) {
      if (input != nullptr && input->is_constant() && !input->is_input) constants.push_back(input);
    }
  }
  int changes = 0;
  for (Value* value : constants) {
    if (value->users.empty()) continue;
    const Tensor& tensor = value->fact.constant;
    size_t hash = static_cast<size_t>(tensor.dtype());
    for (int64_t dim : tensor.dims()) hash = hash * 31 + static_cast<size_t>(dim);
    if (tensor.dtype() != DType::kString) {
      const auto hashed = static_cast<size_t>(std::min(tensor.bytes(), kHashedBytes));
      hash ^= std::hash<std::string_view>()({static_cast<const char*>(tensor.raw()), hashed});
    }
    std::vector<Value*>& bucket = seen[hash];
    auto it = std::find_if(bucket.begin(), bucket.end(), [&](const Value* other) {
      return other == value || BitEqual(other->fact.constant, tensor);
    });
    if (it == bucket.end()) {
      bucket.push_back(value);
    } else if (*it != value) {
      graph.ReplaceUses(value, *it);
      ++changes;
    }
  }
  return changes;
}

}  // namespace

int MergeDuplicates(PassContext& context) {
  Graph& graph = context.graph;
  int changes = MergeConstants(graph);
  std::unordered_map<size_t, std::vector<Node*>> seen;
  for (const auto& node : graph.nodes()) {
    if (!node->op->is_pure) continue;
    std::vector<Node*>& bucket = seen[Hash(*node)];
    auto it = std::find_if(bucket.begin(), bucket.end(), [&](const Node* other) {
      return other->op == node->op && other->inputs == node->inputs &&
             other->outputs.size() == node->outputs.size() && other->attributes == node->attributes;
    });
    if (it == bucket.end()) {
      bucket.push_back(node.get());
      continue;
    }
    for (size_t i = 0; i < node->outputs.size(); ++i) {
      graph.ReplaceUses(node->outputs[i], (*it)->outputs[i]);
    }
    ++changes;
  }
  return changes;
}

}  // namespace sardonyx::passes
