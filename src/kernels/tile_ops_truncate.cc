// Floating point to integers, and float64 to fewer bits, on tiles.
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/tile_ops_truncate.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/cast.h"
#include "base/dtype.h"
#include "kernels/saturated-inl.h"
#include "kernels/store_codes-inl.h"
#include "kernels/tile_ops.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// As ConvertElements does it: truncated, NaN to 0, beyond the range to its end.
template <class D, typename To, typename From>
HWY_INLINE void TruncateVector(D d, const From* HWY_RESTRICT in, To* HWY_RESTRICT out) {
  hn::Vec<D> x;
  if constexpr (std::is_same_v<From, hn::TFromD<D>>) {
    x = hn::LoadU(d, in);
  } else {
    x = hn::PromoteTo(d, hn::LoadU(hn::Rebind<From, D>(), in));
  }
  [[maybe_unused]] const auto number = hn::IfThenElseZero(hn::Eq(x, x), x);
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  if constexpr (std::is_same_v<To, uint32_t> && std::is_same_v<From, float>) {
    const hn::RebindToUnsigned<D> to;
    const auto positive = hn::Max(number, hn::Zero(d));
    return hn::StoreU(hn::Vec<decltype(to)>{_mm512_cvttps_epu32(positive.raw)}, to, out);
  }
#endif
#if HWY_TARGET == HWY_AVX2
  if constexpr (std::is_same_v<To, uint32_t> && std::is_same_v<From, float>) {
    // Numbers of the upper half as if they began at 0; what lies beyond becomes all ones. Of NaN
    // the maximum is the second operand.
    const __m256 half = _mm256_set1_ps(0x1p31f), most = _mm256_set1_ps(0x1p32f);
    const __m256 positive = _mm256_max_ps(x.raw, _mm256_setzero_ps());
    const __m256 high = _mm256_cmp_ps(positive, half, _CMP_GE_OQ);
    const __m256 beyond = _mm256_cmp_ps(positive, most, _CMP_GE_OQ);
    const __m256i low = _mm256_cvttps_epi32(_mm256_sub_ps(positive, _mm256_and_ps(high, half)));
    const __m256i bit = _mm256_slli_epi32(_mm256_castps_si256(high), 31);
    const __m256i all = _mm256_or_si256(_mm256_xor_si256(low, bit), _mm256_castps_si256(beyond));
    return _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), all);
  }
#endif
#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX3
  // Without a conversion to 64 bits: most numbers fit into 32.
  if constexpr (sizeof(To) == 8) {
    const auto fitting = std::is_unsigned_v<To> ? hn::Max(number, hn::Zero(d)) : number;
    const auto limit = hn::Set(d, 0x1p31);
    if (HWY_LIKELY(hn::AllTrue(d, hn::Lt(hn::Abs(fitting), limit)))) {
      const hn::Rebind<int64_t, D> d64;
      const auto narrow = hn::DemoteTo(hn::Rebind<int32_t, D>(), fitting);
      const auto wide = hn::PromoteTo(d64, narrow);
      return hn::StoreU(hn::BitCast(hn::Rebind<To, D>(), wide), hn::Rebind<To, D>(), out);
    }
  }
