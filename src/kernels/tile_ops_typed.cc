// Operations on tiles of any computed type: plain loops for the compiler to vectorise, compiled for
// each target.
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/tile_ops_typed.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/dtype.h"
#include "kernels/tile_loop.h"
#include "kernels/tile_ops.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

// ---- the functions; integers wrap ----

template <typename T>
using Wrapping = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

#define SARDONYX_FUNCTOR1(Name, expression)           \
  struct Name##Of {                                   \
    template <typename T>                             \
    static HWY_INLINE auto Do([[maybe_unused]] T x) { \
      return expression;                              \
    }                                                 \
  };
#define SARDONYX_FUNCTOR2(Name, expression)                                 \
  struct Name##Of {                                                         \
    template <typename T>                                                   \
    static HWY_INLINE auto Do([[maybe_unused]] T x, [[maybe_unused]] T y) { \
      using W [[maybe_unused]] = Wrapping<T>;                               \
      return expression;                                                    \
    }                                                                       \
  };

SARDONYX_FUNCTOR2(Equal, static_cast<uint8_t>(x == y))
SARDONYX_FUNCTOR2(Less, static_cast<uint8_t>(x < y))
SARDONYX_FUNCTOR2(LessEqual, static_cast<uint8_t>(x <= y))
SARDONYX_FUNCTOR2(Greater, static_cast<uint8_t>(x > y))
SARDONYX_FUNCTOR2(GreaterEqual, static_cast<uint8_t>(x >= y))
SARDONYX_FUNCTOR1(IsNaN, static_cast<uint8_t>(x != x))
SARDONYX_FUNCTOR1(IsInf, static_cast<uint8_t>((x == std::numeric_limits<T>::infinity()) |
                                              (x == -std::numeric_limits<T>::infinity())))
// 16-bit floats by their bits, shifted so that the sign is gone: kInfinite is infinity's.
template <uint16_t kInfinite>
struct BitsAreNaN {
  static HWY_INLINE uint8_t Do(uint16_t x) { return static_cast<uint16_t>(x << 1) > kInfinite; }
};
template <uint16_t kInfinite>
struct BitsAreInf {
  static HWY_INLINE uint8_t Do(uint16_t x) { return static_cast<uint16_t>(x << 1) == kInfinite; }
};

SARDONYX_FUNCTOR2(IntAdd, static_cast<T>(static_cast<W>(x) + static_cast<W>(y)))
SARDONYX_FUNCTOR2(IntSub, static_cast<T>(static_cast<W>(x) - static_cast<W>(y)))
SARDONYX_FUNCTOR2(IntMul, static_cast<T>(static_cast<W>(x) * static_cast<W>(y)))
SARDONYX_FUNCTOR2(IntMin, x < y ? x : y)
SARDONYX_FUNCTOR2(IntMax, x > y ? x : y)
SARDONYX_FUNCTOR2(BitAnd, static_cast<T>(x& y))
SARDONYX_FUNCTOR2(BitOr, static_cast<T>(x | y))
SARDONYX_FUNCTOR2(BitXor, static_cast<T>(x ^ y))
SARDONYX_FUNCTOR1(BitNot, static_cast<T>(~x))
SARDONYX_FUNCTOR1(Not, static_cast<T>(x ^ 1))
SARDONYX_FUNCTOR1(IntNeg, static_cast<T>(Wrapping<T>{0} - static_cast<Wrapping<T>>(x)))
SARDONYX_FUNCTOR1(IntAbs, x < T{0} ? IntNegOf::Do(x) : x)
SARDONYX_FUNCTOR1(IntSign, static_cast<T>((x > T{0}) - (x < T{0})))
SARDONYX_FUNCTOR1(IntRelu, x > T{0} ? x : T{0})
SARDONYX_FUNCTOR1(Same, x)

// Shifts by the width or more, or by a negative count, give 0.
SARDONYX_FUNCTOR2(ShiftLeft, static_cast<uint64_t>(y) < sizeof(T) * 8
                                 ? static_cast<T>(static_cast<W>(x) << y)
                                 : T{0})
SARDONYX_FUNCTOR2(ShiftRight,
                  static_cast<uint64_t>(y) < sizeof(T) * 8 ? static_cast<T>(x >> y) : T{0})

