#pragma once
// A plain interpreter of Expressions, one element at a time, as the truth for tests: integers are
// exact, floating point is computed in double and not rounded on the way.

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/expression.h"

namespace sardonyx {

// Holds every int64, uint64 and double exactly (80-bit extended precision on x86; on machines where
// it is a double, 64-bit integers in tests have to stay below 2^53).
using Exact = long double;

inline Exact WrapTo(DType type, __int128 value) {
  Exact result = 0;
  DispatchReal(type, "test", [&]<typename Tag>(Tag) {
    using T = typename Tag::type;
    if constexpr (std::is_same_v<T, bool>) {
      result = value != 0;
    } else if constexpr (std::is_integral_v<T>) {
      result = static_cast<Exact>(static_cast<T>(static_cast<uint64_t>(value)));
    }
  });
  return result;
}

inline Exact RoundTo(DType type, Exact value) {
  switch (type) {
    case DType::kFloat16: return Half(static_cast<float>(value));
    case DType::kBFloat16: return BFloat16(static_cast<float>(value));
    case DType::kFloat32: return static_cast<float>(value);
    default: return static_cast<double>(value);
  }
}

inline Exact CastTo(DType type, Exact value, DType from) {
  if (IsFloat(type)) return RoundTo(type, value);
  if (type == DType::kBool) return value != 0;
  if (!IsFloat(from)) return WrapTo(type, static_cast<__int128>(value));
  return WrapTo(type, static_cast<__int128>(std::trunc(value)));  // tests stay within the range
}

inline Exact ApplyInteger(Fn fn, DType type, Exact x, Exact y) {
  const auto a = static_cast<__int128>(x);
  const auto b = static_cast<__int128>(y);
  const auto modulo = [&] { return b == 0 ? __int128{0} : a % b; };
  const int bits = BitWidth(type);
  switch (fn) {
    case Fn::kAbs: return WrapTo(type, a < 0 ? -a : a);
    case Fn::kNeg: return WrapTo(type, -a);
    case Fn::kSign: return (a > 0) - (a < 0);
    case Fn::kRelu: return a > 0 ? x : 0;
    case Fn::kFloor:
    case Fn::kCeil:
    case Fn::kRound: return x;
    case Fn::kBitNot: return WrapTo(type, ~a);
    case Fn::kAdd: return WrapTo(type, a + b);
    case Fn::kSub: return WrapTo(type, a - b);
    case Fn::kMul:
      return WrapTo(type,
                    static_cast<__int128>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)));
    case Fn::kDiv: return b == 0 ? 0 : WrapTo(type, a / b);
    case Fn::kFMod: return WrapTo(type, modulo());
    case Fn::kMod: {
      const __int128 r = modulo();
      return WrapTo(type, r != 0 && (r < 0) != (b < 0) ? r + b : r);
    }
    case Fn::kMin: return a < b ? x : y;
    case Fn::kMax: return a > b ? x : y;
    case Fn::kBitAnd: return WrapTo(type, a & b);
    case Fn::kBitOr: return WrapTo(type, a | b);
    case Fn::kBitXor: return WrapTo(type, a ^ b);
    case Fn::kShiftLeft:
      return b < 0 || b >= bits ? 0
                                : WrapTo(type, static_cast<__int128>(static_cast<uint64_t>(a)
                                                                     << static_cast<int>(b)));
    case Fn::kShiftRight: return b < 0 || b >= bits ? 0 : WrapTo(type, a >> static_cast<int>(b));
    default: ADD_FAILURE() << Name(fn) << " of " << Name(type); return 0;
  }
}