#endif
  if constexpr (std::is_unsigned_v<To> && sizeof(To) >= 4) {
    using TFrom = hn::TFromD<D>;
    // Without a conversion to these: numbers of the upper half as if they began at 0, and the
    // highest bit by itself.
    const auto half = hn::Set(d, sizeof(To) == 4 ? TFrom{0x1p31} : TFrom{0x1p63});
    const auto high = hn::Ge(number, half);
    const auto positive = hn::Max(number, hn::Zero(d));
    const auto low = hn::IfThenElse(high, hn::Sub(number, half), positive);
    const auto signed_of = [=](auto v) {
      if constexpr (sizeof(To) == sizeof(hn::TFromD<D>)) {
        return hn::ConvertTo(hn::RebindToSigned<D>(), v);
      } else {
        return hn::DemoteTo(hn::Rebind<int32_t, D>(), v);
      }
    };
    const hn::Rebind<To, D> to;
    const auto bit = signed_of(hn::IfThenElseZero(high, hn::Neg(half)));
    hn::StoreU(hn::BitCast(to, hn::Xor(signed_of(low), bit)), to, out);
  } else if constexpr (sizeof(To) == sizeof(hn::TFromD<D>)) {
    hn::StoreU(hn::ConvertTo(hn::RebindToSigned<D>(), number), hn::RebindToSigned<D>(), out);
  } else if constexpr (sizeof(hn::TFromD<D>) == 4) {
    const hn::Rebind<To, D> to;
    hn::StoreU(Saturated<To>(hn::ConvertTo(hn::RebindToSigned<D>(), number)), to, out);
  } else {
    const hn::Rebind<int32_t, D> d32;
    const hn::Rebind<To, D> to;
    const auto wide = hn::DemoteTo(d32, number);
    if constexpr (sizeof(To) == 4) {
      hn::StoreU(wide, d32, out);
    } else {
      hn::StoreU(Saturated<To>(wide), to, out);
    }
  }
}

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
// Integers of 8 or 16 bits by whole vectors: what lies below becomes INT32_MIN, and then the type's
// end as it is packed. Of two operands one of which is NaN the minimum is the second.
template <typename To>
HWY_INLINE auto TruncatedBelow(const float* HWY_RESTRICT in) {
  const __m512 x = _mm512_loadu_ps(in);
  const __m512 bounded = _mm512_min_ps(_mm512_set1_ps(std::numeric_limits<To>::max()), x);
  const __mmask16 numbers = _mm512_cmp_ps_mask(x, x, _CMP_ORD_Q);
  return hn::Vec<hn::ScalableTag<int32_t>>{_mm512_maskz_cvttps_epi32(numbers, bounded)};
}
template <typename To>
HWY_INLINE int64_t TruncateBlocks(const float* HWY_RESTRICT in, To* HWY_RESTRICT out,
                                  int64_t count) {
  return StoreCodes(out, count, [in](int64_t i) { return TruncatedBelow<To>(in + i); });
}
#endif
#if HWY_TARGET == HWY_AVX2
// Integers of 8 or 16 bits, and of 32 from float64, by whole vectors: what lies below becomes
// INT32_MIN, as does NaN, and then the type's end as it is packed. Of two operands one of which is
// NaN the minimum is the second.
template <typename To>
HWY_INLINE auto TruncatedBelow(const float* HWY_RESTRICT in) {
  __m256 x = _mm256_loadu_ps(in);
  if constexpr (std::is_signed_v<To>) x = _mm256_and_ps(x, _mm256_cmp_ps(x, x, _CMP_ORD_Q));
  x = _mm256_min_ps(_mm256_set1_ps(std::numeric_limits<To>::max()), x);
  return hn::Vec<hn::ScalableTag<int32_t>>{_mm256_cvttps_epi32(x)};
}
template <typename To>
HWY_INLINE __m128i TruncatedBelow(const double* HWY_RESTRICT in) {
  __m256d x = _mm256_loadu_pd(in);
  if constexpr (std::is_signed_v<To>) x = _mm256_and_pd(x, _mm256_cmp_pd(x, x, _CMP_ORD_Q));
  return _mm256_cvttpd_epi32(_mm256_min_pd(_mm256_set1_pd(std::numeric_limits<To>::max()), x));
}

// Returns where the whole blocks end.
template <typename To>
HWY_INLINE int64_t TruncateBlocks(const float* HWY_RESTRICT in, To* HWY_RESTRICT out,
                                  int64_t count) {
  return StoreCodes(out, count, [in](int64_t i) { return TruncatedBelow<To>(in + i); });
}
template <typename To>
HWY_INLINE int64_t TruncateBlocks(const double* HWY_RESTRICT in, To* HWY_RESTRICT out,
                                  int64_t count) {
  if constexpr (sizeof(To) == 4) {
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
      const __m128i first = TruncatedBelow<To>(in + i), second = TruncatedBelow<To>(in + i + 4);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), _mm256_set_m128i(second, first));
    }
    return i;
  }
  const auto eight = [in](int64_t i) {
    const __m128i first = TruncatedBelow<To>(in + i), second = TruncatedBelow<To>(in + i + 4);
    return std::is_same_v<To, uint16_t> ? _mm_packus_epi32(first, second)
                                        : _mm_packs_epi32(first, second);
  };
  constexpr int64_t kBlock = 16 / sizeof(To);
  int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    __m128i packed = eight(i);
    if constexpr (sizeof(To) == 1) {
      const __m128i more = eight(i + 8);
      packed =
          std::is_signed_v<To> ? _mm_packs_epi16(packed, more) : _mm_packus_epi16(packed, more);
    }
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), packed);
  }
  return i;
}
#endif

