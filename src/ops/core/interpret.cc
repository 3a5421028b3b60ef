#include "ops/core/interpret.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/round.h"
#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

// Elements a register holds at a time: a multiple of 4, so that packed formats fill whole bytes.
constexpr int64_t kBlock = 256;

template <typename T, typename F>
void Map(const T* a, T* y, int64_t n, F f) {
  using C = ComputeType<T>;
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(f(static_cast<C>(a[i])));
}

template <typename T, typename R, typename F>
void Zip(const T* a, const T* b, R* y, int64_t n, F f) {
  using C = ComputeType<T>;
  for (int64_t i = 0; i < n; ++i) {
    y[i] = static_cast<R>(f(static_cast<C>(a[i]), static_cast<C>(b[i])));
  }
}

[[noreturn]] void Refuse(Fn fn, DType type) {
  Fail(ErrorCode::kUnsupported, "{}: element type {} is not supported", Name(fn), Name(type));
}

template <typename C>
C RoundHalfToEven(C x) {
  const C floor = std::floor(x), rest = x - floor;
  if (rest != C{0.5}) return rest < C{0.5} ? floor : std::copysign(std::ceil(x), x);
  return std::copysign(std::fmod(floor, C{2}) == 0 ? floor : floor + 1, x);
}

// Floats alone.
template <typename T>
bool RealUnary(Fn fn, const T* a, T* y, int64_t n) {
  using C = ComputeType<T>;
#define SARDONYX_MAP(name, formula) \
  case Fn::name: Map(a, y, n, [](C x) { return formula; }); return true;
  switch (fn) {
    SARDONYX_MAP(kFloor, std::floor(x))
    SARDONYX_MAP(kCeil, std::ceil(x))
    SARDONYX_MAP(kRound, RoundHalfToEven(x))
    SARDONYX_MAP(kSqrt, std::sqrt(x))
    SARDONYX_MAP(kReciprocal, C{1} / x)
    SARDONYX_MAP(kExp, std::exp(x))
    SARDONYX_MAP(kLog, std::log(x))
    SARDONYX_MAP(kLog1p, std::log1p(x))
    SARDONYX_MAP(kSin, std::sin(x))
    SARDONYX_MAP(kCos, std::cos(x))
    SARDONYX_MAP(kTan, std::tan(x))
    SARDONYX_MAP(kAsin, std::asin(x))
    SARDONYX_MAP(kAcos, std::acos(x))
    SARDONYX_MAP(kAtan, std::atan(x))
    SARDONYX_MAP(kSinh, std::sinh(x))
    SARDONYX_MAP(kCosh, std::cosh(x))
    SARDONYX_MAP(kTanh, std::tanh(x))
    SARDONYX_MAP(kAsinh, std::asinh(x))
    SARDONYX_MAP(kAcosh, std::acosh(x))
    SARDONYX_MAP(kAtanh, std::atanh(x))
    SARDONYX_MAP(kErf, std::erf(x))
    SARDONYX_MAP(kSigmoid, C{1} / (C{1} + std::exp(-x)))
    SARDONYX_MAP(kAbs, std::abs(x))
    SARDONYX_MAP(kNeg, -x)
    SARDONYX_MAP(kSign, std::isnan(x) ? x : static_cast<C>((x > 0) - (x < 0)))
    // NaN stays NaN.
    SARDONYX_MAP(kRelu, x < 0 ? C{0} : x)
    default: return false;
  }
#undef SARDONYX_MAP
}

// Integers wrap around: computed without sign.
template <typename T>
bool IntegerUnary(Fn fn, const T* a, T* y, int64_t n) {
  switch (fn) {
    case Fn::kAbs:
      Map(a, y, n, [](T x) { return x < T{0} ? uint64_t{0} - static_cast<uint64_t>(x) : x; });
      return true;
    case Fn::kNeg:
      Map(a, y, n, [](T x) { return uint64_t{0} - static_cast<uint64_t>(x); });
      return true;
    case Fn::kSign: Map(a, y, n, [](T x) { return (x > T{0}) - (x < T{0}); }); return true;
    case Fn::kRelu: Map(a, y, n, [](T x) { return x < T{0} ? T{0} : x; }); return true;
    case Fn::kBitNot: Map(a, y, n, [](T x) { return ~x; }); return true;
    default: return false;
  }
}

