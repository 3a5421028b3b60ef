#pragma once
// What the inputs of `loop` and `scan`, and those of their bodies, are.

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "ops/control/body.h"
#include "passes/passes.h"

namespace sardonyx::passes {

inline bool IsLoop(const Node& node) { return node.op == &core::loop || node.op == &core::scan; }

// Formals of the body: of a loop the iteration and the condition, of both states, of a scan what it
// scans, then captures. Outputs of the body: of a loop the condition, then states, then what is
// stacked; of the node the same without the condition.
struct LoopParts {
  std::shared_ptr<Graph> body;
  size_t first_state, states, first_capture;
  size_t first_output;  // of the states

  explicit LoopParts(const Node& node) : body(node.attributes.Body("body")) {
    const Attributes& attributes = node.attributes;
    const bool is_loop = node.op == &core::loop;
    first_state = is_loop ? 2 : 0;
    first_output = is_loop ? 1 : 0;
    if (is_loop) {
      states = static_cast<size_t>(attributes.Int("carried"));
      first_capture = first_state + states;
    } else {
      first_capture = node.inputs.size() - static_cast<size_t>(attributes.Int("captures"));
      states = first_capture - static_cast<size_t>(attributes.Int("scan_inputs"));
    }
  }

  bool IsState(size_t formal) const {
    return formal >= first_state && formal - first_state < states;
  }
  bool IsScanned(size_t formal) const {
    return formal >= first_state + states && formal < first_capture;
  }
  bool IsCapture(size_t formal) const { return formal >= first_capture; }

  // What the body makes of a state for the next iteration.
  const Value* NextOf(size_t state) const {
    return body->outputs[first_output + state - first_state];
  }

  // The node's attributes with another body of so many states and inputs, which scans the same.
  Attributes With(const Node& node, std::shared_ptr<Graph> other, size_t other_states,
                  size_t inputs) const {
    Attributes attributes = node.attributes;
    attributes.Set("body", std::move(other));
    if (node.op == &core::loop) {
      attributes.Set("carried", static_cast<int64_t>(other_states));
    } else {
      const size_t scanned = first_capture - states;
      attributes.Set("captures", static_cast<int64_t>(inputs - other_states - scanned));
    }
    return attributes;
  }
};

// A body like that, to be changed.
inline std::shared_ptr<Graph> CopyOf(const Graph& body) {
  std::vector<Val> captures;
  return ops::Bind(body, std::vector<Val>(body.inputs.size()), &captures);
}

// A further input of the body, for what the node will capture.
inline Value* AddCapture(Graph& body, const Val& value) {
  Fact fact = value.fact();
  fact.constant = Tensor();
  return body.AddInput("", std::move(fact));
}

// The node with that body in place of its own, which has inputs for these values behind the others.
inline Rewrite WithCaptures(PatchMaker& maker, const Node& node, const LoopParts& parts,
                            const std::shared_ptr<Graph>& body, const std::vector<Val>& captures) {
  std::vector<Val> inputs;
  for (Value* input : node.inputs) inputs.push_back(maker.Wrap(input));
  inputs.insert(inputs.end(), captures.begin(), captures.end());
  Attributes attributes = parts.With(node, body, parts.states, inputs.size());
  return maker.Replace(node, maker.builder().MakeMany(*node.op, inputs, std::move(attributes),
                                                      static_cast<int>(node.outputs.size())));
}

}  // namespace sardonyx::passes