template <typename From, typename To>
void Truncate(const TileArgs& args) {
  const hn::ScalableTag<std::conditional_t<sizeof(To) == 8, double, From>> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), count = args.count;
  const From* in = static_cast<const From*>(args.in[0]);
  To* out = static_cast<To*>(args.out);
  int64_t i = 0;
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  if constexpr (sizeof(To) <= 2 && std::is_same_v<From, float>) i = TruncateBlocks(in, out, count);
#elif HWY_TARGET == HWY_AVX2
  constexpr bool kIntsOfDoubles = std::is_same_v<From, double> && std::is_same_v<To, int32_t>;
  if constexpr (sizeof(To) <= 2 || kIntsOfDoubles) i = TruncateBlocks(in, out, count);
#endif
  for (; i + lanes <= count; i += lanes) TruncateVector(d, in + i, out + i);
  if (i == count) return;
  From last[hn::MaxLanes(d)] = {};
  To result[hn::MaxLanes(d)];
  std::memcpy(last, in + i, static_cast<size_t>(count - i) * sizeof(From));
  TruncateVector(d, last, result);
  std::memcpy(out + i, result, static_cast<size_t>(count - i) * sizeof(To));
}

// As sardonyx::RoundToOdd does it.
void RoundToOddTile(const TileArgs& args) {
  const hn::ScalableTag<double> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<float, decltype(d)> df;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), count = args.count;
  const double* in = static_cast<const double*>(args.in[0]);
  float* out = static_cast<float*>(args.out);
  const auto left_out = hn::Set(du, 0x1fffffff), last_bit = hn::Set(du, 0x20000000);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto x = hn::LoadU(d, in + i);
    // Floats below the normal ones have fewer bits than are kept here.
    const auto is_small = hn::Lt(hn::Abs(x), hn::Set(d, 0x1p-126));
    if (HWY_UNLIKELY(!hn::AllFalse(d, hn::And(is_small, hn::Ne(x, hn::Zero(d)))))) {
      std::transform(in + i, in + i + lanes, out + i, sardonyx::RoundToOdd);
      continue;
    }
    const auto bits = hn::BitCast(du, x), kept = hn::AndNot(left_out, bits);
    const auto is_exact = hn::Eq(kept, bits);
    const auto odd = hn::IfThenElse(is_exact, kept, hn::Or(kept, last_bit));
    hn::StoreU(hn::DemoteTo(df, hn::BitCast(d, odd)), df, out + i);
  }
  std::transform(in + i, in + count, out + i, sardonyx::RoundToOdd);
}

TileFn FindRoundToOdd() { return RoundToOddTile; }

template <typename From>
TileFn FindTo(DType to) {
  switch (to) {
    case DType::kInt8: return Truncate<From, int8_t>;
    case DType::kUInt8: return Truncate<From, uint8_t>;
    case DType::kInt16: return Truncate<From, int16_t>;
    case DType::kUInt16: return Truncate<From, uint16_t>;
    case DType::kInt32: return Truncate<From, int32_t>;
    case DType::kUInt32: return Truncate<From, uint32_t>;
    case DType::kInt64: return Truncate<From, int64_t>;
    case DType::kUInt64: return Truncate<From, uint64_t>;
    default: return nullptr;
  }
}

TileFn Find(DType from, DType to) {
  return from == DType::kFloat32   ? FindTo<float>(to)
         : from == DType::kFloat64 ? FindTo<double>(to)
                                   : nullptr;
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Find);
HWY_EXPORT(FindRoundToOdd);
TileFn TruncateTileFn(DType from, DType to) { return HWY_DYNAMIC_DISPATCH(Find)(from, to); }

TileFn RoundToOddTileFn() { return HWY_DYNAMIC_DISPATCH(FindRoundToOdd)(); }

}  // namespace sardonyx
#endif
