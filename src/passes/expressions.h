#pragma once
// Building the expressions of fused nodes.

#include <vector>

#include "ir/graph.h"

namespace sardonyx::passes {

// Whether the value is a scalar, of any rank, that a constant of an expression can hold.
bool IsScalarConstant(const Value* value);

// An expression under construction over values of a graph: operands are registers by value, equal
// values share one, scalar constants become constants of the expression.
class ExpressionBuilder {
 public:
  // Instructions that a kernel takes, and operands besides.
  static constexpr int kMaxInstructions = 64;
  static constexpr int kMaxInputs = 12;

  // Scalar constants of a higher rank are operands like others: they add dimensions.
  explicit ExpressionBuilder(int max_scalar_rank) : max_scalar_rank_(max_scalar_rank) {}

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

  int max_scalar_rank_;
  std::vector<Register> registers_;
  std::vector<Value*> operands_;
  std::vector<Expression::Constant> constants_;
  std::vector<Line> code_;
};

// Whether an expression says what the node computes. (Casts that do not saturate have none.)
bool IsElementwise(const Node& node);
// The expression of such a node.
Expression ExpressionOf(const Node& node);

// Whether an elementwise node that reads the product's output may become an attribute of it
// (fuse_epilogues).
bool TakesEpilogue(const Node& product, const Node& next);

}  // namespace sardonyx::passes