// Division by 0 gives 0; by -1 it is negation, which wraps where division traps.
template <typename T>
HWY_INLINE bool IsMinusOne(T y) {
  return std::is_signed_v<T> && y == static_cast<T>(-1);
}
// Narrow integers divide as floating point numbers, which vectorises: a quotient that is no integer
// differs from the next one by more than rounding.
struct IntDivOf {
  template <typename T>
  static HWY_INLINE T Do(T x, T y) {
    if constexpr (sizeof(T) == 8) {
      return y == 0 ? T{0} : IsMinusOne(y) ? IntNegOf::Do(x) : static_cast<T>(x / y);
    } else {
      using F = std::conditional_t<sizeof(T) == 4, double, float>;
      using Wide = std::conditional_t<std::is_same_v<T, uint32_t>, int64_t, int32_t>;
      const bool plain = (y != 0) & !IsMinusOne(y);
      const F quotient = static_cast<F>(x) / static_cast<F>(plain ? y : T{1});
      const T result = static_cast<T>(static_cast<Wide>(quotient));
      return plain ? result : y == 0 ? T{0} : IntNegOf::Do(x);
    }
  }
};
struct IntFModOf {
  template <typename T>
  static HWY_INLINE T Do(T x, T y) {
    if constexpr (sizeof(T) == 8) {
      if (y == 0 || IsMinusOne(y)) return T{0};
      // As numbers of float64 where the quotient cannot be rounded up to the next integer.
      constexpr T kExact = T{1} << 51;
      const bool is_small = x < kExact && y < kExact;
      if (!is_small || (std::is_signed_v<T> && (x < 0 - kExact || y < 0 - kExact))) return x % y;
      const double quotient = static_cast<double>(x) / static_cast<double>(y);
      return static_cast<T>(x - static_cast<T>(static_cast<int64_t>(quotient)) * y);
    } else {
      using W = Wrapping<T>;
      const W whole = static_cast<W>(static_cast<W>(IntDivOf::Do(x, y)) * static_cast<W>(y));
      return y == 0 ? T{0} : static_cast<T>(static_cast<W>(static_cast<W>(x) - whole));
    }
  }
};
struct IntModOf {
  template <typename T>
  static HWY_INLINE T Do(T x, T y) {
    const T r = IntFModOf::Do(x, y);
    const bool differ = (r != 0) & ((r < 0) != (y < 0));
    return static_cast<T>(r + (differ ? y : T{0}));
  }
};
struct IntPowOf {
  template <typename T>
  static HWY_INLINE T Do(T base, T exponent) {
    if (std::is_signed_v<T> && exponent < T{0}) {
      if (base == T{1}) return base;
      return IsMinusOne(base) ? static_cast<T>(exponent & 1 ? -1 : 1) : T{0};
    }
    Wrapping<T> power = 1;
    Wrapping<T> square = static_cast<Wrapping<T>>(base);
    for (auto e = static_cast<uint64_t>(exponent); e != 0; e >>= 1) {
      if (e & 1) power *= square;
      square *= square;
    }
    return static_cast<T>(power);
  }
};

