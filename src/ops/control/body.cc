#include "ops/control/body.h"

#include <unordered_map>

namespace sardonyx::ops {

std::vector<Val> Inline(Builder& builder, const Graph& body, std::span<const Val> arguments) {
  if (arguments.size() != body.inputs.size()) {
    Fail(ErrorCode::kInvalidModel, "the body '{}' takes {} inputs, given {}", body.name,
         body.inputs.size(), arguments.size());
  }
  std::unordered_map<const Value*, Val> values;
  for (size_t i = 0; i < arguments.size(); ++i) values[body.inputs[i]] = arguments[i];
  const auto map = [&](const Value* value) -> Val {
    if (value == nullptr) return {};
    if (const auto it = values.find(value); it != values.end()) return it->second;
    return values[value] = builder.Constant(value->fact.constant);
  };
  const auto origin = builder.origin();
  for (const auto& node : body.nodes()) {
    std::vector<Val> inputs;
    for (const Value* input : node->inputs) inputs.push_back(map(input));
    builder.SetOrigin(node->origin);
    const std::vector<Val> outputs = builder.MakeMany(*node->op, inputs, node->attributes,
                                                      static_cast<int>(node->outputs.size()));
    for (size_t i = 0; i < outputs.size(); ++i) values[node->outputs[i]] = outputs[i];
  }
  builder.SetOrigin(origin);
  std::vector<Val> results;
  for (const Value* output : body.outputs) results.push_back(map(output));
  return results;
}

}  // namespace sardonyx::ops
