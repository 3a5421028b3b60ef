// Tiles of codes of 8 and 16 bits to the real numbers they stand for, and back; sums and products
// of bytes.
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/tile_ops_quantize.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/int8_products-inl.h"
#include "kernels/saturated-inl.h"
#include "kernels/store_codes-inl.h"
#include "kernels/tile_ops.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<D>;
using V = hn::Vec<D>;
using VI = hn::Vec<DI>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));

// The elements behind the last whole vector, copied so that a vector can be read; a uniform operand
// as it is.
template <bool kUniform, typename T>
HWY_INLINE const T* Rest(const void* from, int64_t i, int64_t count, T* copy) {
  if (kUniform) return static_cast<const T*>(from);
  std::memcpy(copy, static_cast<const T*>(from) + i, static_cast<size_t>(count) * sizeof(T));
  return copy;
}

// ---- (x - zero point) * scale, and what is added to it ----

enum class Addend : uint8_t { kNone, kTile, kUniform };

template <typename T, bool kZero, bool kScale, Addend kAddend>  // uniform: zero point, scale
struct Dequantizer {
  VI zero;
  V scale;
  V addend;
  Dequantizer(const int32_t* z, const float* s, const float* t)
      : zero(hn::Set(DI(), *z)),
        scale(hn::Set(D(), *s)),
        addend(hn::Set(D(), kAddend == Addend::kUniform ? *t : 0)) {}
  HWY_INLINE void Do(const T* x, const int32_t* z, const float* s, [[maybe_unused]] const float* t,
                     float* y) const {
    const D d;
    const DI di;
    VI whole;
    if constexpr (sizeof(T) == 4) {
      whole = hn::LoadU(di, x);
    } else {
      whole = hn::PromoteTo(di, hn::LoadU(hn::Rebind<T, D>(), x));
    }
    const V centred = hn::ConvertTo(d, hn::Sub(whole, kZero ? zero : hn::LoadU(di, z)));
    const V factor = kScale ? scale : hn::LoadU(d, s);
    if constexpr (kAddend == Addend::kNone) {
      hn::StoreU(hn::Mul(centred, factor), d, y);
    } else {
      const V added = kAddend == Addend::kUniform ? addend : hn::LoadU(d, t);
      hn::StoreU(hn::MulAdd(centred, factor, added), d, y);
    }
  }
};

template <typename T, bool kZero, bool kScale, Addend kAddend>
void Dequantize(const TileArgs& args) {
  constexpr bool kMoves = kAddend == Addend::kTile;
  const auto* x = static_cast<const T*>(args.in[0]);
  const auto* z = static_cast<const int32_t*>(args.in[1]);
  const auto* s = static_cast<const float*>(args.in[2]);
  const auto* t = kAddend == Addend::kNone ? nullptr : static_cast<const float*>(args.in[3]);
  auto* y = static_cast<float*>(args.out);
  const Dequantizer<T, kZero, kScale, kAddend> dequantizer(z, s, t);
  int64_t i = 0;
  for (; i + kLanes <= args.count; i += kLanes) {
    dequantizer.Do(x + i, z + (kZero ? 0 : i), s + (kScale ? 0 : i), kMoves ? t + i : t, y + i);
  }
  const int64_t rest = args.count - i;
  if (rest == 0) return;
  T last_x[kLanes] = {};
  int32_t last_z[kLanes] = {};
  float last_s[kLanes] = {}, last_t[kLanes] = {}, last_y[kLanes];
  dequantizer.Do(Rest<false>(x, i, rest, last_x), Rest<kZero>(z, i, rest, last_z),
                 Rest<kScale>(s, i, rest, last_s), Rest<!kMoves>(t, i, rest, last_t), last_y);
  std::memcpy(y + i, last_y, static_cast<size_t>(rest) * sizeof(float));
}

// ---- min(max(round(x / scale) + zero point, low), high), as a code; NaN gives 0 ----

enum class Division : uint8_t { kNone, kReciprocal, kDivide };

// Rounding the quotient of a reciprocal once more makes it what division gives, where nothing
// overflows (Markstein, IBM Journal of Research and Development 34, 1990).
Division DivisionBy([[maybe_unused]] float scale) {
  if (scale == 1) return Division::kNone;
#if HWY_TARGET == HWY_NEON || HWY_TARGET <= HWY_AVX2  // fused multiply-add
  if (std::abs(scale) > 1e-15f && std::abs(scale) < 1e15f) return Division::kReciprocal;
#endif
  return Division::kDivide;
}