SARDONYX_FUNCTOR2(RealAdd, x + y)
SARDONYX_FUNCTOR2(RealSub, x - y)
SARDONYX_FUNCTOR2(RealMul, x* y)
SARDONYX_FUNCTOR2(RealDiv, x / y)
// Without branches: | of both comparisons.
SARDONYX_FUNCTOR2(RealMin, ((x != x) | (x < y)) ? x : y)
SARDONYX_FUNCTOR2(RealMax, ((x != x) | (x > y)) ? x : y)
SARDONYX_FUNCTOR2(RealPow, std::pow(x, y))
SARDONYX_FUNCTOR1(RealAbs, std::fabs(x))
SARDONYX_FUNCTOR1(RealNeg, -x)
SARDONYX_FUNCTOR1(RealSign, x > 0 ? T{1} : x < 0 ? T{-1} : x)
SARDONYX_FUNCTOR1(Floor, std::floor(x))
SARDONYX_FUNCTOR1(Ceil, std::ceil(x))
SARDONYX_FUNCTOR1(Round, std::nearbyint(x))
SARDONYX_FUNCTOR1(Reciprocal, 1 / x)
SARDONYX_FUNCTOR1(Cube, x* x* x)
SARDONYX_FUNCTOR1(Exp, std::exp(x))
SARDONYX_FUNCTOR1(Log, std::log(x))
SARDONYX_FUNCTOR1(Log1p, std::log1p(x))
SARDONYX_FUNCTOR1(Tan, std::tan(x))
SARDONYX_FUNCTOR1(Asin, std::asin(x))
SARDONYX_FUNCTOR1(Acos, std::acos(x))
SARDONYX_FUNCTOR1(Atan, std::atan(x))
SARDONYX_FUNCTOR1(Sinh, std::sinh(x))
SARDONYX_FUNCTOR1(Cosh, std::cosh(x))
SARDONYX_FUNCTOR1(Asinh, std::asinh(x))
SARDONYX_FUNCTOR1(Acosh, std::acosh(x))
SARDONYX_FUNCTOR1(Atanh, std::atanh(x))
SARDONYX_FUNCTOR1(Erf, std::erf(x))
SARDONYX_FUNCTOR1(Sigmoid, 1 / (1 + std::exp(-x)))
SARDONYX_FUNCTOR1(RealRelu, ((x > 0) | (x != x)) ? x : T{0})

// ---- the loops ----

// They copy the count: stores of bytes might change it in args, for all the compiler knows.

template <class F, typename T>
void Map1(const TileArgs& args) {
  using R = decltype(F::Do(T{}));
  const T* a = static_cast<const T*>(args.in[0]);
  R* out = static_cast<R*>(args.out);
  const int64_t count = args.count;
  SARDONYX_TILE_LOOP
  for (int64_t i = 0; i < count; ++i) out[i] = F::Do(a[i]);
}

template <class F, typename T, unsigned kUniform>
void Map2(const TileArgs& args) {
  using R = decltype(F::Do(T{}, T{}));
  const T* a = static_cast<const T*>(args.in[0]);
  const T* b = static_cast<const T*>(args.in[1]);
  R* out = static_cast<R*>(args.out);
  const T first = *a, second = *b;
  const int64_t count = args.count;
  SARDONYX_TILE_LOOP
  for (int64_t i = 0; i < count; ++i) {
    out[i] = F::Do(kUniform & 1 ? first : a[i], kUniform & 2 ? second : b[i]);
  }
}

// Of the operands at most one is uniform; the first only if they cannot be exchanged.
template <class F, typename T>
TileFn Commuting(unsigned uniform) {
  return uniform == 0 ? Map2<F, T, 0> : uniform == 2 ? Map2<F, T, 2> : nullptr;
}
template <class F, typename T>
TileFn Ordered(unsigned uniform) {
  return uniform == 1 ? Map2<F, T, 1> : Commuting<F, T>(uniform);
}
template <class F, typename T>
TileFn Tiles(unsigned uniform) {
  return uniform == 0 ? Map2<F, T, 0> : nullptr;
}

// Quotients of 64 bits by one divisor: the upper half of a product with its reciprocal, shifted
// (Granlund and Montgomery, Division by Invariant Integers using Multiplication, figure 4.1).
template <typename T>
void DivideByOne(const TileArgs& args) {
  const T* x = static_cast<const T*>(args.in[0]);
  const T y = *static_cast<const T*>(args.in[1]);
  T* out = static_cast<T*>(args.out);
  const int64_t count = args.count;
  if (y == 0) {
    std::fill_n(out, count, T{0});
    return;
  }
  const auto sign = [](T v) { return std::is_signed_v<T> && v < T{0} ? ~uint64_t{0} : 0; };
  const auto magnitude = [&](T v) { return (static_cast<uint64_t>(v) ^ sign(v)) - sign(v); };
  const uint64_t divisor = magnitude(y), y_sign = sign(y);
  const int bits = divisor == 1 ? 0 : 64 - __builtin_clzll(divisor - 1);
  __extension__ using Wide = unsigned __int128;
  const uint64_t reciprocal =
      static_cast<uint64_t>((((Wide{1} << bits) - divisor) << 64) / divisor) + 1;
  const int first = bits < 1 ? bits : 1, second = bits < 1 ? 0 : bits - 1;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t n = magnitude(x[i]), flip = sign(x[i]) ^ y_sign;
    const uint64_t high = static_cast<uint64_t>((Wide{reciprocal} * n) >> 64);
    const uint64_t quotient = (high + ((n - high) >> first)) >> second;
    out[i] = static_cast<T>((quotient ^ flip) - flip);
  }
}

