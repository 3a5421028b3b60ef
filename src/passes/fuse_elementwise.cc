// a = sigmoid(x)
// y = mul(x, a)      ->   y = fused(x) {expression = sigmoid(0), mul(0,1)}
//
// From each elementwise node upwards, producers of its own shape that nothing else uses join it. Of
// two products that are added, each keeps its bias: only one of them takes the rest as its
// epilogue.

#include <algorithm>
#include <set>
#include <unordered_map>

#include "passes/expressions.h"
#include "passes/passes.h"

namespace sardonyx::passes {
namespace {

bool IsSimple(const Value* value) {
  const DType dtype = value->fact.type.dtype;
  // Powers of two are rounded in a way of their own.
  const bool is_number = IsFloat(dtype) ? dtype != DType::kFloat8E8M0 : IsInteger(dtype);
  return value->fact.type.is_tensor() && value->fact.ranked() &&
         (dtype == DType::kBool || (is_number && !IsPacked(dtype)));
}

bool IsFusable(const Node& node) {
  return IsElementwise(node) && IsSimple(node.output()) &&
         std::all_of(node.inputs.begin(), node.inputs.end(), IsSimple);
}

// Shape computations are done while a plan is made, node by node.
bool IsShapeComputation(const Node& node) { return node.output()->fact.elements.has_value(); }

// Whether the node can be the epilogue of a product.
bool FollowsProduct(const Node& node) {
  return std::any_of(node.inputs.begin(), node.inputs.end(), [&](const Value* input) {
    return input->producer != nullptr && TakesEpilogue(*input->producer, node) &&
           input->users.size() == 1 && SameShape(input, node.output());
  });
}

class Group {
 public:
  Group(Graph& graph, Node* root) : graph_(graph), root_(root) { Grow(); }

  size_t size() const { return members_.size(); }

  // Null if there is nothing to sweep over: all operands are scalar constants.
  std::unique_ptr<Node> Fuse() {
    int rank = -1;
    for (const Value* operand : Operands()) {
      if (!IsScalarConstant(operand)) rank = std::max(rank, operand->fact.rank());
    }
    if (rank < 0) return nullptr;
    ExpressionBuilder builder(rank);
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
  bool Contains(const Node* node) const {
    return std::find(members_.begin(), members_.end(), node) != members_.end();
  }

  void Grow() {
    members_.push_back(root_);
    bool grown = true;
    while (grown) {
      grown = false;
      for (size_t i = 0; i < members_.size(); ++i) {
        for (const Value* input : members_[i]->inputs) {
          Node* producer = input->producer;
          if (producer == nullptr || Contains(producer) || !CanJoin(producer)) continue;
          members_.push_back(producer);
          if (IsTooLarge()) {
            members_.pop_back();
            return;
          }
          grown = true;
        }
      }
    }
  }

  bool CanJoin(Node* node) const {
    const Value* output = node->output();
    return IsFusable(*node) && SameShape(output, root_->output()) && !graph_.IsOutput(output) &&
           std::all_of(output->users.begin(), output->users.end(),
                       [&](Node* user) { return Contains(user); }) &&
           !(FollowsProduct(*node) &&
             std::any_of(members_.begin(), members_.end(),
                         [](const Node* member) { return FollowsProduct(*member); }));
  }

  // What members read from outside.
  std::set<const Value*> Operands() const {
    std::set<const Value*> operands;
    for (const Node* node : members_) {
      for (const Value* input : node->inputs) {
        if (input->producer == nullptr || !Contains(input->producer)) operands.insert(input);
      }
    }
    return operands;
  }

  bool IsTooLarge() const {
    size_t instructions = 0;
    for (const Node* node : members_) instructions += ExpressionOf(*node).code.size();
    const std::set<const Value*> operands = Operands();
    const auto count = std::count_if(operands.begin(), operands.end(), [](const Value* operand) {
      return !IsScalarConstant(operand);
    });
    return instructions > ExpressionBuilder::kMaxInstructions ||
           count > ExpressionBuilder::kMaxInputs;
  }

  std::vector<Node*> Ordered() const {
    std::vector<Node*> ordered;
    std::set<const Node*> placed;
    auto visit = [&](auto&& self, Node* node) -> void {
      if (!placed.insert(node).second) return;
      for (Value* input : node->inputs) {
        if (input->producer != nullptr && Contains(input->producer)) {
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
  std::vector<Node*> members_;
};

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
    const bool has_scalar = std::any_of(root->inputs.begin(), root->inputs.end(), IsScalarConstant);
    if (group.size() == 1 && (!has_scalar || root->op == &core::fused)) continue;
    std::unique_ptr<Node> fused = group.Fuse();
    if (fused == nullptr) continue;
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
