#include "devices/cpu/int8_rescale.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

namespace sardonyx::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

using Column = std::span<const float>;  // one element, or one a column
constexpr float kOne[] = {1}, kZero[] = {0};

// Where columns are put, one behind the other.
class Columns {
 public:
  explicit Columns(std::span<float> memory) : memory_(memory) {}

  size_t used() const { return used_; }
  std::span<float> Take(size_t count) {
    used_ += count;
    return memory_.subspan(used_ - count, count);
  }
  template <typename Combine>
  Column Combined(Column a, Column b, Combine&& combine) {
    const std::span<float> result = Take(std::max(a.size(), b.size()));
    const size_t a_step = a.size() > 1, b_step = b.size() > 1;
    for (size_t i = 0; i < result.size(); ++i) result[i] = combine(a[i * a_step], b[i * b_step]);
    return result;
  }

 private:
  std::span<float> memory_;
  size_t used_ = 0;
};

// A value that follows from the sum: in the order of Int8Rescale, as far as it has come.
struct Linear {
  Column scale = kOne, offset = kZero;
  bool rounds = false;
  float round_low = -kInfinity, round_high = kInfinity, again = 1, again_offset = 0;
  int residual = -1;
  float residual_scale = 1;
  float low = -kInfinity, high = kInfinity;  // after all the above
  bool finished = false;                     // rounded for the last time, then shifted
  float zero = 0;

  bool clamps() const { return low > -kInfinity || high < kInfinity; }
};

struct Register {
  enum class Kind : uint8_t { kColumn, kSum, kResidual } kind = Kind::kColumn;
  Column column;
  Linear sum;
  int residual = -1;  // residual * scale + offset
  float scale = 1, offset = 0;
};

float Apply(Fn fn, float a, float b) {
  switch (fn) {
    case Fn::kAdd: return a + b;
    case Fn::kSub: return a - b;
    case Fn::kMul: return a * b;
    case Fn::kDiv: return a / b;
    case Fn::kMin: return std::min(a, b);
    case Fn::kMax: return std::max(a, b);
    default: return 0;
  }
}

// Clips behind a rounding to integers may as well come before it.
bool ClampBeforeRounding(Linear& v) {
  if (!v.clamps()) return true;
  if (!v.rounds || v.finished || v.residual >= 0 || v.again != 1) return false;
  const float low = v.low - v.again_offset, high = v.high - v.again_offset;
  const auto whole = [](float bound) { return std::isinf(bound) || bound == std::rint(bound); };
  if (!whole(low) || !whole(high)) return false;
  v.round_low = std::clamp(v.round_low, low, high);
  v.round_high = std::clamp(v.round_high, low, high);
  v.low = -kInfinity;
  v.high = kInfinity;
  return true;
}

bool Multiply(Linear& v, Column factor, Columns& columns) {
  if (v.finished) return false;
  if (factor.size() > 1 && (v.rounds || v.residual >= 0 || v.clamps())) return false;
  ClampBeforeRounding(v);  // while the factor behind the rounding is 1
  const float f = factor[0];
  if (v.clamps()) {
    v.low = f == 0 ? 0 : v.low * f;
    v.high = f == 0 ? 0 : v.high * f;
    if (f < 0) std::swap(v.low, v.high);
  }
  v.residual_scale *= f;
  if (v.rounds) {
    v.again *= f;
    v.again_offset *= f;
  } else {
    v.scale = columns.Combined(v.scale, factor, std::multiplies<float>());
    v.offset = columns.Combined(v.offset, factor, std::multiplies<float>());
  }
  return true;
}

bool Shift(Linear& v, Column by, Columns& columns) {
  if (by.size() > 1 && (v.rounds || v.finished || v.clamps())) return false;
  v.low += by[0];
  v.high += by[0];
  if (v.finished) {
    v.zero += by[0];
  } else if (v.rounds) {
    v.again_offset += by[0];
  } else {
    v.offset = columns.Combined(v.offset, by, std::plus<float>());
  }
  return true;
}

bool AddResidual(Linear& v, const Register& r, Columns& columns) {
  if (v.residual >= 0 || v.finished || !ClampBeforeRounding(v) || v.clamps()) return false;
  v.residual = r.residual;
  v.residual_scale = r.scale;
  return Shift(v, std::span(&r.offset, 1), columns);
}

bool Round(Linear& v) {
  if (v.finished) return false;
  if (v.rounds || v.residual >= 0) {
    v.finished = true;
    return true;
  }
  v.rounds = true;
  v.round_low = v.low;
  v.round_high = v.high;
  v.low = -kInfinity;
  v.high = kInfinity;
  return true;
}

