// y = loop(m, c, h, x) {body = {r = gather(x', i); p = matmul(r, w); ...}}
//            ->   q = matmul(x, w); y = loop(m, c, h, x, q) {body = {p = gather(q', i); ...}}
//
// with i the iteration, or a state that counts. A recurrent network that is spelled as a loop
// multiplies the row of each step: all at once are a product of matrices, which reads its weights
// once.

#include <algorithm>

#include "passes/loops.h"
#include "passes/passes.h"

namespace sardonyx::passes {
namespace {

size_t IndexOf(const Graph& body, const Value* formal) {
  return static_cast<size_t>(std::ranges::find(body.inputs, formal) - body.inputs.begin());
}

// The iteration, or a state to which each adds 1.
bool Counts(const LoopParts& parts, const Graph& body, const Value* value) {
  if (!value->is_input) return false;
  const size_t formal = IndexOf(body, value);
  if (formal == 0) return true;
  if (!parts.IsState(formal)) return false;
  const Value* const next = body.outputs[parts.first_output + formal - parts.first_state];
  if (!IsFrom(next, core::Elementwise(Fn::kAdd))) return false;
  const Node& sum = *next->producer;
  return (sum.input(0) == value && IsConstantOf(sum.input(1), 1)) ||
         (sum.input(1) == value && IsConstantOf(sum.input(0), 1));
}

bool MultipliesByMatrix(const Node& node) {
  if (!IsPlainProduct(node)) return false;
  const Fact& weights = node.input(1)->fact;
  return weights.ranked() && weights.rank() == 2;
}

// A constant of the body, or what it captures.
bool IsOfAllIterations(const LoopParts& parts, const Graph& body, const Value* value) {
  return value->is_constant() || (value->is_input && parts.IsCapture(IndexOf(body, value)));
}

// The first product of the body whose left operand is a row of what the body captures; else null.
Node* ProductOfRows(const LoopParts& parts, const Graph& body) {
  for (const auto& node : body.nodes()) {
    if (!MultipliesByMatrix(*node) || !IsFrom(node->input(0), core::gather)) continue;
    const Node& row = *node->input(0)->producer;
    const Value* const index = row.input(1);
    const bool is_row = row.attributes.Int("axis") == 0 && index->fact.ranked() &&
                        index->fact.rank() == 0 && row.input(0)->is_input &&
                        row.input(0)->fact.ranked() && row.input(0)->fact.rank() >= 2;
    if (is_row && parts.IsCapture(IndexOf(body, row.input(0))) && Counts(parts, body, index) &&
        IsOfAllIterations(parts, body, node->input(1))) {
      return node.get();
    }
  }
  return nullptr;
}

}  // namespace

Rewrite HoistProducts(Node& node, PassContext& context) {
  if (node.op != &core::loop) return NoMatch{};
  const LoopParts parts(node);
  if (ProductOfRows(parts, *parts.body) == nullptr) return NoMatch{};
  PatchMaker maker(context, node);
  const std::shared_ptr<Graph> body = CopyOf(*parts.body);
  Node& product = *ProductOfRows(parts, *body);
  const Node& row = *product.input(0)->producer;
  const auto outside = [&](const Value* value) {
    return value->is_constant() ? maker.builder().Constant(value->fact.constant)
                                : maker.Wrap(node.inputs[IndexOf(*body, value)]);
  };
  maker.builder().SetOrigin(product.origin);
  const Val products = maker.builder().Make(
      core::matmul, {outside(row.input(0)), outside(product.input(1))}, product.attributes);
  maker.builder().SetOrigin(node.origin);
  std::vector<std::unique_ptr<Node>> made;
  made.push_back(body->MakeNode(core::gather, {AddCapture(*body, products), row.input(1)},
                                row.attributes, 1, row.origin));
  Value* const one = made[0]->outputs[0];
  body->Splice(std::move(made));
  body->ReplaceUses(product.output(), one);
  body->SortAndSweep();
  return WithCaptures(maker, node, parts, body, {products});
}

}  // namespace sardonyx::passes
