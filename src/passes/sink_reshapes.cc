// p = matmul(x, w)
// y = add(reshape(p, [n,s,8]), r)        ->   y = reshape(add(p, reshape(r, [n*s,8])), [n,s,8])
//
// so the addition is next to the product, whose epilogue it can be.

#include <algorithm>

#include "passes/expressions.h"
#include "passes/passes.h"

namespace sardonyx::passes {
namespace {

bool IsProduct(const Value* value) {
  return IsFrom(value, core::matmul) || IsFrom(value, core::conv) ||
         IsFrom(value, core::conv_transpose);
}

// A product, or what elementwise nodes of its shape have made of one.
bool ComesFromProduct(const Value* value) {
  constexpr int kDeepest = 16;
  for (int i = 0; i < kDeepest && value->producer != nullptr; ++i) {
    if (IsProduct(value)) return true;
    if (!IsElementwise(*value->producer)) return false;
    const auto& inputs = value->producer->inputs;
    const auto next = std::find_if(inputs.begin(), inputs.end(), [&](const Value* input) {
      return input->producer != nullptr && SameShape(input, value);
    });
    if (next == inputs.end()) return false;
    value = *next;
  }
  return false;
}

}  // namespace

Rewrite SinkReshapes(Node& node, PassContext& context) {
  if (!IsElementwise(node)) return NoMatch{};
  Value* const y = node.output();
  if (!y->fact.ranked()) return NoMatch{};
  const Node* view = nullptr;
  for (const Value* input : node.inputs) {
    // Next to a product already: of two, each would take the node to its own shape in turn.
    if (SameShape(input, y) && ComesFromProduct(input)) return NoMatch{};
  }
  for (const Value* input : node.inputs) {
    if (!IsFrom(input, core::reshape) || !SameShape(input, y)) continue;
    const Node& reshape = *input->producer;
    if (reshape.input(0)->fact.ranked() && ComesFromProduct(reshape.input(0))) {
      view = &reshape;
      break;
    }
  }
  if (view == nullptr) return NoMatch{};
  const int rank = view->input(0)->fact.rank();
  for (const Value* input : node.inputs) {
    const bool scalar = IsScalarConstant(input) && input->fact.rank() <= std::min(rank, 1);
    if (!scalar && !SameShape(input, y)) return CheckFailed{"another operand is broadcast"};
  }
  PatchMaker maker(context, node);
  const Val product = maker.Wrap(view->input(0));
  std::vector<Val> inputs;
  for (Value* input : node.inputs) {
    if (input == view->output()) {
      inputs.push_back(product);
    } else if (IsFrom(input, core::reshape) &&
               SameShape(input->producer->input(0), view->input(0))) {
      inputs.push_back(maker.Wrap(input->producer->input(0)));
    } else if (SameShape(input, y)) {
      inputs.push_back(Reshape(maker.Wrap(input), ShapeOf(product), true));
    } else {
      inputs.push_back(maker.Wrap(input));
    }
  }
  const Val result = maker.builder().Make(*node.op, inputs, node.attributes);
  return maker.Replace(
      node, {Reshape(result, maker.Wrap(view->input(1)), view->attributes.Int("allowzero"))});
}

}  // namespace sardonyx::passes
