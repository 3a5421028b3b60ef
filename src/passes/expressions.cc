#include "passes/expressions.h"

#include <cmath>

#include "ir/core_op.h"

namespace sardonyx::passes {

bool IsScalarConstant(const Value* value) {
  if (!value->is_constant() || value->fact.constant.size() != 1) return false;
  switch (value->fact.constant.dtype()) {
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kUInt8:
    case DType::kUInt16:
    case DType::kUInt32:
    case DType::kBool: return true;
    case DType::kInt64: {
      constexpr int64_t kExact = int64_t{1} << 53;  // a double holds these
      const int64_t number = ToInts(Aligned(value->fact.constant))[0];
      return number > -kExact && number < kExact;
    }
    default: return false;
  }
}

int ExpressionBuilder::Constant(DType type, double value) {
  for (size_t r = 0; r < registers_.size(); ++r) {
    if (registers_[r].kind != Kind::kConstant) continue;
    const Expression::Constant& constant = constants_[registers_[r].index];
    const bool same = constant.type == type && constant.value == value &&
                      std::signbit(constant.value) == std::signbit(value);
    if (same) return static_cast<int>(r);
  }
  registers_.push_back({Kind::kConstant, static_cast<int>(constants_.size()), type});
  constants_.push_back({type, value});
  return static_cast<int>(registers_.size()) - 1;
}

int ExpressionBuilder::Operand(Value* value) {
  if (IsScalarConstant(value) && value->fact.rank() <= max_scalar_rank_) {
    return Constant(value->fact.type.dtype, ToDoubles(Aligned(value->fact.constant))[0]);
  }
  for (size_t r = 0; r < registers_.size(); ++r) {
    if (registers_[r].kind == Kind::kOperand && operands_[registers_[r].index] == value) {
      return static_cast<int>(r);
    }
  }
  registers_.push_back(
      {Kind::kOperand, static_cast<int>(operands_.size()), value->fact.type.dtype});
  operands_.push_back(value);
  return static_cast<int>(registers_.size()) - 1;
}

int ExpressionBuilder::Append(const Expression& expression, const std::vector<int>& args) {
  std::vector<int> map = args;
  for (const Expression::Constant& constant : expression.constants) {
    map.push_back(Constant(constant.type, constant.value));
  }
  for (const Instruction& instruction : expression.code) {
    Line line{instruction.fn, instruction.type, {}};
    for (int i = 0; i < Arity(instruction.fn); ++i) line.args.push_back(map[instruction.args[i]]);
    registers_.push_back({Kind::kInstruction, static_cast<int>(code_.size()), line.type});
    code_.push_back(std::move(line));
    map.push_back(static_cast<int>(registers_.size()) - 1);
  }
  return map.back();
}

Expression ExpressionBuilder::Finish() const {
  Expression expression;
  for (const Value* operand : operands_) expression.inputs.push_back(operand->fact.type.dtype);
  expression.constants = constants_;
  auto place = [&](int r) {
    const Register& reg = registers_[r];
    const size_t base = reg.kind == Kind::kOperand    ? 0
                        : reg.kind == Kind::kConstant ? operands_.size()
                                                      : operands_.size() + constants_.size();
    return static_cast<uint8_t>(base + static_cast<size_t>(reg.index));
  };
  for (const Line& line : code_) {
    Instruction instruction{line.fn, line.type};
    for (size_t i = 0; i < line.args.size(); ++i) instruction.args[i] = place(line.args[i]);
    expression.code.push_back(instruction);
  }
  return expression;
}

bool IsElementwise(const Node& node) {
  return node.op->expression != nullptr && node.outputs.size() == 1 &&
         ExpressionOf(node).inputs.size() == node.inputs.size();
}

Expression ExpressionOf(const Node& node) {
  std::vector<DType> types;
  for (const Value* input : node.inputs) types.push_back(input->fact.type.dtype);
  return node.op->expression(node, types);
}

}  // namespace sardonyx::passes