// To a byte: whole, and inside the range. Kernels add what is shifted at the end in int16.
bool ToByte(const Linear& v, DType type) {
  constexpr float kMostShift = 1 << 14;
  const float least = type == DType::kInt8 ? -128.0f : 0.0f;
  const float shift = v.finished ? v.zero : v.again_offset;
  const bool whole = v.finished || (v.rounds && v.again == 1 && v.residual < 0);
  return whole && shift == std::rint(shift) && std::abs(shift) <= kMostShift && v.low >= least &&
         v.high <= least + 255;
}

// A function of a sum or a residual and a column; `first`: the column is the left operand.
bool ApplyColumn(Fn fn, Register& r, Column by, bool first, Columns& columns) {
  if (first && (fn == Fn::kSub || fn == Fn::kDiv)) return false;
  switch (fn) {
    case Fn::kSub:
    case Fn::kAdd:
      if (fn == Fn::kSub) by = columns.Combined(kZero, by, std::minus<float>());
      if (r.kind == Register::Kind::kSum) return Shift(r.sum, by, columns);
      r.offset += by[0];
      return by.size() == 1;
    case Fn::kDiv:
    case Fn::kMul:
      if (fn == Fn::kDiv) by = columns.Combined(kOne, by, std::divides<float>());
      if (r.kind == Register::Kind::kSum) return Multiply(r.sum, by, columns);
      r.scale *= by[0];
      r.offset *= by[0];
      return by.size() == 1;
    case Fn::kMin:
    case Fn::kMax:
      if (r.kind != Register::Kind::kSum || by.size() > 1) return false;
      r.sum.low = Apply(fn, r.sum.low, by[0]);
      r.sum.high = Apply(fn, r.sum.high, by[0]);
      return true;
    default: return false;
  }
}

bool ApplyUnary(const Instruction& instruction, DType from, Register& r, Columns& columns) {
  if (instruction.fn == Fn::kCast) {
    const bool real = instruction.type == DType::kFloat32;
    const bool whole = instruction.type == DType::kInt32 && (IsByte(from) || from == DType::kInt32);
    switch (r.kind) {
      case Register::Kind::kColumn: return real || whole;
      case Register::Kind::kResidual: return (real && from != DType::kFloat64) || whole;
      case Register::Kind::kSum:
        if (IsByte(instruction.type)) {
          return from == DType::kFloat32 && ToByte(r.sum, instruction.type);
        }
        return real || whole;
    }
  }
  if (r.kind != Register::Kind::kSum) return false;
  if (instruction.fn == Fn::kRound) return Round(r.sum);
  return instruction.fn == Fn::kRelu && ApplyColumn(Fn::kMax, r, kZero, false, columns);
}

bool ApplyBinary(Fn fn, const Register& a, const Register& b, Register* result, Columns& columns) {
  using Kind = Register::Kind;
  if (a.kind == Kind::kColumn && b.kind == Kind::kColumn) {
    const bool known = fn == Fn::kAdd || fn == Fn::kSub || fn == Fn::kMul || fn == Fn::kDiv ||
                       fn == Fn::kMin || fn == Fn::kMax;
    result->column =
        columns.Combined(a.column, b.column, [fn](float x, float y) { return Apply(fn, x, y); });
    return known;
  }
  if (a.kind == Kind::kColumn || b.kind == Kind::kColumn) {
    const bool first = a.kind == Kind::kColumn;
    *result = first ? b : a;
    return ApplyColumn(fn, *result, first ? a.column : b.column, first, columns);
  }
  if (fn != Fn::kAdd || a.kind == b.kind) return false;
  *result = a.kind == Kind::kSum ? a : b;
  return AddResidual(result->sum, a.kind == Kind::kSum ? b : a, columns);
}

Column Read(const RescaleOperand& operand, const void* data, int64_t count, Columns& columns) {
  const std::span<float> column =
      columns.Take(operand.kind == RescaleOperand::Kind::kScalar ? 1 : static_cast<size_t>(count));
  if (data == nullptr) {
    std::fill(column.begin(), column.end(), 1.0f);
    return column;
  }
  const auto copy = [&](const auto* from) { std::copy_n(from, column.size(), column.data()); };
  switch (operand.type) {
    case DType::kInt32: copy(static_cast<const int32_t*>(data)); break;
    case DType::kInt8: copy(static_cast<const int8_t*>(data)); break;
    case DType::kUInt8: copy(static_cast<const uint8_t*>(data)); break;
    default: copy(static_cast<const float*>(data));
  }
  return column;
}