// Whole numbers up to 2^51: added to the base they are its last bits, where an instruction that
// converts them is missing.
template <class D, class V>
HWY_INLINE auto WholeNumbers(D d, V v) {
  namespace hn = hwy::HWY_NAMESPACE;
  if constexpr (HWY_TARGET <= HWY_AVX3) {
    return hn::ConvertTo(d, v);
  } else {
    const auto base = hn::Set(hn::DFromV<V>(), 0x1.8p52);
    return hn::Sub(hn::BitCast(d, hn::Add(v, base)), hn::BitCast(d, base));
  }
}

// Remainders of 64 bits in float64 where that tells the quotient up to one: where it is below 2^51,
// and so the error of converting and dividing below 1/2. Those of a negative divisor are the
// negative ones of both numbers negated; those of 0 are of 1.
void Remainders(const TileArgs& args) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<int64_t> d;
  const hn::Rebind<double, decltype(d)> df;
  const auto* x = static_cast<const int64_t*>(args.in[0]);
  const auto* y = static_cast<const int64_t*>(args.in[1]);
  auto* out = static_cast<int64_t*>(args.out);
  const int64_t count = args.count, lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto zero = hn::Zero(d), one = hn::Set(d, 1), most = hn::Set(d, int64_t{1} << 51);
  const auto is_below = [&](auto v) { return hn::And(hn::Lt(v, most), hn::Gt(v, hn::Neg(most))); };
  const auto wide = hn::Set(d, (int64_t{1} << 12) - 1);  // of divisors above no quotient is large
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto n = hn::LoadU(d, x + i), given = hn::LoadU(d, y + i);
    const auto fits = hn::And(is_below(given), hn::Or(is_below(n), hn::Gt(given, wide)));
    if (!hn::AllTrue(d, fits)) {
      for (int64_t k = i; k < i + lanes; ++k) out[k] = IntModOf::Do(x[k], y[k]);
      continue;
    }
    auto divisor = given, dividend = n;
    const bool are_positive = hn::AllTrue(d, hn::Gt(given, zero));
    const auto is_negative = hn::Lt(given, zero);
    if (!are_positive) {
      const auto magnitude = hn::IfThenElse(is_negative, hn::Neg(given), given);
      divisor = hn::IfThenElse(hn::Eq(given, zero), one, magnitude);
      dividend = hn::IfThenElse(is_negative, hn::Neg(n), n);
    }
    const auto quotient =
        hn::Floor(hn::Div(hn::ConvertTo(df, dividend), hn::ConvertTo(df, divisor)));
    auto r = hn::Sub(dividend, hn::Mul(WholeNumbers(d, quotient), divisor));
    r = hn::Add(r, hn::IfThenElseZero(hn::Lt(r, zero), divisor));
    r = hn::IfThenElse(hn::Lt(r, divisor), r, hn::Sub(r, divisor));
    if (!are_positive) r = hn::IfThenElse(is_negative, hn::Neg(r), r);
    hn::StoreU(r, d, out + i);
  }
  for (; i < count; ++i) out[i] = IntModOf::Do(x[i], y[i]);
}

template <class Least, class Most, typename T, bool kUniform>
void Clamp(const TileArgs& args) {
  const T* x = static_cast<const T*>(args.in[0]);
  const T* lo = static_cast<const T*>(args.in[1]);
  const T* hi = static_cast<const T*>(args.in[2]);
  T* out = static_cast<T*>(args.out);
  const T least = *lo, most = *hi;
  const int64_t count = args.count;
  SARDONYX_TILE_LOOP
  for (int64_t i = 0; i < count; ++i) {
    out[i] = Most::Do(Least::Do(x[i], kUniform ? least : lo[i]), kUniform ? most : hi[i]);
  }
}
template <class Least, class Most, typename T>
TileFn Clamps(unsigned uniform) {
  return uniform == 0   ? Clamp<Least, Most, T, false>
         : uniform == 6 ? Clamp<Least, Most, T, true>
                        : nullptr;
}

