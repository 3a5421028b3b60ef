// a = sigmoid(x)
// y = mul(x, a)      ->   y = fused(x) {expression = sigmoid(0), mul(0,1)}
//
// From each elementwise node upwards, producers of its own shape that nothing else uses join it.

#include <algorithm>
#include <set>
#include <unordered_map>

#include "passes/expressions.h"
#include "passes/passes.h"

namespace sardonyx::passes {
namespace {

bool IsFusable(const Node& node) {
  if (node.op->expression == nullptr || node.outputs.size() != 1) return false;
  auto simple = [](const Value* value) {
    const DType dtype = value->fact.type.dtype;
    return value->fact.type.is_tensor() && value->fact.ranked() && BitWidth(dtype) >= 8 &&
           (IsInteger(dtype) || dtype == DType::kBool || dtype == DType::kFloat32 ||
            dtype == DType::kFloat64 || dtype == DType::kFloat16 || dtype == DType::kBFloat16);
  };
  return simple(node.output()) && std::all_of(node.inputs.begin(), node.inputs.end(), simple);
}

// Shape computations are done while a plan is made, node by node.
bool IsShapeComputation(const Node& node) { return node.output()->fact.elements.has_value(); }

class Group {
 public:
  Group(Graph& graph, Node* root) : graph_(graph), root_(root) { Grow(); }

  size_t size() const { return members_.size(); }

  std::unique_ptr<Node> Fuse() {
    ExpressionBuilder builder;
    std::unordered_map<const Value*, int> results;
    // Members were found from the root upwards; instructions go in the order of the graph.
    for (Node* node : Ordered()) {
      std::vector<int> args;
      for (Value* input : node->inputs) {
        auto it = results.find(input);
        args.push_back(it != results.end() ? it->second : builder.Operand(input));
      }
      results[node->output()] = builder.Append(ExpressionOf(*node), args);
    }
    return graph_.MakeNode(core::fused, builder.operands(), {{"expression", builder.Finish()}}, 1,
                           root_->origin);
  }

 private:
  void Grow() {
    members_.insert(root_);
    bool grown = true;
    while (grown) {
      grown = false;
      std::set<Value*> inputs;
      for (const Node* node : members_) inputs.insert(node->inputs.begin(), node->inputs.end());
      for (Value* input : inputs) {
        Node* producer = input->producer;
        if (producer == nullptr || members_.contains(producer) || !CanJoin(producer)) continue;
        members_.insert(producer);
        if (TooLarge()) {
          members_.erase(producer);
          return;
        }
        grown = true;
      }
    }
  }

  bool CanJoin(Node* node) const {
    return IsFusable(*node) && SameShape(node->output(), root_->output()) &&
           !graph_.IsOutput(node->output()) &&
           std::all_of(node->output()->users.begin(), node->output()->users.end(),
                       [&](Node* user) { return members_.contains(user); });
  }

  bool TooLarge() const {
    size_t instructions = 0;
    std::set<const Value*> operands;
    for (const Node* node : members_) {
      instructions += ExpressionOf(*node).code.size();
      for (const Value* input : node->inputs) {
        const bool inside = input->producer != nullptr && members_.contains(input->producer);
        if (!inside && !input->is_constant()) operands.insert(input);
        if (!inside && input->is_constant() && input->fact.constant.size() > 1) operands.insert(input);
      }
    }
    return instructions > ExpressionBuilder::kMaxInstructions ||
           operands.size() > ExpressionBuilder::kMaxInputs;
  }

  std::vector<Node*> Ordered() const {
    std::vector<Node*> ordered;
    std::set<const Node*> placed;
    auto visit = [&](auto&& self, Node* node) -> void {
      if (!placed.insert(node).second) return;
      for (Value* input : node->inputs) {
        if (input->producer != nullptr && members_.contains(input->producer)) {
          self(self, input->producer);
        }
      }
      ordered.push_back(node);
    };
    visit(visit, root_);
    return ordered;
  }

  Graph& graph_;
  Node* root_;
  std::set<Node*> members_;
};

}  // namespace

namespace {

// Takes a node that nothing uses out of its inputs' users, and so on upwards.
void Detach(Graph& graph, Node* node) {
  if (!node->output()->users.empty() || graph.IsOutput(node->output())) return;
  for (size_t i = 0; i < node->inputs.size(); ++i) {
    Value* input = node->inputs[i];
    if (input == nullptr) continue;
    graph.SetInput(node, i, nullptr);
    Node* producer = input->producer;
    if (producer != nullptr && producer->op->expression != nullptr) Detach(graph, producer);
  }
}

}  // namespace

int FuseElementwise(PassContext& context) {
  Graph& graph = context.graph;
  std::vector<Node*> nodes;
  for (const auto& node : graph.nodes()) nodes.push_back(node.get());
  std::vector<std::unique_ptr<Node>> made;
  int changes = 0;
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    Node* root = *it;
    const bool dead = root->output()->users.empty() && !graph.IsOutput(root->output());
    if (dead || !IsFusable(*root) || IsShapeComputation(*root)) continue;
    Group group(graph, root);
    // A single node gains only where it has scalar operands to take in.
    const bool has_scalar = std::any_of(root->inputs.begin(), root->inputs.end(), [](Value* input) {
      return input->is_constant() && input->fact.constant.size() == 1;
    });
    if (group.size() == 1 && (!has_scalar || root->op == &core::fused)) continue;
    std::unique_ptr<Node> fused = group.Fuse();
    if (fused->inputs.empty()) continue;  // all constants: folding is switched off
    graph.ReplaceUses(root->output(), fused->output());
    // The members have lost their last user; detach them, so that what they used can join others.
    Detach(graph, root);
    made.push_back(std::move(fused));
    ++changes;
  }
  graph.Splice(std::move(made));
  return changes;
}

}  // namespace sardonyx::passes
