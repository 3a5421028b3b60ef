// Epilogues: the simple form recognised, the general one run row by row.
#include <algorithm>
#include <cassert>
#include <limits>
#include <span>

#include "base/dtype.h"
#include "kernels/elementwise.h"
#include "kernels/tile_graph.h"
#include "kernels/tile_ops.h"
#include "kernels/tile_runner.h"

namespace sardonyx {
namespace {

TileInput ClassifyOperand(const EpilogueOperand& operand) {
  const TileAccess access = operand.column_stride == 0   ? TileAccess::kUniform
                            : operand.column_stride == 1 ? TileAccess::kContiguous
                                                         : TileAccess::kExpanded;
  return {access, operand.column_stride == 0 && operand.row_stride == 0};
}

std::string_view Lower(const Epilogue& epilogue, TileProgram* program) {
  const Expression& expression = *epilogue.expression;
  TileInput inputs[TileProgram::kMaxInputs];
  if (expression.inputs.size() > TileProgram::kMaxInputs) return "there are too many operands";
  if (expression.inputs.empty() || expression.inputs[0] != expression.ResultType() ||
      (expression.inputs[0] != DType::kFloat32 && expression.inputs[0] != DType::kFloat64)) {
    return "the accumulated value and the result have to be both float32 or both float64";
  }
  inputs[0] = {TileAccess::kContiguous, false};
  for (size_t i = 1; i < expression.inputs.size(); ++i) {
    inputs[i] = ClassifyOperand(epilogue.operands[i - 1]);
  }
  return LowerToTiles(expression, inputs, program);
}

bool IsRounding(const Instruction& first, const Instruction& second) {
  return first.fn == Fn::kCast && second.fn == Fn::kCast && second.type == DType::kFloat32 &&
         IsHalf(first.type);
}

// Perhaps a rounding, additions, then a clamp, then a rounding.
bool MatchSumAndClamp(const Expression& expression, SimpleEpilogue* simple) {
  const int inputs = static_cast<int>(expression.inputs.size());
  const int first_result = inputs + static_cast<int>(expression.constants.size());
  for (const DType type : expression.inputs) {
    if (type != DType::kFloat32) return false;
  }
  const auto is_input = [&](int reg) { return reg > 0 && reg < inputs; };
  const auto is_constant = [&](int reg) { return reg >= inputs && reg < first_result; };
  *simple = SimpleEpilogue();
  int value = 0;  // register of the value so far; each instruction has to continue it
  int added = 0;
  int reg = first_result;
  std::span<const Instruction> code = expression.code;
  // The last of all may be a cast to a 16-bit type and back.
  if (code.size() >= 2 && IsRounding(code[code.size() - 2], code.back()) &&
      code.back().args[0] == expression.registers() - 2 &&
      code[code.size() - 2].args[0] == (code.size() == 2 ? 0 : expression.registers() - 3)) {
    simple->rounding = code[code.size() - 2].type;
    code = code.first(code.size() - 2);
  }
  if (code.size() >= 2 && IsRounding(code[0], code[1]) && code[0].args[0] == 0 &&
      code[1].args[0] == first_result) {
    simple->sum_rounding = code[0].type;
    value = first_result + 1;
    reg += 2;
    code = code.subspan(2);
  }
  for (const Instruction& instruction : code) {
    if (instruction.type != DType::kFloat32) return false;
    const int a = instruction.args[0];
    const int b = instruction.args[1];
    if (Arity(instruction.fn) == 2 && (a == value) == (b == value)) return false;
    const int other = a == value ? b : a;
    switch (instruction.fn) {
      case Fn::kAdd:
        if (simple->clamps || added == 2 || !is_input(other)) return false;
        simple->addend[added++] = other - 1;
        break;
      case Fn::kRelu:
        if (a != value || simple->hi < 0) return false;
        simple->clamps = true;
        simple->lo = std::max(simple->lo, 0.0f);
        break;
      case Fn::kMax:
      case Fn::kMin: {
        if (!is_constant(other)) return false;
        const float bound = static_cast<float>(expression.constants[other - inputs].value);
        // NaN bounds, and those that would leave nothing between them, are for the general form.
        if (instruction.fn == Fn::kMax && !(bound <= simple->hi)) return false;
        if (instruction.fn == Fn::kMin && !(bound >= simple->lo)) return false;
        simple->clamps = true;
        if (instruction.fn == Fn::kMax) simple->lo = std::max(simple->lo, bound);
        if (instruction.fn == Fn::kMin) simple->hi = std::min(simple->hi, bound);
        break;
      }
      default: return false;
    }
    value = reg++;
  }
  return true;
}

using Kind = Activation::Kind;

// Additions, then an activation or none, then perhaps a constant scale and shift, then a rounding
// or a further product and additions: matched from the result down.
class ActivationMatch {
 public:
  ActivationMatch(const TileGraph& graph, SimpleEpilogue* simple)
      : graph_(graph), simple_(*simple), activation_(simple->activation), at_(graph.result) {}

