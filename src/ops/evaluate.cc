#include "ops/evaluate.h"

#include <unordered_map>

#include "ir/core_op.h"

namespace sardonyx {

std::vector<Datum> Evaluate(const Graph& graph, std::span<const Datum> inputs) {
  if (inputs.size() != graph.inputs.size()) {
    Fail(ErrorCode::kInternal, "graph '{}' has {} inputs, given {}", graph.name,
         graph.inputs.size(), inputs.size());
  }
  std::unordered_map<const Value*, Datum> values;
  for (size_t i = 0; i < inputs.size(); ++i) values[graph.inputs[i]] = inputs[i];
  auto read = [&](const Value* value) -> Datum {
    if (value == nullptr) return {};
    if (value->is_constant()) return value->fact.constant;
    return values.at(value);
  };
  std::vector<Datum> arguments;
  for (const auto& node : graph.nodes()) {
    arguments.clear();
    for (const Value* input : node->inputs) arguments.push_back(read(input));
    std::vector<Datum> results = RunReference(*node, arguments);
    for (size_t i = 0; i < results.size(); ++i) values[node->outputs[i]] = std::move(results[i]);
  }
  std::vector<Datum> outputs;
  for (const Value* output : graph.outputs) outputs.push_back(read(output));
  return outputs;
}

}  // namespace sardonyx