// kZero, kScale: these are uniform; kBounds: narrower than the type.
template <typename T, bool kZero, bool kScale, Division kDivision, bool kBounds>
struct Quantizer {
  const V scale, reciprocal, most, zero, low, high;
  Quantizer(const float* s, const float* z, const float* lo, const float* hi)
      : scale(hn::Set(D(), *s)),
        reciprocal(hn::Set(D(), 1 / *s)),
        most(hn::Set(D(), std::abs(*s) * 1e6f)),
        zero(hn::Set(D(), *z)),
        low(hn::Set(D(), *lo)),
        high(hn::Set(D(), *hi)) {}

  HWY_INLINE V Bounded(V x, V bound) const { return hn::Min(hn::Max(x, hn::Neg(bound)), bound); }

  HWY_INLINE VI Whole(V x, const float* s, const float* z) const {
    const D d;
    const DI di;
    V quotient;
    hn::Mask<D> is_number = hn::Eq(x, x);
    if constexpr (kDivision == Division::kReciprocal) {
      const V bounded = Bounded(x, most);
      const V near = hn::Mul(bounded, reciprocal);
      quotient = hn::MulAdd(hn::NegMulAdd(near, scale, bounded), reciprocal, near);
    } else if constexpr (kDivision == Division::kDivide) {
      quotient = hn::Div(x, kScale ? scale : hn::LoadU(d, s));
      is_number = hn::Eq(quotient, quotient);
      quotient = Bounded(quotient, hn::Set(d, 1e6f));
    } else {
      quotient = Bounded(x, most);
    }
    V value = hn::Add(hn::Round(quotient), kZero ? zero : hn::LoadU(d, z));
    if constexpr (kBounds) value = hn::Min(hn::Max(value, low), high);
    return hn::IfThenElseZero(hn::RebindMask(di, is_number), Truncated(value));
  }
  HWY_INLINE void Do(const float* x, const float* s, const float* z, T* y) const {
    const VI whole = Whole(hn::LoadU(D(), x), s, z);
    hn::StoreU(Saturated<T>(whole), hn::Rebind<T, D>(), y);
  }
};

template <typename T, bool kZero, bool kScale, Division kDivision, bool kBounds>
HWY_INLINE void RunQuantize(const TileArgs& args) {
  const auto* x = static_cast<const float*>(args.in[0]);
  const auto* s = static_cast<const float*>(args.in[1]);
  const auto* z = static_cast<const float*>(args.in[2]);
  auto* y = static_cast<T*>(args.out);
  const Quantizer<T, kZero, kScale, kDivision, kBounds> quantizer(
      s, z, static_cast<const float*>(args.in[3]), static_cast<const float*>(args.in[4]));
  const auto advance = [](const float* p, bool uniform, int64_t i) { return uniform ? p : p + i; };
  const int64_t i = StoreCodes(y, args.count, [&](int64_t at) HWY_ATTR {
    return quantizer.Whole(hn::LoadU(D(), x + at), advance(s, kScale, at), advance(z, kZero, at));
  });
  const int64_t rest = args.count - i;
  if (rest == 0) return;
  float last_x[kLanes] = {}, last_s[kLanes] = {}, last_z[kLanes] = {};
  T last_y[kLanes];
  quantizer.Do(Rest<false>(x, i, rest, last_x), Rest<kScale>(s, i, rest, last_s),
               Rest<kZero>(z, i, rest, last_z), last_y);
  std::memcpy(y + i, last_y, static_cast<size_t>(rest) * sizeof(T));
}

template <typename T, bool kScale, bool kZero>
void Quantize(const TileArgs& args) {
  const float low = *static_cast<const float*>(args.in[3]);
  const float high = *static_cast<const float*>(args.in[4]);
  const bool bounds = low > static_cast<float>(std::numeric_limits<T>::min()) ||
                      high < static_cast<float>(std::numeric_limits<T>::max());
  const auto run = [&]<Division kDivision>() HWY_ATTR {
    bounds ? RunQuantize<T, kZero, kScale, kDivision, true>(args)
           : RunQuantize<T, kZero, kScale, kDivision, false>(args);
  };
  if constexpr (kScale) {
    switch (DivisionBy(*static_cast<const float*>(args.in[1]))) {
      case Division::kNone: return run.template operator()<Division::kNone>();
      case Division::kReciprocal: return run.template operator()<Division::kReciprocal>();
      case Division::kDivide: break;
    }
  }
  run.template operator()<Division::kDivide>();
}