void Unary(Fn fn, const Tensor& a, Tensor& y, int64_t n) {
  if (fn == Fn::kIsNaN || fn == Fn::kIsInf) {
    std::vector<double> values(n);
    ConvertElements(a.dtype(), a.raw(), DType::kFloat64, values.data(), n, false);
    for (int64_t i = 0; i < n; ++i) {
      y.data<bool>()[i] = fn == Fn::kIsNaN ? std::isnan(values[i]) : std::isinf(values[i]);
    }
    return;
  }
  DispatchReal(a.dtype(), Name(fn), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* in = a.data<T>();
    T* out = y.data<T>();
    bool known = false;
    if constexpr (std::is_same_v<T, bool>) {
      known = fn == Fn::kNot;
      for (int64_t i = 0; known && i < n; ++i) out[i] = !in[i];
    } else if constexpr (std::is_integral_v<T>) {
      known = IntegerUnary(fn, in, out, n);
    } else {
      known = RealUnary(fn, in, out, n);
    }
    if (!known) Refuse(fn, a.dtype());
  });
}

template <typename C>
C FloorMod(C a, C b) {
  const C rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

template <typename T>
bool RealBinary(Fn fn, const T* a, const T* b, T* y, int64_t n) {
  using C = ComputeType<T>;
#define SARDONYX_ZIP(name, formula) \
  case Fn::name: Zip(a, b, y, n, [](C p, C q) { return formula; }); return true;
  switch (fn) {
    SARDONYX_ZIP(kAdd, p + q)
    SARDONYX_ZIP(kSub, p - q)
    SARDONYX_ZIP(kMul, p * q)
    SARDONYX_ZIP(kDiv, p / q)
    SARDONYX_ZIP(kMod, FloorMod(p, q))
    SARDONYX_ZIP(kFMod, std::fmod(p, q))
    SARDONYX_ZIP(kMin, std::isnan(p) || p < q ? p : q)
    SARDONYX_ZIP(kMax, std::isnan(p) || p > q ? p : q)
    default: return false;
  }
#undef SARDONYX_ZIP
}

template <typename T>
T IntegerDivide(T a, T b) {
  if (b == 0) return 0;
  // The one quotient that overflows: the least integer by -1.
  if (std::is_signed_v<T> && b == static_cast<T>(-1))
    return static_cast<T>(0 - static_cast<uint64_t>(a));
  return static_cast<T>(a / b);
}

template <typename T>
T IntegerRemainder(T a, T b) {
  if (b == 0 || (std::is_signed_v<T> && b == static_cast<T>(-1))) return 0;
  return static_cast<T>(a % b);
}

template <typename T>
T IntegerFloorMod(T a, T b) {
  const T rest = IntegerRemainder(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
}

template <typename T>
bool IntegerBinary(Fn fn, const T* a, const T* b, T* y, int64_t n) {
  using U = uint64_t;
  constexpr T kWidth = static_cast<T>(std::numeric_limits<std::make_unsigned_t<T>>::digits);
#define SARDONYX_ZIP(name, formula) \
  case Fn::name: Zip(a, b, y, n, [](T p, T q) { return formula; }); return true;
  switch (fn) {
    SARDONYX_ZIP(kAdd, static_cast<U>(p) + static_cast<U>(q))
    SARDONYX_ZIP(kSub, static_cast<U>(p) - static_cast<U>(q))
    SARDONYX_ZIP(kMul, static_cast<U>(p) * static_cast<U>(q))
    SARDONYX_ZIP(kDiv, IntegerDivide(p, q))
    SARDONYX_ZIP(kMod, IntegerFloorMod(p, q))
    SARDONYX_ZIP(kFMod, IntegerRemainder(p, q))
    SARDONYX_ZIP(kMin, std::min(p, q))
    SARDONYX_ZIP(kMax, std::max(p, q))
    SARDONYX_ZIP(kBitAnd, p & q)
    SARDONYX_ZIP(kBitOr, p | q)
    SARDONYX_ZIP(kBitXor, p ^ q)
    SARDONYX_ZIP(kShiftLeft, q < 0 || q >= kWidth ? U{0} : static_cast<U>(p) << q)
    SARDONYX_ZIP(kShiftRight, q < 0 || q >= kWidth ? T{0} : p >> q)
    default: return false;
  }
#undef SARDONYX_ZIP
}

bool BoolBinary(Fn fn, const bool* a, const bool* b, bool* y, int64_t n) {
  switch (fn) {
    case Fn::kAnd: Zip(a, b, y, n, [](bool p, bool q) { return p && q; }); return true;
    case Fn::kOr: Zip(a, b, y, n, [](bool p, bool q) { return p || q; }); return true;
    case Fn::kXor: Zip(a, b, y, n, [](bool p, bool q) { return p != q; }); return true;
    default: return false;
  }
}

template <typename T>
void Compare(Fn fn, const T* a, const T* b, bool* y, int64_t n) {
  using C = const ComputeType<T>&;
  switch (fn) {
    case Fn::kEqual: return Zip(a, b, y, n, [](C p, C q) { return p == q; });
    case Fn::kLess: return Zip(a, b, y, n, [](C p, C q) { return p < q; });
    case Fn::kLessEqual: return Zip(a, b, y, n, [](C p, C q) { return p <= q; });
    case Fn::kGreater: return Zip(a, b, y, n, [](C p, C q) { return p > q; });
    case Fn::kGreaterEqual: return Zip(a, b, y, n, [](C p, C q) { return p >= q; });
    default: Refuse(fn, kDTypeOf<T>);
  }
}

template <typename T>
T IntegerPower(T base, int64_t exponent) {
  if (exponent < 0) {
    // 1 / base^|exponent|, truncated.
    if (base == T{1}) return 1;
    if (base == static_cast<T>(-1)) return exponent % 2 == 0 ? T{1} : base;
    return 0;
  }
  uint64_t result = 1, factor = static_cast<uint64_t>(base);
  for (; exponent > 0; exponent >>= 1, factor *= factor) {
    if ((exponent & 1) != 0) result *= factor;
  }
  return static_cast<T>(result);
}

// The exponent may have another type than the base.
void Power(const Tensor& a, const Tensor& b, Tensor& y, int64_t n) {
  std::vector<double> exponents(n);
  ConvertElements(b.dtype(), b.raw(), DType::kFloat64, exponents.data(), n, false);
  DispatchReal(a.dtype(), "pow", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* base = a.data<T>();
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_integral_v<T>) {
        if (IsInteger(b.dtype())) {
          y.data<T>()[i] = IntegerPower(base[i], static_cast<int64_t>(exponents[i]));
          continue;
        }
      }
      const double power =
          std::pow(static_cast<double>(static_cast<ComputeType<T>>(base[i])), exponents[i]);
      ConvertElements(DType::kFloat64, &power, a.dtype(), y.data<T>() + i, 1, false);
    }
  });
}

