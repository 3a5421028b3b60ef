// Float32 operations on tiles.
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/tile_ops_float.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <cmath>
#include <cstring>

#include "base/dtype.h"
#include "kernels/remainder-inl.h"
#include "kernels/row_math-inl.h"
#include "kernels/tile_ops.h"
#include "kernels/vector_math-inl.h"
// After the above, which sets the namespaces.
#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// An operand, tile or uniform.
template <bool kUniform>
struct Source {
  const float* p;
  V value;
  HWY_INLINE Source(D d, const void* from)
      : p(static_cast<const float*>(from)), value(kUniform ? hn::Set(d, *p) : hn::Zero(d)) {}
  HWY_INLINE V Get(D d, int64_t i) const { return kUniform ? value : hn::LoadU(d, p + i); }
  HWY_INLINE V GetFirst(D d, int64_t i, int64_t count) const {
    return kUniform ? value : LoadPart(d, p + i, count);
  }
};

// apply of each vector of the first operand; the others are uniform, and `apply` has read them.
template <class F>
HWY_INLINE void MapTile(const TileArgs& args, F apply) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const Source<false> x(d, args.in[0]);
  float* out = static_cast<float*>(args.out);
  const int64_t count = args.count;
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(apply(x.Get(d, i)), d, out + i);
  const int64_t rest = count - i;
  if (rest > 0) StorePart(apply(x.GetFirst(d, i, rest)), d, out + i, rest);
}

template <class F>
void Map1(const TileArgs& args) {
  // Inside the loop its constants stay in registers, and more vectors are on their way at a time.
  MapTile(args, [](V x) HWY_ATTR __attribute__((always_inline)) { return F::Do(D(), x); });
}

template <class F, unsigned kUniform>
void Map2(const TileArgs& args) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const Source<(kUniform & 1) != 0> a(d, args.in[0]);
  const Source<(kUniform & 2) != 0> b(d, args.in[1]);
  float* out = static_cast<float*>(args.out);
  int64_t i = 0;
  for (; i + lanes <= args.count; i += lanes) {
    hn::StoreU(F::Do(d, a.Get(d, i), b.Get(d, i)), d, out + i);
  }
  const int64_t rest = args.count - i;
  if (rest > 0) {
    StorePart(F::Do(d, a.GetFirst(d, i, rest), b.GetFirst(d, i, rest)), d, out + i, rest);
  }
}

template <class F, unsigned kUniform>
void Map3(const TileArgs& args) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const Source<(kUniform & 1) != 0> a(d, args.in[0]);
  const Source<(kUniform & 2) != 0> b(d, args.in[1]);
  const Source<(kUniform & 4) != 0> c(d, args.in[2]);
  float* out = static_cast<float*>(args.out);
  int64_t i = 0;
  for (; i + lanes <= args.count; i += lanes) {
    hn::StoreU(F::Do(d, a.Get(d, i), b.Get(d, i), c.Get(d, i)), d, out + i);
  }
  const int64_t rest = args.count - i;
  if (rest > 0) {
    StorePart(F::Do(d, a.GetFirst(d, i, rest), b.GetFirst(d, i, rest), c.GetFirst(d, i, rest)), d,
              out + i, rest);
  }
}

// One lane after another, for functions without a vector form.
template <float (*kFunction)(float)>
struct Lanes1 {
  static HWY_INLINE V Do(D d, V x) {
    HWY_ALIGN float lane[hn::MaxLanes(d)];
    hn::Store(x, d, lane);
    for (size_t i = 0; i < hn::Lanes(d); ++i) lane[i] = kFunction(lane[i]);
    return hn::Load(d, lane);
  }
};
// The library's range reduction is good up to 39000.
constexpr float kMostAngle = 39000.0f;

#define SARDONYX_MAP1(Name, expression)                                      \
  struct Name##Of {                                                          \
    static HWY_INLINE V Do([[maybe_unused]] D d, V x) { return expression; } \
  };
SARDONYX_MAP1(Abs, hn::Abs(x))
SARDONYX_MAP1(Neg, hn::Neg(x))
SARDONYX_MAP1(Floor, hn::Floor(x))
SARDONYX_MAP1(Ceil, hn::Ceil(x))
SARDONYX_MAP1(Sqrt, hn::Sqrt(x))
SARDONYX_MAP1(Reciprocal, hn::Div(hn::Set(d, 1.0f), x))
SARDONYX_MAP1(Exp, VecExp(d, x))
SARDONYX_MAP1(Log, VecLog(d, x))
SARDONYX_MAP1(Log1p, VecLog1p(d, x))
SARDONYX_MAP1(Tanh, VecTanh(d, x))
SARDONYX_MAP1(Erf, VecErf(d, x))
SARDONYX_MAP1(Asin, hn::Asin(d, x))
SARDONYX_MAP1(Acos, hn::Acos(d, x))
SARDONYX_MAP1(Atan, hn::Atan(d, x))
SARDONYX_MAP1(Sigmoid, VecSigmoid(d, x))
SARDONYX_MAP1(Relu, AtLeast(d, hn::Zero(d), x))
SARDONYX_MAP1(Cube, hn::Mul(hn::Mul(x, x), x))
SARDONYX_MAP1(GeluTanh, VecGeluTanh(d, x))
SARDONYX_MAP1(Softplus, VecSoftplus(d, x))
SARDONYX_MAP1(Mish, VecMish(d, x))
SARDONYX_MAP1(Softsign, hn::Div(x, hn::Add(hn::Set(d, 1.0f), hn::Abs(x))))
#undef SARDONYX_MAP1