// By bits: what the compiler makes of a choice reads one operand under a mask, and where that has
// never been touched (a constant in a mapped file, memory as calloc gives it), processors take a
// microsecond for each vector that the mask is empty for, again and again: the page stays away.
template <typename Bits>
void Where(const TileArgs& args) {
  const uint8_t* condition = static_cast<const uint8_t*>(args.in[0]);
  const Bits* a = static_cast<const Bits*>(args.in[1]);
  const Bits* b = static_cast<const Bits*>(args.in[2]);
  Bits* out = static_cast<Bits*>(args.out);
  const int64_t count = args.count;
  SARDONYX_TILE_LOOP
  for (int64_t i = 0; i < count; ++i) {
    const Bits yes = static_cast<Bits>(-static_cast<Bits>(condition[i] != 0));
    out[i] = static_cast<Bits>((a[i] & yes) | (b[i] & ~yes));
  }
}

// What all types share.
template <typename T>
TileFn FindCommon(TileOpcode op, unsigned uniform) {
  using enum TileOpcode;
  switch (op) {
    case kEqual: return Commuting<EqualOf, T>(uniform);
    case kLess: return Ordered<LessOf, T>(uniform);
    case kLessEqual: return Ordered<LessEqualOf, T>(uniform);
    case kGreater: return Ordered<GreaterOf, T>(uniform);
    case kGreaterEqual: return Ordered<GreaterEqualOf, T>(uniform);
    case kWhere:
      if (uniform != 0) return nullptr;
      if (sizeof(T) == 1) return Where<uint8_t>;
      if (sizeof(T) == 2) return Where<uint16_t>;
      return sizeof(T) == 4 ? Where<uint32_t> : Where<uint64_t>;
    default: return nullptr;
  }
}

template <typename T>
TileFn FindInteger(TileOpcode op, unsigned uniform) {
  using enum TileOpcode;
  using U = std::make_unsigned_t<T>;  // where signs do not matter, one instance serves both
  switch (op) {
    case kAdd: return Commuting<IntAddOf, U>(uniform);
    case kSub: return Ordered<IntSubOf, U>(uniform);
    case kMul: return Commuting<IntMulOf, U>(uniform);
    case kBitAnd: return Commuting<BitAndOf, U>(uniform);
    case kBitOr: return Commuting<BitOrOf, U>(uniform);
    case kBitXor: return Commuting<BitXorOf, U>(uniform);
    case kBitNot: return Map1<BitNotOf, U>;
    case kNeg: return Map1<IntNegOf, U>;
    case kDiv:
      if constexpr (sizeof(T) == 8) {
        if (uniform == 2) return DivideByOne<T>;
      }
      return Ordered<IntDivOf, T>(uniform);
    case kMod:
      if constexpr (std::is_same_v<T, int64_t>) return uniform == 0 ? Remainders : nullptr;
      return Tiles<IntModOf, T>(uniform);
    case kFMod: return Tiles<IntFModOf, T>(uniform);
    case kPow: return Tiles<IntPowOf, T>(uniform);
    case kMin: return Commuting<IntMinOf, T>(uniform);
    case kClamp: return Clamps<IntMaxOf, IntMinOf, T>(uniform);
    case kMax: return Commuting<IntMaxOf, T>(uniform);
    case kShiftLeft: return Tiles<ShiftLeftOf, T>(uniform);
    case kShiftRight: return Tiles<ShiftRightOf, T>(uniform);
    case kAbs: return Map1<IntAbsOf, T>;
    case kSign: return Map1<IntSignOf, T>;
    case kRelu: return Map1<IntReluOf, T>;
    case kFloor:
    case kCeil:
    case kRound: return Map1<SameOf, U>;
    default: return FindCommon<T>(op, uniform);
  }
}

TileFn FindBool(TileOpcode op, unsigned uniform) {
  using enum TileOpcode;
  switch (op) {
    case kNot: return Map1<NotOf, uint8_t>;
    case kAdd:
    case kMax:
    case kBitOr:
    case kOr: return Commuting<BitOrOf, uint8_t>(uniform);
    case kMul:
    case kMin:
    case kBitAnd:
    case kAnd: return Commuting<BitAndOf, uint8_t>(uniform);
    case kBitXor:
    case kXor: return Commuting<BitXorOf, uint8_t>(uniform);
    default: return FindCommon<uint8_t>(op, uniform);
  }
}

