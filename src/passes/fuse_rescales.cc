// p = integer_conv(x, w)
// y = cast(clip(round(div(mul(cast(p), s) + b, 0.1)) + 3))
//                      ->   y = integer_conv(x, w, , , s, b) {epilogue = ...}: uint8
//
// one node after the other, up to the bytes. Two such that are added, the chain in between being
// one node by then:
//
// y = fused(p, q) {dequantise both, add, quantise}   ->   y = integer_conv(x, w, , , ..., q)

#include <algorithm>

#include "passes/expressions.h"
#include "passes/passes.h"

namespace sardonyx::passes {
namespace {

constexpr size_t kOwnInputs = 4;

// Scales, shifts, clips and rounds: what a kernel does to sums while it has them in registers.
bool Rescales(Fn fn) {
  static constexpr Fn kFunctions[] = {Fn::kCast, Fn::kAdd, Fn::kSub,  Fn::kMul,  Fn::kDiv,
                                      Fn::kMin,  Fn::kMax, Fn::kRelu, Fn::kRound};
  return std::find(std::begin(kFunctions), std::end(kFunctions), fn) != std::end(kFunctions);
}

bool IsProduct(const Value* value) {
  return IsFrom(value, core::integer_conv) || IsFrom(value, core::integer_matmul);
}

// One element, or one for each index of the last axis of the output.
bool IsOfColumns(const Value* operand, const Value* output) {
  if (!operand->fact.ranked()) return false;
  const Dims& dims = *operand->fact.shape;
  for (size_t i = 0; i + 1 < dims.size(); ++i) {
    if (!(dims[i] == 1)) return false;
  }
  return dims.empty() || dims.back() == 1 || dims.back() == output->fact.shape->back();
}

// Floats that lie in memory anyway, in the shape of the product.
bool IsResidual(const Value* operand, const Value* output) {
  return operand->fact.type.dtype == DType::kFloat32 && SameShape(operand, output) &&
         (operand->producer == nullptr || operand->producer->op->expression == nullptr);
}

bool HasResidual(const Node& product) {
  for (size_t i = kOwnInputs; i < product.inputs.size(); ++i) {
    if (!IsOfColumns(product.inputs[i], product.output())) return true;
  }
  return false;
}

}  // namespace

Rewrite FuseRescales(Node& node, PassContext& context) {
  Fn fn;
  if (!core::IsElementwise(*node.op, &fn) || !IsElementwise(node)) return NoMatch{};
  const auto found = std::find_if(node.inputs.begin(), node.inputs.end(), IsProduct);
  if (found == node.inputs.end()) return NoMatch{};
  Value* product = *found;
  // Bytes are a result: they are read by what comes next.
  if (IsByte(product->fact.type.dtype)) return NoMatch{};
  if (!Rescales(fn)) return CheckFailed{"no scaling, clipping or rounding"};
  const DType type = node.output()->fact.type.dtype;
  if (type != DType::kInt32 && type != DType::kFloat32 && !IsByte(type)) return NoMatch{};
  if (!product->fact.ranked() || !SameShape(product, node.output())) {
    return CheckFailed{"the product is broadcast"};
  }
  if (!HasOneUser(context.graph, product)) return CheckFailed{"the product is also used otherwise"};
  for (const Value* operand : node.inputs) {
    if (operand == product || IsOfColumns(operand, node.output())) continue;
    const bool takes =
        fn == Fn::kAdd && IsResidual(operand, node.output()) && !HasResidual(*product->producer);
    if (!takes) return CheckFailed{"an operand is neither one number a column nor a residual"};
  }
  return AbsorbElementwise(node, product, kOwnInputs, context);
}

Rewrite FuseQuantizedSums(Node& node, PassContext& context) {
  if (node.op != &core::fused || !IsByte(node.output()->fact.type.dtype)) return NoMatch{};
  const Expression expression = ExpressionOf(node);
  for (const Instruction& instruction : expression.code) {
    if (!Rescales(instruction.fn)) return NoMatch{};
  }
  Value* chosen = nullptr;
  int bytes = 0;
  for (Value* input : node.inputs) {
    if (IsByte(input->fact.type.dtype) && SameShape(input, node.output())) {
      ++bytes;
      const bool fits =
          IsProduct(input) && HasOneUser(context.graph, input) && !HasResidual(*input->producer);
      if (fits) chosen = input;
    } else if (!IsOfColumns(input, node.output())) {
      return NoMatch{};
    }
  }
  if (chosen == nullptr) return NoMatch{};
  if (bytes > 2) return CheckFailed{"a sum of more than two"};
  return AbsorbElementwise(node, chosen, kOwnInputs, context);
}

}  // namespace sardonyx::passes