// ---- sums and products of centred bytes, as bytes ----

template <typename T, bool kProduct>
void OfBytes(const TileArgs& args) {
  const D d;
  const DI di;
  const auto* a = static_cast<const T*>(args.in[0]);
  const auto* b = static_cast<const T*>(args.in[1]);
  const auto* of_a = static_cast<const float*>(args.in[2]);
  const auto* of_b = static_cast<const float*>(args.in[3]);
  const V zero_a = hn::Set(d, of_a[0]), factor_a = hn::Set(d, of_a[1]);
  const V zero_b = hn::Set(d, of_b[0]), factor_b = hn::Set(d, of_b[1]);
  const VI zero = hn::Set(di, *static_cast<const int32_t*>(args.in[4]));
  const auto centred = [&](const T* x, V zero_point) HWY_ATTR {
    const VI wide = hn::PromoteTo(di, hn::LoadU(hn::Rebind<T, D>(), x));
    return hn::Sub(hn::ConvertTo(d, wide), zero_point);
  };
  const auto whole = [&](const T* one, const T* other) HWY_ATTR {
    const V x = centred(one, zero_a), y = centred(other, zero_b);
    const V real =
        kProduct ? hn::Mul(hn::Mul(x, y), factor_a) : hn::MulAdd(x, factor_a, hn::Mul(y, factor_b));
    return hn::Add(Nearest(real), zero);
  };
  auto* y = static_cast<T*>(args.out);
  const int64_t i =
      StoreCodes(y, args.count, [&](int64_t at) HWY_ATTR { return whole(a + at, b + at); });
  const int64_t rest = args.count - i;
  if (rest == 0) return;
  T last_a[kLanes] = {}, last_b[kLanes] = {}, last_y[kLanes];
  const hn::Rebind<T, D> bytes;
  const VI last = whole(Rest<false>(a, i, rest, last_a), Rest<false>(b, i, rest, last_b));
  hn::StoreU(Saturated<T>(last), bytes, last_y);
  std::memcpy(y + i, last_y, static_cast<size_t>(rest) * sizeof(T));
}

template <typename T>
TileFn FindDequantize(TileOpcode op, unsigned uniform) {
  if (op == TileOpcode::kDequantizeAdd) {
    switch (uniform) {
      case 0: return Dequantize<T, false, false, Addend::kTile>;
      case 6: return Dequantize<T, true, true, Addend::kTile>;
      case 14: return Dequantize<T, true, true, Addend::kUniform>;
      default: return nullptr;
    }
  }
  switch (uniform) {
    case 0: return Dequantize<T, false, false, Addend::kNone>;
    case 2: return Dequantize<T, true, false, Addend::kNone>;
    case 4: return Dequantize<T, false, true, Addend::kNone>;
    case 6: return Dequantize<T, true, true, Addend::kNone>;
    default: return nullptr;
  }
}

template <typename T>
TileFn FindQuantize(unsigned uniform) {
  switch (uniform) {
    case 0:
    case 24: return Quantize<T, false, false>;
    case 26: return Quantize<T, true, false>;
    case 28: return Quantize<T, false, true>;
    case 30: return Quantize<T, true, true>;
    default: return nullptr;
  }
}

TileFn Find(TileOpcode op, DType codes, unsigned uniform) {
  const bool dequantizes = op == TileOpcode::kDequantize || op == TileOpcode::kDequantizeAdd;
  const auto find = [&]<typename T>(T) -> TileFn {
    if (dequantizes) return FindDequantize<T>(op, uniform);
    if constexpr (sizeof(T) < 4) {
      if (op == TileOpcode::kQuantize) return FindQuantize<T>(uniform);
    }
    if constexpr (sizeof(T) == 1) {
      if ((uniform & 3) != 0) return nullptr;
      return op == TileOpcode::kSumOfBytes ? OfBytes<T, false> : OfBytes<T, true>;
    }
    return nullptr;
  };
  switch (codes) {
    case DType::kInt8: return find(int8_t{});
    case DType::kUInt8: return find(uint8_t{});
    case DType::kInt16: return find(int16_t{});
    case DType::kUInt16: return find(uint16_t{});
    case DType::kInt32: return find(int32_t{});
    default: return nullptr;
  }
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Find);
TileFn QuantizeTileFn(TileOpcode op, DType codes, unsigned uniform) {
  return HWY_DYNAMIC_DISPATCH(Find)(op, codes, uniform);
}

}  // namespace sardonyx
#endif