template <uint16_t kInfinite>
TileFn FindHalf(TileOpcode op) {
  switch (op) {
    case TileOpcode::kIsNaN: return Map1<BitsAreNaN<kInfinite>, uint16_t>;
    case TileOpcode::kIsInf: return Map1<BitsAreInf<kInfinite>, uint16_t>;
    default: return nullptr;
  }
}

TileFn FindDouble(TileOpcode op, unsigned uniform) {
  using enum TileOpcode;
  switch (op) {
#define SARDONYX_CASE1(Name) \
  case k##Name: return Map1<Name##Of, double>;
    SARDONYX_CASE1(Floor)
    SARDONYX_CASE1(Ceil)
    SARDONYX_CASE1(Round)
    SARDONYX_CASE1(Reciprocal)
    SARDONYX_CASE1(Cube)
    SARDONYX_CASE1(Exp)
    SARDONYX_CASE1(Log)
    SARDONYX_CASE1(Log1p)
    SARDONYX_CASE1(Tan)
    SARDONYX_CASE1(Asin)
    SARDONYX_CASE1(Acos)
    SARDONYX_CASE1(Atan)
    SARDONYX_CASE1(Sinh)
    SARDONYX_CASE1(Cosh)
    SARDONYX_CASE1(Asinh)
    SARDONYX_CASE1(Acosh)
    SARDONYX_CASE1(Atanh)
    SARDONYX_CASE1(Erf)
    SARDONYX_CASE1(Sigmoid)
    SARDONYX_CASE1(IsNaN)
    SARDONYX_CASE1(IsInf)
#undef SARDONYX_CASE1
    case kAbs: return Map1<RealAbsOf, double>;
    case kNeg: return Map1<RealNegOf, double>;
    case kSign: return Map1<RealSignOf, double>;
    case kRelu: return Map1<RealReluOf, double>;
    case kAdd: return Commuting<RealAddOf, double>(uniform);
    case kSub: return Ordered<RealSubOf, double>(uniform);
    case kMul: return Commuting<RealMulOf, double>(uniform);
    case kDiv: return Ordered<RealDivOf, double>(uniform);
    case kMin: return Commuting<RealMinOf, double>(uniform);
    case kClamp: return Clamps<RealMaxOf, RealMinOf, double>(uniform);
    case kMax: return Commuting<RealMaxOf, double>(uniform);
    case kPow: return Tiles<RealPowOf, double>(uniform);
    default: return FindCommon<double>(op, uniform);
  }
}

TileFn Find(TileOpcode op, DType type, unsigned uniform) {
  switch (type) {
    case DType::kFloat32:  // arithmetic has its own kernels
      if (op == TileOpcode::kIsNaN) return Map1<IsNaNOf, float>;
      if (op == TileOpcode::kIsInf) return Map1<IsInfOf, float>;
      return FindCommon<float>(op, uniform);
    case DType::kFloat64: return FindDouble(op, uniform);
    case DType::kFloat16: return FindHalf<0xf800>(op);
    case DType::kBFloat16: return FindHalf<0xff00>(op);
    case DType::kInt8: return FindInteger<int8_t>(op, uniform);
    case DType::kInt16: return FindInteger<int16_t>(op, uniform);
    case DType::kInt32: return FindInteger<int32_t>(op, uniform);
    case DType::kInt64: return FindInteger<int64_t>(op, uniform);
    case DType::kUInt8: return FindInteger<uint8_t>(op, uniform);
    case DType::kUInt16: return FindInteger<uint16_t>(op, uniform);
    case DType::kUInt32: return FindInteger<uint32_t>(op, uniform);
    case DType::kUInt64: return FindInteger<uint64_t>(op, uniform);
    case DType::kBool: return FindBool(op, uniform);
    default: return nullptr;
  }
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Find);
TileFn TypedTileFn(TileOpcode op, DType type, unsigned uniform) {
  const TileFn fn = type == DType::kFloat64 ? DoubleTileFn(op, uniform) : nullptr;
  return fn != nullptr ? fn : HWY_DYNAMIC_DISPATCH(Find)(op, type, uniform);
}

}  // namespace sardonyx
#endif
