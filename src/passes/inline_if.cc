// y = if_(true, a, b) {then_branch = {t = add(a, b)}, ...}   ->   y = add(a, b)

#include "ops/control/body.h"
#include "passes/passes.h"

namespace sardonyx::passes {

Rewrite InlineIf(Node& node, PassContext& context) {
  if (node.op != &core::if_) return NoMatch{};
  const auto& known = node.input(0)->fact.elements;
  if (!known || known->size() != 1 || !(*known)[0].known()) return NoMatch{};
  const bool condition = (*known)[0].value() != 0;
  const auto body = node.attributes.Body(condition ? "then_branch" : "else_branch");
  PatchMaker maker(context, node);
  std::vector<Val> captures;
  for (size_t i = 1; i < node.inputs.size(); ++i) captures.push_back(maker.Wrap(node.inputs[i]));
  std::vector<Val> results = ops::Inline(maker.builder(), *body, captures);
  results.resize(node.outputs.size());
  return maker.Replace(node, results);
}

}  // namespace sardonyx::passes
