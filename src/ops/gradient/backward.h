#pragma once
// What the rule of a core operation sees: a node, the gradients of its outputs, and where to put
// those of its inputs.

#include <functional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "ops/vocabulary.h"

namespace sardonyx::ops {

class Backward {
 public:
  using Gradients = std::unordered_map<const Value*, Val>;
  using Values = std::unordered_set<const Value*>;
  Backward(Builder& builder, const Node& node, const Values& dependent, Gradients* gradients)
      : b(builder), node(node), dependent_(dependent), gradients_(gradients) {}

  Builder& b;
  const Node& node;

  Val in(size_t i) const;
  Val out(size_t i = 0) const { return b.Wrap(node.outputs[i]); }
  Val grad(size_t i = 0) const;            // of output i; empty: nothing depends on it
  bool wants(size_t i) const;              // input i depends on what is differentiated by
  void Add(size_t i, Val gradient) const;  // summed where input i was broadcast, cast to its type
  const Attributes& attributes() const { return node.attributes; }
  Val Zeros(Val like) const;
  [[noreturn]] void Refuse(std::string_view why) const;

 private:
  const Values& dependent_;
  Gradients* gradients_;
};

struct GradientRule {
  const CoreOp* op;
  void (*apply)(Backward&);
};

// False if the function has no rule. Of a function that is constant almost everywhere, nothing.
bool ElementwiseBackward(Fn fn, Backward& node);
std::span<const GradientRule> ReductionRules();
std::span<const GradientRule> MovementRules();
std::span<const GradientRule> WindowRules();

// The sum of a gradient over the axes along which a value of the shape of `like` was broadcast.
Val SumTo(Val gradient, Val like);

}  // namespace sardonyx::ops