void Binary(Fn fn, const Tensor& a, const Tensor& b, Tensor& y, int64_t n) {
  if (fn == Fn::kPow) return Power(a, b, y, n);
  if (fn == Fn::kEqual && a.dtype() == DType::kString) {
    return Compare(fn, a.data<std::string>(), b.data<std::string>(), y.data<bool>(), n);
  }
  DispatchReal(a.dtype(), Name(fn), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *p = a.data<T>(), *q = b.data<T>();
    if (ReturnsBool(fn)) return Compare(fn, p, q, y.data<bool>(), n);
    bool known = false;
    if constexpr (std::is_same_v<T, bool>) {
      known = BoolBinary(fn, p, q, y.data<bool>(), n);
    } else if constexpr (std::is_integral_v<T>) {
      known = IntegerBinary(fn, p, q, y.data<T>(), n);
    } else {
      known = RealBinary(fn, p, q, y.data<T>(), n);
    }
    if (!known) Refuse(fn, a.dtype());
  });
}

void Run(const Instruction& instruction, const std::vector<Tensor>& registers, Tensor& y,
         int64_t n) {
  const Tensor& a = registers[instruction.args[0]];
  const Tensor& b = registers[instruction.args[1]];
  if (instruction.fn == Fn::kCast) {
    ConvertElements(a.dtype(), a.raw(), y.dtype(), y.raw(), n, /*saturate=*/true);
  } else if (instruction.fn == Fn::kWhere) {
    using At = std::pair<int64_t, int64_t>;
    const bool* condition = a.data<bool>();
    CopyElements(b, y, n, [&](int64_t i) { return At(condition[i] ? i : -1, i); });
    CopyElements(registers[instruction.args[2]], y, n,
                 [&](int64_t i) { return At(condition[i] ? -1 : i, i); });
  } else if (Arity(instruction.fn) == 1) {
    Unary(instruction.fn, a, y, n);
  } else {
    Binary(instruction.fn, a, b, y, n);
  }
}

}  // namespace