bool Takes(DType type) { return IsByte(type) || type == DType::kInt32 || type == DType::kFloat32; }

Rescaling Finish(Linear v, DType type, int64_t count, Columns& columns) {
  if (IsByte(type) && !v.finished) {  // the one rounding is that of the store
    v.zero = v.again_offset;
    v.low = std::max(v.low, v.round_low + v.zero);
    v.high = std::min(v.high, v.round_high + v.zero);
    v.rounds = false;
  }
  Rescaling result;
  Int8Rescale& rescale = result.rescale;
  const auto spread = [&](Column column) {
    const std::span<float> all = columns.Take(static_cast<size_t>(count + kInt8ColumnSlack));
    for (int64_t j = 0; j < count; ++j) {
      all[static_cast<size_t>(j)] = column[column.size() == 1 ? 0 : static_cast<size_t>(j)];
    }
    std::fill(all.begin() + count, all.end(), 0.0f);
    return all.data();
  };
  rescale.scale = spread(v.scale);
  rescale.offset = spread(v.offset);
  rescale.rounds = v.rounds;
  rescale.round_low = v.round_low;
  rescale.round_high = v.round_high;
  rescale.again = v.again;
  rescale.again_offset = v.again_offset;
  rescale.has_residual = v.residual >= 0;
  rescale.residual_scale = v.residual_scale;
  rescale.clamps = v.clamps();
  rescale.low = v.low - v.zero;
  rescale.high = v.high - v.zero;
  rescale.type = type;
  rescale.zero_point = static_cast<int32_t>(v.zero);
  result.residual = v.residual;
  result.used = columns.used();
  return result;
}

}  // namespace

size_t RescaleFloats(const Expression& expression, int64_t columns) {
  // A column for each register, two more of an instruction, and the two of the result.
  const size_t count = static_cast<size_t>(expression.registers()) + 2 * expression.code.size() + 2;
  return count * static_cast<size_t>(columns + kInt8ColumnSlack);
}

std::optional<Rescaling> AnalyseRescale(const Expression& expression, int64_t columns,
                                        std::span<const RescaleOperand> operands,
                                        const void* const* data, std::span<float> memory) {
  using Kind = Register::Kind;
  const DType type = expression.ResultType();
  if (!IsByte(type) && type != DType::kFloat32) return {};
  Columns made(memory);
  // Not all are cleared in every run: only those that are there.
  union Room {
    Room() {}
    std::array<Register, kMostRegisters> registers;
  } room;
  auto& registers = room.registers;
  size_t count = 0;
  Register sum;
  sum.kind = Kind::kSum;
  registers[count++] = sum;
  for (size_t i = 0; i < operands.size(); ++i) {
    Register r;
    if (!Takes(operands[i].type)) return {};
    if (operands[i].kind == RescaleOperand::Kind::kResidual) {
      if (operands[i].type == DType::kInt32) return {};
      r.kind = Kind::kResidual;
      r.residual = static_cast<int>(i);
    } else {
      r.column = Read(operands[i], data[i], columns, made);
    }
    registers[count++] = r;
  }
  for (const Expression::Constant& constant : expression.constants) {
    if (!Takes(constant.type)) return {};
    Register r;
    const std::span<float> value = made.Take(1);
    value[0] = static_cast<float>(constant.value);
    r.column = value;
    registers[count++] = r;
  }
  for (const Instruction& instruction : expression.code) {
    Register r;
    if (Arity(instruction.fn) == 1) {
      r = registers[instruction.args[0]];
      if (!ApplyUnary(instruction, expression.RegisterType(instruction.args[0]), r, made)) {
        return {};
      }
    } else if (Arity(instruction.fn) != 2 ||
               !ApplyBinary(instruction.fn, registers[instruction.args[0]],
                            registers[instruction.args[1]], &r, made)) {
      return {};
    }
    registers[count++] = r;
  }
  const Register& last = registers[count - 1];
  if (expression.code.empty() || last.kind != Kind::kSum) return {};
  if (type == DType::kFloat32 && last.sum.finished) return {};
  Rescaling result = Finish(last.sum, type, columns, made);
  if (result.residual >= 0) {
    result.rescale.residual_type = operands[static_cast<size_t>(result.residual)].type;
  }
  return result;
}

}  // namespace sardonyx::cpu
