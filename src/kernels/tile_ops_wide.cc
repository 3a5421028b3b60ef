// Float32 functions on tiles that are computed in float64: their formulas cancel, or take a
// logarithm times a large factor, and so would not be accurate in float32.
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/tile_ops_wide.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <cmath>
#include <limits>

#include "kernels/row_math-inl.h"
#include "kernels/tile_ops.h"
// After the above, which sets the namespaces.
#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;
using DF = hn::Rebind<float, D>;

// The library's range reduction is good up to 39000.
constexpr double kMostAngle = 39000.0;

// Below this the first terms of the series at 0 are exact in float32, and formulas with logarithms
// or exponentials lose what they need.
constexpr double kSmall = 1e-3;

// x + x^3 * (a + b x^2) where |x| is small, else `large`.
HWY_INLINE V SmallOr(D d, V x, double a, double b, V large) {
  const V x2 = hn::Mul(x, x);
  const V series = hn::MulAdd(hn::Mul(x2, x), hn::MulAdd(x2, hn::Set(d, b), hn::Set(d, a)), x);
  return hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, kSmall)), series, large);
}

// e^|x|; float32's range ends long before 700.
HWY_INLINE V ExpOfAbs(D d, V x) {
  const V e = hn::Exp(d, AtMost(d, hn::Set(d, 700.0), hn::Abs(x)));
  return hn::IfThenElse(hn::Eq(x, x), e, x);
}

struct SinhOf {
  static HWY_INLINE V Do(D d, V x) {
    const V e = ExpOfAbs(d, x);
    const V half = hn::Set(d, 0.5);
    const V large = hn::Sub(hn::Mul(half, e), hn::Div(half, e));
    return SmallOr(d, x, 1.0 / 6, 1.0 / 120, hn::CopySign(large, x));
  }
};
struct CoshOf {
  static HWY_INLINE V Do(D d, V x) {
    const V e = ExpOfAbs(d, x);
    const V half = hn::Set(d, 0.5);
    return hn::MulAdd(half, e, hn::Div(half, e));
  }
};

// The logarithm for all of x: -infinity at 0, NaN below.
HWY_INLINE V Log(D d, V x) {
  const V infinity = hn::Set(d, std::numeric_limits<double>::infinity());
  const V special =
      hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity),
                     hn::IfThenElse(hn::Lt(x, hn::Zero(d)),
                                    hn::Set(d, std::numeric_limits<double>::quiet_NaN()), x));
  const auto inside = hn::And(hn::Gt(x, hn::Zero(d)), hn::Lt(x, infinity));
  return hn::IfThenElse(inside, hn::Log(d, hn::IfThenElse(inside, x, hn::Set(d, 1.0))), special);
}

struct AsinhOf {
  static HWY_INLINE V Do(D d, V x) {
    const V a = hn::Abs(x);
    const V root = hn::Sqrt(hn::MulAdd(a, a, hn::Set(d, 1.0)));
    return SmallOr(d, x, -1.0 / 6, 3.0 / 40, hn::CopySign(Log(d, hn::Add(a, root)), x));
  }
};
struct AcoshOf {
  static HWY_INLINE V Do(D d, V x) {
    const V one = hn::Set(d, 1.0);
    const V root = hn::Sqrt(hn::Mul(hn::Sub(x, one), hn::Add(x, one)));
    const V nan = hn::Set(d, std::numeric_limits<double>::quiet_NaN());
    return hn::IfThenElse(hn::Lt(x, one), nan, Log(d, hn::Add(x, root)));
  }
};
struct AtanhOf {
  static HWY_INLINE V Do(D d, V x) {
    const V one = hn::Set(d, 1.0);
    const V log = Log(d, hn::Div(hn::Add(one, x), hn::Sub(one, x)));
    return SmallOr(d, x, 1.0 / 3, 1.0 / 5, hn::Mul(hn::Set(d, 0.5), log));
  }
};

struct TanOf {
  static HWY_INLINE V Do(D d, V x) {
    if (hn::AllTrue(d, hn::Lt(hn::Abs(x), hn::Set(d, kMostAngle)))) {
      return hn::Div(hn::Sin(d, x), hn::Cos(d, x));
    }
    HWY_ALIGN double lane[hn::MaxLanes(d)];
    hn::Store(x, d, lane);
    for (size_t i = 0; i < hn::Lanes(d); ++i) lane[i] = std::tan(lane[i]);
    return hn::Load(d, lane);
  }
};