struct RoundOf {
  static HWY_INLINE V Do([[maybe_unused]] D d, V x) {
    return hn::CopySign(hn::Round(x), x);  // -0.3 rounds to -0
  }
};
struct SignOf {
  static HWY_INLINE V Do(D d, V x) {
    const V sign = hn::CopySign(hn::Set(d, 1.0f), x);
    return hn::IfThenElse(hn::Or(hn::Lt(x, hn::Zero(d)), hn::Gt(x, hn::Zero(d))), sign, x);
  }
};
struct SinOf {
  static HWY_INLINE V Do(D d, V x) {
    if (!hn::AllTrue(d, hn::Lt(hn::Abs(x), hn::Set(d, kMostAngle)))) {
      return Lanes1<std::sin>::Do(d, x);
    }
    return hn::Sin(d, x);
  }
};
struct CosOf {
  static HWY_INLINE V Do(D d, V x) {
    if (!hn::AllTrue(d, hn::Lt(hn::Abs(x), hn::Set(d, kMostAngle)))) {
      return Lanes1<std::cos>::Do(d, x);
    }
    return hn::Cos(d, x);
  }
};

#define SARDONYX_MAP2(Name, expression)                                           \
  struct Name##Of {                                                               \
    static HWY_INLINE V Do([[maybe_unused]] D d, V x, V y) { return expression; } \
  };
SARDONYX_MAP2(Add, hn::Add(x, y))
SARDONYX_MAP2(Sub, hn::Sub(x, y))
SARDONYX_MAP2(Mul, hn::Mul(x, y))
SARDONYX_MAP2(Div, hn::Div(x, y))
SARDONYX_MAP2(Mod, VecMod(d, x, y))
SARDONYX_MAP2(FMod, VecFMod(d, x, y))
SARDONYX_MAP2(Min, hn::IfThenElse(hn::Eq(x, x), AtMost(d, x, y), x))
SARDONYX_MAP2(Max, hn::IfThenElse(hn::Eq(x, x), AtLeast(d, x, y), x))
SARDONYX_MAP2(AddRelu, AtLeast(d, hn::Zero(d), hn::Add(x, y)))
SARDONYX_MAP2(Elu, VecElu(d, x, y))
SARDONYX_MAP2(LeakyRelu, VecLeakyRelu(d, x, y))
SARDONYX_MAP2(Threshold, hn::IfThenElseZero(hn::Gt(x, y), x))
#undef SARDONYX_MAP2

struct FmaOf {
  static HWY_INLINE V Do(D, V x, V y, V z) { return hn::MulAdd(x, y, z); }
};
struct ClampOf {
  static HWY_INLINE V Do(D d, V x, V lo, V hi) { return AtMost(d, hi, AtLeast(d, lo, x)); }
};

// A line between bounds, or x times it.
template <bool kGate>
void HardSigmoid(const TileArgs& args) {
  const D d;
  const Source<true> a(d, args.in[1]), b(d, args.in[2]), lo(d, args.in[3]), hi(d, args.in[4]);
  MapTile(args, [&](V v) HWY_ATTR {
    const V line = ClampOf::Do(d, hn::MulAdd(v, a.value, b.value), lo.value, hi.value);
    return kGate ? hn::Mul(v, line) : line;
  });
}

void Swish(const TileArgs& args) {
  const D d;
  const VecSwish<D> swish(d, Source<true>(d, args.in[1]).value);
  MapTile(args, [&](V v) HWY_ATTR { return swish(d, v); });
}

void Gelu(const TileArgs& args) {
  const D d;
  const VecGelu<D> gelu(d, Source<true>(d, args.in[1]).value);
  MapTile(args, [&](V v) HWY_ATTR { return gelu(d, v); });
}

