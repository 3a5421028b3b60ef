// Epilogues: the simple form recognised, the general one run row by row.
#include <algorithm>
#include <cassert>
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
  if (expression.inputs.empty() || expression.inputs[0] != DType::kFloat32 ||
      expression.ResultType() != DType::kFloat32) {
    return "the accumulated value and the result have to be float32";
  }
  inputs[0] = {TileAccess::kContiguous, false};
  for (size_t i = 1; i < expression.inputs.size(); ++i) {
    inputs[i] = ClassifyOperand(epilogue.operands[i - 1]);
  }
  return LowerToTiles(expression, inputs, program);
}

bool IsRounding(const Instruction& first, const Instruction& second) {
  return first.fn == Fn::kCast && second.fn == Fn::kCast && second.type == DType::kFloat32 &&
         (first.type == DType::kFloat16 || first.type == DType::kBFloat16);
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

// Additions, then an activation or none, then perhaps a constant scale and shift, then a rounding.
bool MatchActivation(const Expression& expression, SimpleEpilogue* simple) {
  TileGraph graph;
  if (!graph.Build(expression).empty()) return false;
  *simple = SimpleEpilogue();
  Activation& activation = simple->activation;
  int at = graph.result;
  const auto cast_to = [&](int node, DType type) {
    return graph.nodes[node].kind == TileGraph::Kind::kCast && graph.nodes[node].type == type;
  };
  for (const DType half : {DType::kFloat16, DType::kBFloat16}) {
    if (!cast_to(at, DType::kFloat32) || !cast_to(graph.nodes[at].args[0], half)) continue;
    activation.rounding = half;
    at = graph.nodes[graph.nodes[at].args[0]].args[0];
  }
  const auto is = [&](TileOpcode op) {
    const TileGraph::Node& node = graph.nodes[at];
    return node.kind == TileGraph::Kind::kOp && node.op == op && node.type == DType::kFloat32;
  };
  const auto constant = [&](int node, float* value) {
    if (graph.nodes[node].kind != TileGraph::Kind::kConstant) return false;
    *value = static_cast<float>(graph.nodes[node].value);
    return true;
  };
  // Descends through op(x, constant) in either order.
  const auto strip = [&](TileOpcode op, float* value) {
    if (!is(op)) return false;
    const auto& args = graph.nodes[at].args;
    const int other = constant(args[1], value) ? 0 : constant(args[0], value) ? 1 : -1;
    if (other < 0) return false;
    at = args[other];
    return true;
  };
  if (is(TileOpcode::kFma)) {
    const int addend = graph.nodes[at].args[2];
    if (!constant(addend, &activation.shift)) return false;
    const auto args = graph.nodes[at].args;
    const int other = constant(args[1], &activation.scale)   ? 0
                      : constant(args[0], &activation.scale) ? 1
                                                             : -1;
    if (other < 0) return false;
    at = args[other];
    activation.affine = true;
  } else {
    activation.affine = strip(TileOpcode::kAdd, &activation.shift);
    activation.affine |= strip(TileOpcode::kMul, &activation.scale);
  }
  activation.kind = is(TileOpcode::kClamp)       ? Kind::kClamp
                    : is(TileOpcode::kSwish)     ? Kind::kSwish
                    : is(TileOpcode::kHardSwish) ? Kind::kHardSwish
                    : is(TileOpcode::kSigmoid)   ? Kind::kSigmoid
                    : is(TileOpcode::kTanh)      ? Kind::kTanh
                    : is(TileOpcode::kGelu)      ? Kind::kGelu
                    : is(TileOpcode::kGeluTanh)  ? Kind::kGeluTanh
                    : activation.affine          ? Kind::kIdentity
                                                 : Kind::kNone;
  if (activation.kind == Kind::kNone) return false;
  if (activation.kind != Kind::kIdentity) {
    const TileGraph::Node& node = graph.nodes[at];
    for (int i = 1; i < node.arity; ++i) {
      if (!constant(node.args[i], &activation.p[i - 1])) return false;
    }
    at = node.args[0];
  }
  // The sum, last addend first.
  int addends[2] = {-1, -1};
  int added = 0;
  const auto input = [&](int index) {
    const TileGraph::Node& n = graph.nodes[index];
    return n.kind == TileGraph::Kind::kInput && n.type == DType::kFloat32 ? n.input : -1;
  };
  for (; input(at) != 0; ++added) {
    if (!is(TileOpcode::kAdd) || added == 2) return false;
    const auto& args = graph.nodes[at].args;
    const int other = input(args[0]) > 0 ? 0 : input(args[1]) > 0 ? 1 : -1;
    if (other < 0) return false;
    addends[added] = input(args[other]) - 1;
    at = args[1 - other];
  }
  for (int i = 0; i < added; ++i) simple->addend[i] = addends[added - 1 - i];
  return true;
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
  kernel->tile = kernel->program.TileElements();
}

void ApplyEpilogue(const EpilogueKernel& kernel, const Epilogue& epilogue, int64_t p, int64_t q,
                   int64_t row, int64_t column, int64_t rows, int64_t columns, float* c,
                   int64_t ldc) {
  const TileProgram& program = kernel.program;
  TileRunner runner(program, kernel.tile);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; j += kernel.tile) {
      const int64_t count = std::min(kernel.tile, columns - j);
      float* const values = c + i * ldc + j;
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
