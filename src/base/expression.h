#pragma once
// A small program of scalar functions, applied to every element of broadcast operands: the meaning
// of a fused elementwise node and of the epilogue of a matmul or convolution. Graph passes build
// it, the reference interprets it an element at a time, kernels a tile at a time.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace sardonyx {

// name in text form, arity, result is bool
#define SARDONYX_SCALAR_FUNCTIONS(X)  \
  X(Abs, abs, 1, false)               \
  X(Neg, neg, 1, false)               \
  X(Sign, sign, 1, false)             \
  X(Floor, floor, 1, false)           \
  X(Ceil, ceil, 1, false)             \
  X(Round, round, 1, false)           \
  X(Sqrt, sqrt, 1, false)             \
  X(Reciprocal, reciprocal, 1, false) \
  X(Exp, exp, 1, false)               \
  X(Log, log, 1, false)               \
  X(Log1p, log1p, 1, false)           \
  X(Sin, sin, 1, false)               \
  X(Cos, cos, 1, false)               \
  X(Tan, tan, 1, false)               \
  X(Asin, asin, 1, false)             \
  X(Acos, acos, 1, false)             \
  X(Atan, atan, 1, false)             \
  X(Sinh, sinh, 1, false)             \
  X(Cosh, cosh, 1, false)             \
  X(Tanh, tanh, 1, false)             \
  X(Asinh, asinh, 1, false)           \
  X(Acosh, acosh, 1, false)           \
  X(Atanh, atanh, 1, false)           \
  X(Erf, erf, 1, false)               \
  X(Sigmoid, sigmoid, 1, false)       \
  X(Relu, relu, 1, false)             \
  X(Not, not, 1, false)               \
  X(BitNot, bitnot, 1, false)         \
  X(IsNaN, isnan, 1, true)            \
  X(IsInf, isinf, 1, true)            \
  X(Cast, cast, 1, false)             \
  X(Add, add, 2, false)               \
  X(Sub, sub, 2, false)               \
  X(Mul, mul, 2, false)               \
  X(Div, div, 2, false)               \
  X(Mod, mod, 2, false)               \
  X(FMod, fmod, 2, false)             \
  X(Pow, pow, 2, false)               \
  X(Min, min, 2, false)               \
  X(Max, max, 2, false)               \
  X(And, and, 2, false)               \
  X(Or, or, 2, false)                 \
  X(Xor, xor, 2, false)               \
  X(BitAnd, bitand, 2, false)         \
  X(BitOr, bitor, 2, false)           \
  X(BitXor, bitxor, 2, false)         \
  X(ShiftLeft, shl, 2, false)         \
  X(ShiftRight, shr, 2, false)        \
  X(Equal, eq, 2, true)               \
  X(Less, lt, 2, true)                \
  X(LessEqual, le, 2, true)           \
  X(Greater, gt, 2, true)             \
  X(GreaterEqual, ge, 2, true)        \
  X(Where, where, 3, false)

// Meanings that the name leaves open:
//   Round      half to even
//   Div        integers truncate towards zero; x / 0 is 0 for integers (no trap)
//   Mod        sign of the divisor (Python's %); FMod: sign of the dividend (C's fmod)
//   Min, Max   NaN if either operand is NaN
//   Sigmoid    1 / (1 + exp(-x))
//   Not, And, Or, Xor       on bool; Bit*: on integers
//   Where      where(condition: bool, a, b)
//   Cast       to the instruction's type: float to integer truncates, anything to bool is x != 0
enum class Fn : uint8_t {
#define SARDONYX_ENUM(name, text, arity, is_bool) k##name,
  SARDONYX_SCALAR_FUNCTIONS(SARDONYX_ENUM)
#undef SARDONYX_ENUM
};
#define SARDONYX_COUNT(name, text, arity, is_bool) +1
inline constexpr int kFnCount = 0 SARDONYX_SCALAR_FUNCTIONS(SARDONYX_COUNT);
#undef SARDONYX_COUNT

std::string_view Name(Fn fn);
int Arity(Fn fn);
bool ReturnsBool(Fn fn);
// False if no function has that name.
bool FnFromName(std::string_view name, Fn* fn);

// Operands of an instruction are register numbers: 0 .. inputs-1 are the inputs, then come the
// constants, then the results of the instructions in order.
struct Instruction {
  Fn fn;
  DType type;  // of the result
  uint8_t args[3] = {0, 0, 0};
  bool operator==(const Instruction&) const = default;
};

// A straight-line program. The result is the last instruction's, or input 0 if there is none.
struct Expression {
  std::vector<DType> inputs;  // type of each input
  struct Constant {
    DType type;
    double value;  // exact for every type but 64-bit integers beyond 2^53, which passes leave alone
    bool operator==(const Constant&) const = default;
  };
  std::vector<Constant> constants;
  std::vector<Instruction> code;

  int registers() const { return static_cast<int>(inputs.size() + constants.size() + code.size()); }
  DType RegisterType(int index) const;
  DType ResultType() const { return RegisterType(code.empty() ? 0 : registers() - 1); }
  bool operator==(const Expression&) const = default;

  // Text such as "(float, float; 2:float) mul(0,2):float add(3,1):float" and back.
  // Parse throws kInvalidArgument on malformed text, forward references and more than 255
  // registers.
  std::string Print() const;
  static Expression Parse(std::string_view text);
};

}  // namespace sardonyx