TileFn Find(TileOpcode op, unsigned uniform) {
  using enum TileOpcode;
  if (uniform == 0) {
    switch (op) {
#define SARDONYX_CASE1(Name) \
  case k##Name: return Map1<Name##Of>;
      SARDONYX_CASE1(Abs)
      SARDONYX_CASE1(Neg)
      SARDONYX_CASE1(Sign)
      SARDONYX_CASE1(Floor)
      SARDONYX_CASE1(Ceil)
      SARDONYX_CASE1(Round)
      SARDONYX_CASE1(Sqrt)
      SARDONYX_CASE1(Reciprocal)
      SARDONYX_CASE1(Exp)
      SARDONYX_CASE1(Log)
      SARDONYX_CASE1(Log1p)
      SARDONYX_CASE1(Sin)
      SARDONYX_CASE1(Cos)
      SARDONYX_CASE1(Tanh)
      SARDONYX_CASE1(Erf)
      SARDONYX_CASE1(Asin)
      SARDONYX_CASE1(Acos)
      SARDONYX_CASE1(Atan)
      SARDONYX_CASE1(Sigmoid)
      SARDONYX_CASE1(Relu)
      SARDONYX_CASE1(Cube)
      SARDONYX_CASE1(GeluTanh)
      SARDONYX_CASE1(Softplus)
      SARDONYX_CASE1(Mish)
      SARDONYX_CASE1(Softsign)
#undef SARDONYX_CASE1
      case kAdd: return Map2<AddOf, 0>;
      case kSub: return Map2<SubOf, 0>;
      case kMul: return Map2<MulOf, 0>;
      case kDiv: return Map2<DivOf, 0>;
      case kMod: return Map2<ModOf, 0>;
      case kFMod: return Map2<FModOf, 0>;
      case kMin: return Map2<MinOf, 0>;
      case kMax: return Map2<MaxOf, 0>;
      case kAddRelu: return Map2<AddReluOf, 0>;
      case kElu: return Map2<EluOf, 0>;
      case kLeakyRelu: return Map2<LeakyReluOf, 0>;
      case kThreshold: return Map2<ThresholdOf, 0>;
      case kFma: return Map3<FmaOf, 0>;
      case kClamp: return Map3<ClampOf, 0>;
      // Of a single element; what is uniform is read once.
      case kSwish: return Swish;
      case kGelu: return Gelu;
      case kHardSigmoid: return HardSigmoid<false>;
      case kHardSwish: return HardSigmoid<true>;
      default: return nullptr;
    }
  }
  switch (op) {
    case kAdd: return uniform == 2 ? Map2<AddOf, 2> : nullptr;
    case kMul: return uniform == 2 ? Map2<MulOf, 2> : nullptr;
    case kSub: return uniform == 2 ? Map2<SubOf, 2> : Map2<SubOf, 1>;
    case kDiv: return uniform == 2 ? Map2<DivOf, 2> : Map2<DivOf, 1>;
    case kMin: return uniform == 2 ? Map2<MinOf, 2> : nullptr;
    case kMax: return uniform == 2 ? Map2<MaxOf, 2> : nullptr;
    case kSwish: return uniform == 2 ? Swish : nullptr;
    case kElu: return uniform == 2 ? Map2<EluOf, 2> : nullptr;
    case kLeakyRelu: return uniform == 2 ? Map2<LeakyReluOf, 2> : nullptr;
    case kThreshold: return uniform == 2 ? Map2<ThresholdOf, 2> : nullptr;
    case kGelu: return uniform == 2 ? Gelu : nullptr;
    case kFma:
      return uniform == 2   ? Map3<FmaOf, 2>
             : uniform == 4 ? Map3<FmaOf, 4>
             : uniform == 6 ? Map3<FmaOf, 6>
                            : nullptr;
    case kClamp: return uniform == 6 ? Map3<ClampOf, 6> : nullptr;
    case kHardSigmoid: return uniform == 30 ? HardSigmoid<false> : nullptr;
    case kHardSwish: return uniform == 30 ? HardSigmoid<true> : nullptr;
    default: return nullptr;
  }
}

// ---- 16-bit floats ----

void FromHalf(const TileArgs& args) {
  const uint16_t* in = static_cast<const uint16_t*>(args.in[0]);
  float* out = static_cast<float*>(args.out);
  int64_t i = 0;
#if HWY_TARGET <= HWY_AVX2
  const D d;
  const hn::Rebind<hwy::float16_t, D> dh;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + lanes <= args.count; i += lanes) {
    const auto* p = reinterpret_cast<const hwy::float16_t*>(in + i);
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(dh, p)), d, out + i);
  }
#endif
  for (; i < args.count; ++i) out[i] = HalfToFloat(in[i]);
}

void ToHalf(const TileArgs& args) {
  const float* in = static_cast<const float*>(args.in[0]);
  uint16_t* out = static_cast<uint16_t*>(args.out);
  int64_t i = 0;
#if HWY_TARGET <= HWY_AVX2
  const D d;
  const hn::Rebind<hwy::float16_t, D> dh;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + lanes <= args.count; i += lanes) {
    auto* p = reinterpret_cast<hwy::float16_t*>(out + i);
    hn::StoreU(hn::DemoteTo(dh, hn::LoadU(d, in + i)), dh, p);
  }
#endif
  for (; i < args.count; ++i) out[i] = FloatToHalf(in[i]);
}

TileFn FindHalf(bool to_half) { return to_half ? ToHalf : FromHalf; }

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Find);
HWY_EXPORT(FindHalf);

TileFn FloatTileFn(TileOpcode op, unsigned uniform) {
  const TileFn fn = uniform == 0 ? WideTileFn(op) : nullptr;
  return fn != nullptr ? fn : HWY_DYNAMIC_DISPATCH(Find)(op, uniform);
}

TileFn HalfTileFn(bool to_half) { return HWY_DYNAMIC_DISPATCH(FindHalf)(to_half); }

}  // namespace sardonyx
#endif
