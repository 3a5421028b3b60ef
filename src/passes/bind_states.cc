// y, z = loop(m, c, x, w) {carried=2, body = {u = matmul(x', w')  output c', u, w'}}
//                     ->   y = loop(m, c, x, w) {carried=1, body = {u = ...  output c', u}}; z = w
//
// A state that each iteration hands on as it is is none: exporters make such of what a loop reads.
// Weights among them would be packed, and all be copied, in each iteration. What is bound to a
// constant becomes the body's own.

#include "ops/control/body.h"
#include "passes/loops.h"
#include "passes/passes.h"

namespace sardonyx::passes {

Rewrite BindStates(Node& node, PassContext& context) {
  if (!IsLoop(node)) return NoMatch{};
  const LoopParts parts(node);
  const Graph& body = *parts.body;
  std::vector<bool> is_bound(body.inputs.size());
  const auto is_handed_on = [&](size_t formal) {
    return node.input(formal) != nullptr && parts.NextOf(formal) == body.inputs[formal];
  };
  bool any = false;
  for (size_t i = 0; i < body.inputs.size(); ++i) {
    is_bound[i] =
        parts.IsState(i) ? is_handed_on(i) : parts.IsCapture(i) && node.input(i)->is_constant();
    any |= is_bound[i];
  }
  if (!any) return NoMatch{};
  PatchMaker maker(context, node);
  std::vector<Val> bound(body.inputs.size()), captures, inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Val given = maker.Wrap(node.inputs[i]);
    if (is_bound[i]) {
      bound[i] = given;
    } else {
      inputs.push_back(given);
    }
  }
  const std::shared_ptr<Graph> without = ops::Bind(body, bound, &captures);
  inputs.insert(inputs.end(), captures.begin(), captures.end());
  // The outputs that are left, and where those of the node are among them.
  std::vector<Value*> outputs;
  std::vector<Val> results(node.outputs.size());
  int wanted = 0;
  size_t states = 0;
  for (size_t i = 0; i < body.outputs.size(); ++i) {
    const bool is_state = i >= parts.first_output && i - parts.first_output < parts.states;
    const size_t formal = parts.first_state + i - parts.first_output;
    if (is_state && is_bound[formal]) continue;
    outputs.push_back(without->outputs[i]);
    states += is_state ? 1 : 0;
    wanted += i >= parts.first_output && i - parts.first_output < results.size() ? 1 : 0;
  }
  without->outputs = std::move(outputs);
  std::vector<Val> made;
  if (wanted > 0) {
    made = maker.builder().MakeMany(*node.op, inputs,
                                    parts.With(node, without, states, inputs.size()), wanted);
  }
  for (size_t i = 0, next = 0; i < results.size(); ++i) {
    const size_t formal = parts.first_state + i;
    results[i] = i < parts.states && is_bound[formal] ? bound[formal] : made[next++];
  }
  return maker.Replace(node, results);
}

}  // namespace sardonyx::passes
