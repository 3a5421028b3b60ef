// y = loop(m, c, h, x) {body = {k = matmul(x', w); t = add(h', k); ...}}
//            ->   k = matmul(x, w); y = loop(m, c, h, x, k) {body = {t = add(h', k'); ...}}
//
// What is the same in each iteration is computed once: decoders that attend to an image project its
// features in each step. Only what cannot fail, whatever its values: a loop may not run at all.

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "passes/loops.h"
#include "passes/passes.h"

namespace sardonyx::passes {
namespace {

bool CannotFail(const Node& node) {
  if (node.op->expression != nullptr) return IsFloat(node.output()->fact.type.dtype);
  static const CoreOp* const kOps[] = {&core::matmul,   &core::conv,         &core::conv_transpose,
                                       &core::max_pool, &core::average_pool, &core::layer_norm,
                                       &core::softmax,  &core::reduce,       &core::transpose,
                                       &core::unsqueeze};
  return std::ranges::find(kOps, node.op) != std::end(kOps);
}

// The nodes of the body that read nothing but constants, captures and each other, in their order.
std::vector<Node*> Invariants(const LoopParts& parts, const Graph& body) {
  std::unordered_set<const Value*> same;
  for (size_t i = parts.first_capture; i < body.inputs.size(); ++i) same.insert(body.inputs[i]);
  std::vector<Node*> nodes;
  for (const auto& node : body.nodes()) {
    const bool is_same = std::ranges::all_of(node->inputs, [&](const Value* input) {
      return input == nullptr || input->is_constant() || same.contains(input);
    });
    const bool varies =
        std::ranges::any_of(node->inputs, [&](const Value* input) { return same.contains(input); });
    if (!is_same || !varies || !CannotFail(*node)) continue;
    same.insert(node->outputs.begin(), node->outputs.end());
    nodes.push_back(node.get());
  }
  return nodes;
}

}  // namespace

Rewrite HoistInvariants(Node& node, PassContext& context) {
  if (!IsLoop(node)) return NoMatch{};
  const LoopParts parts(node);
  if (Invariants(parts, *parts.body).empty()) return NoMatch{};
  PatchMaker maker(context, node);
  const std::shared_ptr<Graph> body = CopyOf(*parts.body);
  std::unordered_map<const Value*, Val> outside;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    outside[body->inputs[i]] = maker.Wrap(node.inputs[i]);
  }
  const std::vector<Node*> invariants = Invariants(parts, *body);
  std::vector<Value*> results;
  for (const Node* invariant : invariants) {
    std::vector<Val> operands;
    for (const Value* operand : invariant->inputs) {
      const bool is_constant = operand != nullptr && operand->is_constant();
      operands.push_back(is_constant ? maker.builder().Constant(operand->fact.constant)
                                     : outside[operand]);
    }
    maker.builder().SetOrigin(invariant->origin);
    const std::vector<Val> made =
        maker.builder().MakeMany(*invariant->op, operands, invariant->attributes,
                                 static_cast<int>(invariant->outputs.size()));
    for (size_t i = 0; i < made.size(); ++i) {
      outside[invariant->outputs[i]] = made[i];
      results.push_back(invariant->outputs[i]);
    }
  }
  maker.builder().SetOrigin(node.origin);
  const std::unordered_set<const Node*> hoisted(invariants.begin(), invariants.end());
  std::vector<Val> captures;
  for (Value* result : results) {
    const bool is_read =
        body->IsOutput(result) || std::ranges::any_of(result->users, [&](const Node* user) {
          return !hoisted.contains(user);
        });
    if (!is_read) continue;
    const Val value = outside[result];
    body->ReplaceUses(result, AddCapture(*body, value));
    captures.push_back(value);
  }
  body->SortAndSweep();
  return WithCaptures(maker, node, parts, body, captures);
}

}  // namespace sardonyx::passes
