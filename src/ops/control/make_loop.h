#pragma once
// Core loops whose bodies lowerings write as formulas.

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "ops/builder.h"

namespace sardonyx::ops {

// The inside of a loop while its body is made.
class LoopScope {
 public:
  // A body whose inputs are the iteration, the condition and states of these facts.
  LoopScope(Graph& body, const Builder& around, std::span<const Fact> states);

  Builder& builder() { return builder_; }
  Val iteration() const { return iteration_; }
  const std::vector<Val>& states() const { return states_; }
  // A value of the graph around, here; an absent one stays absent.
  Val Outside(Val value);
  // What Outside was asked for and the node has to capture, in the order of the body's inputs.
  std::vector<Val> Captures() const;

 private:
  Graph& body_;
  Builder builder_;
  Val iteration_;
  std::vector<Val> states_;
  std::vector<std::pair<Val, Val>> captures_;  // outside, inside
};

// What a body gives: whether there is another iteration (bool, one element), the states of that,
// and values that are stacked.
struct LoopStep {
  Val goes_on;
  std::vector<Val> states, stacked;
};

// A loop of at most `trips` iterations (int64, one element; none at all if `starts` is given and
// false). `step` makes the body, once more whenever sizes of states turn out to change on the way.
// Gives the last states, then what was stacked.
std::vector<Val> MakeLoop(Builder& builder, Val trips, Val starts, const std::vector<Val>& initial,
                          const std::function<LoopStep(LoopScope&)>& step);

}  // namespace sardonyx::ops