inline Exact ApplyFloat(Fn fn, Exact x, Exact y) {
  const double a = static_cast<double>(x);
  const double b = static_cast<double>(y);
  switch (fn) {
    case Fn::kAbs: return std::abs(a);
    case Fn::kNeg: return -a;
    case Fn::kSign: return a > 0 ? 1 : a < 0 ? -1 : a;
    case Fn::kFloor: return std::floor(a);
    case Fn::kCeil: return std::ceil(a);
    case Fn::kRound: return std::nearbyint(a);
    case Fn::kSqrt: return std::sqrt(a);
    case Fn::kReciprocal: return 1 / a;
    case Fn::kExp: return std::exp(a);
    case Fn::kLog: return std::log(a);
    case Fn::kLog1p: return std::log1p(a);
    case Fn::kSin: return std::sin(a);
    case Fn::kCos: return std::cos(a);
    case Fn::kTan: return std::tan(a);
    case Fn::kAsin: return std::asin(a);
    case Fn::kAcos: return std::acos(a);
    case Fn::kAtan: return std::atan(a);
    case Fn::kSinh: return std::sinh(a);
    case Fn::kCosh: return std::cosh(a);
    case Fn::kTanh: return std::tanh(a);
    case Fn::kAsinh: return std::asinh(a);
    case Fn::kAcosh: return std::acosh(a);
    case Fn::kAtanh: return std::atanh(a);
    case Fn::kErf: return std::erf(a);
    case Fn::kSigmoid: return 1 / (1 + std::exp(-a));
    case Fn::kRelu: return a > 0 || a != a ? a : 0;
    case Fn::kAdd: return a + b;
    case Fn::kSub: return a - b;
    case Fn::kMul: return a * b;
    case Fn::kDiv: return a / b;
    case Fn::kFMod: return std::fmod(a, b);
    case Fn::kMod: {
      const double r = std::fmod(a, b);
      if (r == 0) return std::copysign(r, b);
      return (r < 0) != (b < 0) ? r + b : r;
    }
    case Fn::kPow: return std::pow(a, b);
    case Fn::kMin: return a != a || a < b ? a : b;
    case Fn::kMax: return a != a || a > b ? a : b;
    default: ADD_FAILURE() << Name(fn) << " of a float"; return 0;
  }
}

// *rounds is set if a float32 value on the way is not exact.
inline Exact Interpret(const Expression& expression, const std::vector<Exact>& inputs,
                       bool* rounds = nullptr) {
  std::vector<Exact> reg(inputs);
  for (const auto& constant : expression.constants) reg.push_back(constant.value);
  for (const Instruction& instruction : expression.code) {
    const DType operands = expression.RegisterType(instruction.args[0]);
    const Exact a = reg[instruction.args[0]];
    const Exact b = Arity(instruction.fn) > 1 ? reg[instruction.args[1]] : 0;
    Exact value = 0;
    switch (instruction.fn) {
      case Fn::kCast: value = CastTo(instruction.type, a, operands); break;
      case Fn::kWhere: value = a != 0 ? b : reg[instruction.args[2]]; break;
      case Fn::kEqual: value = a == b; break;
      case Fn::kLess: value = a < b; break;
      case Fn::kLessEqual: value = a <= b; break;
      case Fn::kGreater: value = a > b; break;
      case Fn::kGreaterEqual: value = a >= b; break;
      case Fn::kIsNaN: value = std::isnan(a); break;
      case Fn::kIsInf: value = std::isinf(a); break;
      case Fn::kNot: value = a == 0; break;
      case Fn::kAnd: value = a != 0 && b != 0; break;
      case Fn::kOr: value = a != 0 || b != 0; break;
      case Fn::kXor: value = (a != 0) != (b != 0); break;
      default:
        value = IsFloat(instruction.type) ? ApplyFloat(instruction.fn, a, b)
                                          : ApplyInteger(instruction.fn, instruction.type, a, b);
    }
    if (rounds != nullptr && IsFloat(instruction.type)) {
      *rounds |= std::isfinite(value) && value != static_cast<float>(value);
      *rounds |= instruction.fn == Fn::kDiv && b == 0;  // the sign of a zero is left open
    }
    reg.push_back(value);
  }
  return expression.code.empty() ? reg[0] : reg.back();
}

inline Exact ReadElement(DType type, const void* data, int64_t i) {
  Exact value = 0;
  DispatchReal(type, "test", [&]<typename Tag>(Tag) {
    using T = typename Tag::type;
    value = static_cast<ComputeType<T>>(static_cast<const T*>(data)[i]);
  });
  return value;
}

inline void WriteElement(DType type, void* data, int64_t i, Exact value) {
  DispatchReal(type, "test", [&]<typename Tag>(Tag) {
    using T = typename Tag::type;
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      static_cast<T*>(data)[i] = T(static_cast<float>(value));
    } else {
      static_cast<T*>(data)[i] = static_cast<T>(value);
    }
  });
}

}  // namespace sardonyx