template <class F>
HWY_INLINE hn::Vec<DF> Narrow(V x) {
  return hn::DemoteTo(DF(), F::Do(D(), x));
}

template <class F>
void Map(const TileArgs& args) {
  const D d;
  const DF df;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* in = static_cast<const float*>(args.in[0]);
  float* out = static_cast<float*>(args.out);
  int64_t i = 0;
  for (; i + lanes <= args.count; i += lanes) {
    hn::StoreU(Narrow<F>(hn::PromoteTo(d, hn::LoadU(df, in + i))), df, out + i);
  }
  const int64_t rest = args.count - i;
  if (rest > 0)
    StorePart(Narrow<F>(hn::PromoteTo(d, LoadPart(df, in + i, rest))), df, out + i, rest);
}

// x^y of positive finite numbers.
HWY_INLINE V PositivePower(D d, V x, V y) {
  const V most = hn::Set(d, 700.0);
  const V exponent = hn::Mul(y, hn::Log(d, x));
  return hn::Exp(d, hn::Max(hn::Neg(most), hn::Min(exponent, most)));
}

// The same of negative numbers and zeros too: with the sign of x if y is odd, NaN of negative x if
// y is no integer; of zeros, pictures being full of them, for positive y alone.
HWY_INLINE V SignedPower(D d, V x, V y) {
  const V zero = hn::Zero(d), half = hn::Mul(y, hn::Set(d, 0.5));
  const auto is_zero = hn::Eq(x, zero);
  const V magnitude = hn::IfThenElse(is_zero, hn::Set(d, 1.0), hn::Abs(x));
  const V power = hn::IfThenZeroElse(is_zero, PositivePower(d, magnitude, y));
  const auto is_even = hn::Eq(hn::Round(half), half), is_integer = hn::Eq(hn::Round(y), y);
  const V nan = hn::Set(d, std::numeric_limits<double>::quiet_NaN());
  const V of_negative =
      hn::IfThenElse(is_integer, hn::IfThenElse(is_even, power, hn::Neg(power)), nan);
  return hn::IfThenElse(hn::Lt(x, zero), of_negative, power);
}

// What infinities, NaN and some zeros have rules of their own for, one after another.
void Pow(const TileArgs& args) {
  const D d;
  const DF df;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* a = static_cast<const float*>(args.in[0]);
  const float* b = static_cast<const float*>(args.in[1]);
  float* out = static_cast<float*>(args.out);
  const V infinity = hn::Set(d, std::numeric_limits<double>::infinity());
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0);
  int64_t i = 0;
  for (; i + lanes <= args.count; i += lanes) {
    const V x = hn::PromoteTo(d, hn::LoadU(df, a + i)), y = hn::PromoteTo(d, hn::LoadU(df, b + i));
    const auto is_finite = hn::And(hn::Lt(hn::Abs(x), infinity), hn::Lt(hn::Abs(y), infinity));
    const auto is_positive = hn::And(is_finite, hn::Gt(x, zero));
    if (hn::AllTrue(d, is_positive)) {
      hn::StoreU(hn::DemoteTo(df, PositivePower(d, x, y)), df, out + i);
      continue;
    }
    const auto has_sign = hn::Lt(hn::CopySign(one, x), zero);
    const auto has_rules = hn::And(hn::Eq(x, zero), hn::Or(has_sign, hn::Le(y, zero)));
    if (hn::AllTrue(d, hn::AndNot(has_rules, is_finite))) {
      hn::StoreU(hn::DemoteTo(df, SignedPower(d, x, y)), df, out + i);
      continue;
    }
    for (int64_t k = i; k < i + lanes; ++k) out[k] = std::pow(a[k], b[k]);
  }
  for (; i < args.count; ++i) out[i] = std::pow(a[i], b[i]);
}

TileFn Find(TileOpcode op) {
  switch (op) {
    case TileOpcode::kTan: return Map<TanOf>;
    case TileOpcode::kSinh: return Map<SinhOf>;
    case TileOpcode::kCosh: return Map<CoshOf>;
    case TileOpcode::kAsinh: return Map<AsinhOf>;
    case TileOpcode::kAcosh: return Map<AcoshOf>;
    case TileOpcode::kAtanh: return Map<AtanhOf>;
    case TileOpcode::kPow: return Pow;
    default: return nullptr;
  }
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Find);
TileFn WideTileFn(TileOpcode op) { return HWY_DYNAMIC_DISPATCH(Find)(op); }

}  // namespace sardonyx
#endif
