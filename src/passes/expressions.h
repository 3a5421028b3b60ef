#pragma once
// Building the expressions of fused nodes.

#include <vector>

#include "ir/graph.h"

namespace sardonyx::passes {

// An expression under construction over values of a graph: operands are registers by value, equal
// values share one, scalar constants become constants of the expression.
class ExpressionBuilder {
 public:
  // Instructions that a kernel takes, and operands besides.
  static constexpr int kMaxInstructions = 64;
  static constexpr int kMaxInputs = 12;

  // Makes the value an operand and returns its register.
  int Operand(Value* value);
  // Adds the instructions of an elementwise node, whose input i is the register args[i]; returns
  // the register of its result.
  int Append(const Expression& expression, const std::vector<int>& args);

  const std::vector<Value*>& operands() const { return operands_; }
  int instructions() const { return static_cast<int>(code_.size()); }
  // The expression; its inputs are operands() in order.
  Expression Finish() const;

 private:
  enum class Kind : uint8_t { kOperand, kConstant, kInstruction };
  struct Register {
    Kind kind;
    int index;
    DType type;
  };
  struct Line {
    Fn fn;
    DType type;
    std::vector<int> args;  // registers
  };
  int Constant(DType type, double value);

  std::vector<Register> registers_;
  std::vector<Value*> operands_;
  std::vector<Expression::Constant> constants_;
  std::vector<Line> code_;
};

// The expression of an elementwise or fused node.
Expression ExpressionOf(const Node& node);

}  // namespace sardonyx::passes
