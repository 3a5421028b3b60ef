// y = if_(true, a, b) {then_branch = {t = add(a, b)}, ...}   ->   y = add(a, b)

#include <unordered_map>

#include "passes/passes.h"

namespace sardonyx::passes {

Rewrite InlineIf(Node& node, PassContext& context) {
  if (node.op != &core::if_) return NoMatch{};
  const auto& known = node.input(0)->fact.elements;
  if (!known || known->size() != 1 || !(*known)[0].known()) return NoMatch{};
  const bool condition = (*known)[0].value() != 0;
  const auto body = node.attributes.Body(condition ? "then_branch" : "else_branch");
  PatchMaker maker(context, node);
  std::unordered_map<const Value*, Val> values;
  for (size_t i = 0; i < body->inputs.size(); ++i) {
    values[body->inputs[i]] = maker.Wrap(node.inputs[1 + i]);
  }
  auto map = [&](const Value* value) -> Val {
    if (value == nullptr) return {};
    auto it = values.find(value);
    if (it != values.end()) return it->second;
    return values[value] = maker.builder().Constant(value->fact.constant);
  };
  for (const auto& inner : body->nodes()) {
    std::vector<Val> inputs;
    for (const Value* input : inner->inputs) inputs.push_back(map(input));
    maker.builder().SetOrigin(inner->origin);
    const std::vector<Val> outputs = maker.builder().MakeMany(
        *inner->op, inputs, inner->attributes, static_cast<int>(inner->outputs.size()));
    for (size_t i = 0; i < outputs.size(); ++i) values[inner->outputs[i]] = outputs[i];
  }
  std::vector<Val> results;
  for (size_t i = 0; i < node.outputs.size(); ++i) results.push_back(map(body->outputs[i]));
  return maker.Replace(node, results);
}

}  // namespace sardonyx::passes