  bool Matches() {
    StripRounding();
    if (activation_.rounding == DType::kFloat32) StripBehind();
    return StripLine() && StripFunction() && IsSum();
  }

 private:
  using Node = TileGraph::Node;
  const Node& node(int index) const { return graph_.nodes[index]; }

  bool Is(TileOpcode op) const {
    const Node& at = node(at_);
    return at.kind == TileGraph::Kind::kOp && at.op == op && at.type == DType::kFloat32;
  }
  // Which input of float32 it is, -1 if none.
  int InputAt(int index) const {
    const Node& n = node(index);
    return n.kind == TileGraph::Kind::kInput && n.type == DType::kFloat32 ? n.input : -1;
  }
  bool IsCast(int index, DType type) const {
    return node(index).kind == TileGraph::Kind::kCast && node(index).type == type;
  }
  bool IsConstant(int index, float* value) const {
    if (node(index).kind != TileGraph::Kind::kConstant) return false;
    *value = static_cast<float>(node(index).value);
    return true;
  }

  // Descends from op(x, constant, ...), in either order, to x.
  bool Strip(TileOpcode op, float* value) {
    if (!Is(op)) return false;
    const auto& args = node(at_).args;
    const int other = IsConstant(args[1], value) ? 0 : IsConstant(args[0], value) ? 1 : -1;
    if (other < 0) return false;
    at_ = args[other];
    return true;
  }

  void StripRounding() {
    for (const DType half : {DType::kFloat16, DType::kBFloat16}) {
      if (!IsCast(at_, DType::kFloat32) || !IsCast(node(at_).args[0], half)) continue;
      activation_.rounding = half;
      at_ = node(node(at_).args[0]).args[0];
    }
  }

  // Descends from op(x, operand, ...), in either order, to x, the result of an operation that is
  // not a sum; returns the operand, -1 if it is not there.
  int StripOperand(TileOpcode op) {
    if (!Is(op)) return -1;
    const auto& args = node(at_).args;
    for (const int i : {0, 1}) {
      const Node& other = node(args[1 - i]);
      if (InputAt(args[i]) <= 0 || other.kind != TileGraph::Kind::kOp) continue;
      if (other.op == TileOpcode::kAdd) continue;
      at_ = args[1 - i];
      return InputAt(args[i]) - 1;
    }
    return -1;
  }

  // Operands by which the result of an operation is multiplied and which are added to it.
  void StripBehind() {
    int* last = simple_.last;
    if (Is(TileOpcode::kAdd)) *last = StripOperand(TileOpcode::kAdd);
    if (*last >= 0) ++last;
    if (Is(TileOpcode::kFma) && InputAt(node(at_).args[2]) > 0) {
      *last = InputAt(node(at_).args[2]) - 1;
      simple_.scale = StripOperand(TileOpcode::kFma);
      if (simple_.scale < 0) *last = -1;
    } else {
      simple_.scale = StripOperand(TileOpcode::kMul);
    }
  }

  bool StripLine() {
    if (Is(TileOpcode::kFma)) {
      activation_.affine = true;
      return IsConstant(node(at_).args[2], &activation_.shift) &&
             Strip(TileOpcode::kFma, &activation_.scale);
    }
    activation_.affine = Strip(TileOpcode::kAdd, &activation_.shift);
    activation_.affine |= Strip(TileOpcode::kMul, &activation_.scale);
    return true;
  }

