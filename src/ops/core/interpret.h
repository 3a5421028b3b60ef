#pragma once
// The reference interpreter of Expression.

#include <span>

#include "base/expression.h"
#include "ir/tensor.h"

namespace sardonyx::core {

// Applies the expression to every element of `result`, whose dimensions the operands broadcast to
// and whose type is the expression's. Operands have the types the expression says.
void Interpret(const Expression& expression, std::span<const Tensor> operands, Tensor& result);

// Whether a function takes operands of this type: "exp" floats, "bitand" integers, ...
bool Accepts(Fn fn, DType operand);

}  // namespace sardonyx::core
