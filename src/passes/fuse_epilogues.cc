// c = conv(x, w)
// y = fused(c, b, r) {expression = add(0,1), add(3,2), relu(4)}
//                          ->   y = conv(x, w, b, r) {epilogue = add(0,1), add(3,2), relu(4)}

#include <algorithm>

#include "passes/expressions.h"
#include "passes/passes.h"

namespace sardonyx::passes {
namespace {

bool IsProduct(const Node& node) {
  return node.op == &core::conv || node.op == &core::conv_transpose || node.op == &core::matmul;
}

bool HasEpilogue(const Value* product) {
  return product->producer->attributes.Expr("epilogue") != nullptr;
}

// The product that is to take the node in. Nothing but the node uses it, so no other operand can
// depend on it. Of several the one whose epilogue stays short.
Value* ChooseProduct(const Node& node, const Graph& graph, std::string* why) {
  Value* chosen = nullptr;
  for (Value* input : node.inputs) {
    if (input->producer == nullptr || !IsProduct(*input->producer)) continue;
    if (!TakesEpilogue(*input->producer, node)) {
      *why = "the product or what follows is of another type";
    } else if (!SameShape(input, node.output())) {
      *why = "the product is broadcast";
    } else if (!HasOneUser(graph, input)) {
      *why = "the product is also used otherwise";
    } else if (chosen == nullptr || HasEpilogue(chosen) || !HasEpilogue(input)) {
      chosen = input;
    }
  }
  return chosen;
}

}  // namespace

bool TakesEpilogue(const Node& product, const Node& next) {
  const auto is_double = [](const Node& node) {
    return node.output()->fact.type.dtype == DType::kFloat64;
  };
  if (product.op == &core::matmul && is_double(product)) return is_double(next);
  return IsProduct(product) && IsComputedAsFloat32(product.output()) &&
         IsComputedAsFloat32(next.output());
}

Rewrite FuseEpilogues(Node& node, PassContext& context) {
  if (!IsElementwise(node)) return NoMatch{};
  for (const Value* input : node.inputs) {
    if (!input->fact.type.is_tensor() || !input->fact.ranked()) return NoMatch{};
  }
  std::string why;
  Value* product = ChooseProduct(node, context.graph, &why);
  if (product == nullptr) {
    if (why.empty()) return NoMatch{};
    return CheckFailed{why};
  }
  return AbsorbElementwise(node, product, 2, context);
}

Rewrite AbsorbElementwise(const Node& node, Value* product, size_t own_inputs,
                          PassContext& context) {
  const Node& source = *product->producer;
  ExpressionBuilder builder(node.output()->fact.rank());
  // Input 0 is the product itself.
  int result = builder.Operand(product);
  const Expression* const before = source.attributes.Expr("epilogue");
  if (before != nullptr) {
    std::vector<int> args = {result};
    for (size_t i = own_inputs; i < source.inputs.size(); ++i) {
      args.push_back(builder.Operand(source.inputs[i]));
    }
    result = builder.Append(*before, args);
  }
  std::vector<int> args;
  for (Value* input : node.inputs) {
    args.push_back(input == product ? result : builder.Operand(input));
  }
  builder.Append(ExpressionOf(node), args);
  if (builder.instructions() > ExpressionBuilder::kMaxInstructions ||
      static_cast<int>(builder.operands().size()) > ExpressionBuilder::kMaxInputs) {
    return CheckFailed{"the epilogue would be too long"};
  }
  PatchMaker maker(context, node);
  std::vector<Val> inputs;
  for (size_t i = 0; i < own_inputs; ++i) inputs.push_back(maker.Wrap(source.input(i)));
  for (size_t i = 1; i < builder.operands().size(); ++i) {
    inputs.push_back(maker.Wrap(builder.operands()[i]));
  }
  Attributes attributes = source.attributes;
  Expression epilogue = builder.Finish();
  // The epilogue so far may have changed the type of the product.
  if (before != nullptr) epilogue.inputs[0] = before->inputs[0];
  attributes.Set("epilogue", std::move(epilogue));
  // The heavy part names the step.
  maker.builder().SetOrigin(source.origin);
  return maker.Replace(node, {maker.builder().Make(*source.op, inputs, std::move(attributes))});
}

}  // namespace sardonyx::passes