  bool StripFunction() {
    if (Is(TileOpcode::kAddRelu)) {
      activation_.kind = Kind::kClamp;
      activation_.p[1] = std::numeric_limits<float>::infinity();
      is_bounded_sum_ = true;
      return true;
    }
    activation_.kind = Is(TileOpcode::kClamp)       ? Kind::kClamp
                       : Is(TileOpcode::kSwish)     ? Kind::kSwish
                       : Is(TileOpcode::kHardSwish) ? Kind::kHardSwish
                       : Is(TileOpcode::kSigmoid)   ? Kind::kSigmoid
                       : Is(TileOpcode::kTanh)      ? Kind::kTanh
                       : Is(TileOpcode::kGelu)      ? Kind::kGelu
                       : Is(TileOpcode::kGeluTanh)  ? Kind::kGeluTanh
                       : Is(TileOpcode::kLeakyRelu) ? Kind::kLeakyRelu
                       : Is(TileOpcode::kSoftplus)  ? Kind::kSoftplus
                       : Is(TileOpcode::kMish)      ? Kind::kMish
                       : Is(TileOpcode::kElu)       ? Kind::kElu
                       : activation_.affine         ? Kind::kIdentity
                                                    : Kind::kNone;
    if (activation_.kind == Kind::kNone || activation_.kind == Kind::kIdentity) {
      return activation_.affine;
    }
    const Node& function = node(at_);
    for (int i = 1; i < function.arity; ++i) {
      if (!IsConstant(function.args[i], &activation_.p[i - 1])) return false;
    }
    at_ = function.args[0];
    return true;
  }

  // The accumulated value and what is added to it, last addend first.
  bool IsSum() {
    int addends[2] = {-1, -1};
    int added = 0;
    for (; InputAt(at_) != 0; ++added) {
      const bool is_bounded = added == 0 && is_bounded_sum_;
      if (!Is(is_bounded ? TileOpcode::kAddRelu : TileOpcode::kAdd) || added == 2) return false;
      const auto& args = node(at_).args;
      const int other = InputAt(args[0]) > 0 ? 0 : InputAt(args[1]) > 0 ? 1 : -1;
      if (other < 0) return false;
      addends[added] = InputAt(args[other]) - 1;
      at_ = args[1 - other];
    }
    for (int i = 0; i < added; ++i) simple_.addend[i] = addends[added - 1 - i];
    return true;
  }

  const TileGraph& graph_;
  SimpleEpilogue& simple_;
  Activation& activation_;
  int at_;                       // the node that is looked at
  bool is_bounded_sum_ = false;  // its bound is the activation
};

bool MatchActivation(const Expression& expression, SimpleEpilogue* simple) {
  TileGraph graph;
  if (!graph.Build(expression).empty()) return false;
  *simple = SimpleEpilogue();
  return ActivationMatch(graph, simple).Matches();
}

}  // namespace

bool MatchSimpleEpilogue(const Expression& expression, SimpleEpilogue* simple) {
  return MatchSumAndClamp(expression, simple) || MatchActivation(expression, simple);
}

bool CanPrepareEpilogue(const Epilogue& epilogue, std::string* why) {
  TileProgram program;
  const std::string_view refusal = Lower(epilogue, &program);
  if (!refusal.empty() && why != nullptr) *why = refusal;
  return refusal.empty();
}

void PrepareEpilogue(const Epilogue& epilogue, EpilogueKernel* kernel) {
  [[maybe_unused]] const std::string_view refusal = Lower(epilogue, &kernel->program);
  assert(refusal.empty());
  kernel->type = epilogue.expression->ResultType();
  kernel->tile = kernel->program.TileElements();
}

void ApplyEpilogue(const EpilogueKernel& kernel, const Epilogue& epilogue, int64_t p, int64_t q,
                   int64_t row, int64_t column, int64_t rows, int64_t columns, void* c,
                   int64_t ldc) {
  const TileProgram& program = kernel.program;
  const int64_t value_bytes = BitWidth(kernel.type) / 8;
  TileRunner runner(program, kernel.tile);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; j += kernel.tile) {
      const int64_t count = std::min(kernel.tile, columns - j);
      std::byte* const values = static_cast<std::byte*>(c) + (i * ldc + j) * value_bytes;
      runner.SetInput(0, values);
      runner.SetOutput(values);
      for (int k = 1; k < program.inputs; ++k) {
        const EpilogueOperand& operand = epilogue.operands[k - 1];
        const int64_t offset = p * operand.batch_stride[0] + q * operand.batch_stride[1] +
                               (row + i) * operand.row_stride +
                               (column + j) * operand.column_stride;
        runner.SetInput(
            k, static_cast<const std::byte*>(operand.data) + offset * (BitWidth(operand.type) / 8));
      }
      for (const TileProgram::Expansion& expansion : program.expansions) {
        const int64_t stride = epilogue.operands[expansion.input - 1].column_stride;
        ExpandTile(runner.PlacePointer(1 + expansion.input), &count, &stride, 1,
                   expansion.element_bytes, runner.PlacePointer(expansion.place));
      }
      runner.Run(count, kernel.tile);
    }
  }
}

}  // namespace sardonyx
