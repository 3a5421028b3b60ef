// Float64 functions on tiles that plain loops would call one element after another.
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/tile_ops_double.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <cmath>
#include <limits>

#include "kernels/remainder-inl.h"
#include "kernels/row_math-inl.h"
#include "kernels/tile_ops.h"
// After the above, which sets the namespaces.
#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;

// The library's range reduction is good up to 39000.
constexpr double kMostAngle = 39000.0;

template <double (*kFunction)(double)>
V EachLane(D d, V x) {
  HWY_ALIGN double lane[hn::MaxLanes(d)];
  hn::Store(x, d, lane);
  for (size_t i = 0; i < hn::Lanes(d); ++i) lane[i] = kFunction(lane[i]);
  return hn::Load(d, lane);
}

struct SqrtOf {
  static HWY_INLINE V Do(D, V x) { return hn::Sqrt(x); }
};
struct TanhOf {
  static HWY_INLINE V Do(D d, V x) { return hn::Tanh(d, x); }
};
struct SinOf {
  static HWY_INLINE V Do(D d, V x) {
    const bool near = hn::AllTrue(d, hn::Lt(hn::Abs(x), hn::Set(d, kMostAngle)));
    return near ? hn::Sin(d, x) : EachLane<std::sin>(d, x);
  }
};
struct CosOf {
  static HWY_INLINE V Do(D d, V x) {
    const bool near = hn::AllTrue(d, hn::Lt(hn::Abs(x), hn::Set(d, kMostAngle)));
    return near ? hn::Cos(d, x) : EachLane<std::cos>(d, x);
  }
};

struct ExpOf {
  static HWY_INLINE V Do(D d, V x) {
    const V inside = AtMost(d, hn::Set(d, 710.0), AtLeast(d, hn::Set(d, -746.0), x));
    return hn::IfThenElse(hn::Eq(x, x), hn::Exp(d, inside), x);
  }
};
struct LogOf {
  static HWY_INLINE V Do(D d, V x) {
    const V zero = hn::Zero(d), infinity = hn::Set(d, std::numeric_limits<double>::infinity());
    const auto inside = hn::And(hn::Gt(x, zero), hn::Lt(x, infinity));
    const V nan = hn::Set(d, std::numeric_limits<double>::quiet_NaN());
    const V special =
        hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), hn::IfThenElse(hn::Lt(x, zero), nan, x));
    const V log = hn::Log(d, hn::IfThenElse(inside, x, hn::Set(d, 1.0)));
    return hn::IfThenElse(inside, log, special);
  }
};

// NaN of either operand stays.
HWY_INLINE V Least(D d, V x, V y) { return hn::IfThenElse(hn::Eq(x, x), AtMost(d, x, y), x); }
HWY_INLINE V Most(D d, V x, V y) { return hn::IfThenElse(hn::Eq(x, x), AtLeast(d, x, y), x); }

struct ClampOf {
  static HWY_INLINE V Do(D d, V x, V lo, V hi) { return Least(d, Most(d, x, lo), hi); }
};
struct FModOf {
  static HWY_INLINE V Do(D d, V x, V y) { return VecFMod(d, x, y); }
};
struct ModOf {
  static HWY_INLINE V Do(D d, V x, V y) { return VecMod(d, x, y); }
};
struct FmaOf {
  static HWY_INLINE V Do(D, V x, V y, V z) { return hn::MulAdd(x, y, z); }
};

// Bit i of kUniform: operand i is a single element.
template <class F, unsigned kUniform>
void Map3(const TileArgs& args) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const double* in[3];
  for (int k = 0; k < 3; ++k) in[k] = static_cast<const double*>(args.in[k]);
  const V b = hn::Set(d, *in[1]), c = hn::Set(d, *in[2]);
  double* out = static_cast<double*>(args.out);
  int64_t i = 0;
  for (; i + lanes <= args.count; i += lanes) {
    hn::StoreU(F::Do(d, hn::LoadU(d, in[0] + i), (kUniform & 2) != 0 ? b : hn::LoadU(d, in[1] + i),
                     (kUniform & 4) != 0 ? c : hn::LoadU(d, in[2] + i)),
               d, out + i);
  }
  const int64_t rest = args.count - i;
  if (rest == 0) return;
  StorePart(
      F::Do(d, LoadPart(d, in[0] + i, rest), (kUniform & 2) != 0 ? b : LoadPart(d, in[1] + i, rest),
            (kUniform & 4) != 0 ? c : LoadPart(d, in[2] + i, rest)),
      d, out + i, rest);
}

// The second operand may be a single element.
template <class F, bool kUniform>
void Map2(const TileArgs& args) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* x = static_cast<const double*>(args.in[0]);
  const auto* y = static_cast<const double*>(args.in[1]);
  const V only = hn::Set(d, *y);
  double* out = static_cast<double*>(args.out);
  int64_t i = 0;
  for (; i + lanes <= args.count; i += lanes) {
    const V other = kUniform ? only : hn::LoadU(d, y + i);
    hn::StoreU(F::Do(d, hn::LoadU(d, x + i), other), d, out + i);
  }
  const int64_t rest = args.count - i;
  if (rest == 0) return;
  const V other = kUniform ? only : LoadPart(d, y + i, rest);
  StorePart(F::Do(d, LoadPart(d, x + i, rest), other), d, out + i, rest);
}

template <class F>
void Map(const TileArgs& args) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const double* in = static_cast<const double*>(args.in[0]);
  double* out = static_cast<double*>(args.out);
  int64_t i = 0;
  for (; i + lanes <= args.count; i += lanes) {
    hn::StoreU(F::Do(d, hn::LoadU(d, in + i)), d, out + i);
  }
  const int64_t rest = args.count - i;
  if (rest > 0) StorePart(F::Do(d, LoadPart(d, in + i, rest)), d, out + i, rest);
}

TileFn Find(TileOpcode op, unsigned uniform) {
  if (op == TileOpcode::kClamp && uniform == 6) return Map3<ClampOf, 6>;
  if (op == TileOpcode::kFma) {
    return uniform == 0   ? Map3<FmaOf, 0>
           : uniform == 2 ? Map3<FmaOf, 2>
           : uniform == 4 ? Map3<FmaOf, 4>
           : uniform == 6 ? Map3<FmaOf, 6>
                          : nullptr;
  }
  if (uniform == 2 && op == TileOpcode::kFMod) return Map2<FModOf, true>;
  if (uniform == 2 && op == TileOpcode::kMod) return Map2<ModOf, true>;
  if (uniform != 0) return nullptr;
  switch (op) {
    case TileOpcode::kFMod: return Map2<FModOf, false>;
    case TileOpcode::kMod: return Map2<ModOf, false>;
    case TileOpcode::kExp: return Map<ExpOf>;
    case TileOpcode::kLog: return Map<LogOf>;
    case TileOpcode::kSqrt: return Map<SqrtOf>;
    case TileOpcode::kTanh: return Map<TanhOf>;
    case TileOpcode::kSin: return Map<SinOf>;
    case TileOpcode::kCos: return Map<CosOf>;
    default: return nullptr;
  }
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Find);
TileFn DoubleTileFn(TileOpcode op, unsigned uniform) {
  return HWY_DYNAMIC_DISPATCH(Find)(op, uniform);
}

}  // namespace sardonyx
#endif