void Interpret(const Expression& expression, std::span<const Tensor> operands, Tensor& result) {
  if (operands.size() == 1 && expression.code.size() == 1 && expression.code[0].fn == Fn::kCast &&
      operands[0].size() == result.size()) {  // needs no registers
    const Tensor& x = operands[0];
    return ConvertElements(x.dtype(), x.raw(), result.dtype(), result.raw(), x.size(), true);
  }
  using At = std::pair<int64_t, int64_t>;
  // Of a result that is no larger than a block, dense operands and the result are registers.
  const int64_t block = std::min(kBlock, result.size());
  const bool at_once = block == result.size();
  const auto is_dense = [&](const Tensor& operand) { return operand.dims() == result.dims(); };
  std::vector<Tensor> registers;
  std::vector<std::optional<Walk>> walks(operands.size());  // of what is neither dense nor single
  for (int i = 0; i < expression.registers(); ++i) {
    const bool is_operand = static_cast<size_t>(i) < operands.size();
    const bool is_last = !is_operand && i + 1 == expression.registers();
    if (at_once && ((is_operand && is_dense(operands[i])) || is_last)) {
      registers.push_back(is_operand ? operands[i] : result);
      continue;
    }
    Tensor& made =
        registers.emplace_back(expression.RegisterType(i), std::vector<int64_t>{RoundUp(block, 4)});
    if (!is_operand || is_dense(operands[i])) continue;
    if (operands[i].size() == 1) {
      CopyElements(operands[i], made, block, [](int64_t k) { return At(0, k); });
    } else {
      walks[i].emplace(result.dims(), std::vector<Walk::Strides>{
                                          BroadcastStrides(operands[i].dims(), result.dims())});
    }
  }
  for (size_t i = 0; i < expression.constants.size(); ++i) {
    Tensor& constant = registers[expression.inputs.size() + i];
    const std::vector<double> values(block, expression.constants[i].value);
    ConvertElements(DType::kFloat64, values.data(), constant.dtype(), constant.raw(), block, true);
  }
  const size_t first = expression.inputs.size() + expression.constants.size();
  for (int64_t begin = 0; begin < result.size(); begin += block) {
    const int64_t n = std::min(block, result.size() - begin);
    for (size_t i = 0; i < operands.size(); ++i) {
      if (walks[i]) {
        CopyElements(operands[i], registers[i], n, [&](int64_t k) {
          const At at((*walks[i])[0], k);
          walks[i]->Next();
          return at;
        });
      } else if (!at_once && is_dense(operands[i])) {
        CopyElements(operands[i], registers[i], n, [&](int64_t k) { return At(begin + k, k); });
      }
    }
    for (size_t i = 0; i < expression.code.size(); ++i) {
      Run(expression.code[i], registers, registers[first + i], n);
    }
    if (at_once && !expression.code.empty()) continue;
    CopyElements(expression.code.empty() ? registers[0] : registers.back(), result, n,
                 [&](int64_t k) { return At(k, begin + k); });
  }
}

bool Accepts(Fn fn, DType operand) {
  const bool plain_float = IsPlainFloat(operand);
  const bool plain_integer = IsInteger(operand) && BitWidth(operand) >= 8;
  switch (fn) {
    case Fn::kCast: return operand != DType::kComplex64 && operand != DType::kComplex128;
    case Fn::kWhere: return true;
    case Fn::kIsNaN:
    case Fn::kIsInf: return IsFloat(operand);
    case Fn::kEqual:
      return plain_float || plain_integer || operand == DType::kBool || operand == DType::kString;
    case Fn::kLess:
    case Fn::kLessEqual:
    case Fn::kGreater:
    case Fn::kGreaterEqual: return plain_float || plain_integer || operand == DType::kBool;
    case Fn::kNot:
    case Fn::kAnd:
    case Fn::kOr:
    case Fn::kXor: return operand == DType::kBool;
    case Fn::kBitNot:
    case Fn::kBitAnd:
    case Fn::kBitOr:
    case Fn::kBitXor:
    case Fn::kShiftLeft:
    case Fn::kShiftRight: return plain_integer;
    case Fn::kAbs:
    case Fn::kNeg:
    case Fn::kSign:
    case Fn::kRelu:
    case Fn::kAdd:
    case Fn::kSub:
    case Fn::kMul:
    case Fn::kDiv:
    case Fn::kMod:
    case Fn::kFMod:
    case Fn::kPow:
    case Fn::kMin:
    case Fn::kMax: return plain_float || plain_integer;
    default: return plain_float;
  }
}

}  // namespace sardonyx::core
