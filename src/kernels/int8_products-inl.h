// Sums of products of bytes or of pairs of int16, for each SIMD target: the one place that knows
// which instructions do it. No guard but Highway's: compiled once a target.
#if defined(SARDONYX_INT8_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SARDONYX_INT8_PRODUCTS_INL_H_
#undef SARDONYX_INT8_PRODUCTS_INL_H_
#else
#define SARDONYX_INT8_PRODUCTS_INL_H_
#endif

#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// sum + the products of neighbours in a and b, int16 that lie in vectors of int32.
template <class V>
HWY_INLINE V AddPairProducts(V sum, V a, V b) {
  const hn::DFromV<V> d;
  const hn::Repartition<int16_t, decltype(d)> pairs;
  const auto a16 = hn::BitCast(pairs, a), b16 = hn::BitCast(pairs, b);
#if HWY_TARGET == HWY_NEON
  // Highway's sums of products do not pair neighbours here.
  return hn::Add(sum, V(vpaddq_s32(vmull_s16(vget_low_s16(a16.raw), vget_low_s16(b16.raw)),
                                   vmull_high_s16(a16.raw, b16.raw))));
#else
  V unused = hn::Zero(d);
  return hn::ReorderWidenMulAccumulate(d, a16, b16, sum, unused);
#endif
}

// AddProducts: sum + the products of each group of a and b. A group of bytes multiplies uint8 by
// int8; a function that uses it carries the attribute SARDONYX_INT8_TILE.
#undef SARDONYX_INT8_TILE
#if HWY_TARGET == HWY_AVX3_DL
constexpr int64_t kGroup = 4;
// Highway 1.0.3 has neither the instruction nor the feature among those of this target, all of
// which Clang wants to hear of again.
#define SARDONYX_INT8_TILE __attribute__((target(HWY_TARGET_STR ",avx512vnni")))
template <class V>
SARDONYX_INT8_TILE inline V AddProducts(V sum, V a, V b) {
  if constexpr (sizeof(V) == 64) {
    return V{_mm512_dpbusd_epi32(sum.raw, a.raw, b.raw)};
  } else {  // GCC 12 makes another instruction (AVX-VNNI) of the intrinsics for shorter vectors
    __asm__("%{evex%} vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "vm"(b.raw));
    return sum;
  }
}
// AddProducts with the group at `b` in all lanes, which need no register: the compiler, who would
// load it into one, copies sums about as well.
template <class V>
SARDONYX_INT8_TILE inline void AddProductsOf(V& sum, V a, const float* b) {
  if constexpr (sizeof(V) == 64) {
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "m"(*b));
  } else {
    __asm__("%{evex%} vpdpbusd %2%{1to8%}, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "m"(*b));
  }
}
// AddPairProducts in one instruction.
template <class V>
SARDONYX_INT8_TILE inline V AddPairs(V sum, V a, V b) {
  static_assert(sizeof(V) == 64);
  return V{_mm512_dpwssd_epi32(sum.raw, a.raw, b.raw)};
}
#else
constexpr int64_t kGroup = 2;
#define SARDONYX_INT8_TILE
template <class V>
HWY_INLINE V AddProducts(V sum, V a, V b) {
  return AddPairProducts(sum, a, b);
}
template <class V>
HWY_INLINE void AddProductsOf(V& sum, V a, const float* b) {
  int32_t group;
  std::memcpy(&group, b, sizeof(group));
  sum = AddPairProducts(sum, a, hn::Set(hn::DFromV<V>(), group));
}
#endif

// The same by AVX-VNNI, where HasAvxVnni(), of groups of four bytes; AddPairs as well. GCC 12 and
// Highway 1.0.3 would want them in a target of their own. Targets without multiply their own
// groups.
#if HWY_TARGET == HWY_AVX2
constexpr bool kMayHaveVnni = true;
template <class V>
HWY_INLINE V AddVnniProducts(V sum, V a, V b) {
  __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum.raw) : "x"(a.raw), "xm"(b.raw));
  return sum;
}
template <class V>
HWY_INLINE V AddPairs(V sum, V a, V b) {
  __asm__("%{vex%} vpdpwssd %2, %1, %0" : "+x"(sum.raw) : "x"(a.raw), "xm"(b.raw));
  return sum;
}
template <class V>
HWY_INLINE void AddVnniProductsOf(V& sum, V a, const float* b) {
  int32_t group;
  std::memcpy(&group, b, sizeof(group));
  sum = AddVnniProducts(sum, a, hn::Set(hn::DFromV<V>(), group));
}
#else
constexpr bool kMayHaveVnni = false;
template <class V>
SARDONYX_INT8_TILE HWY_INLINE V AddVnniProducts(V sum, V a, V b) {
  return AddProducts(sum, a, b);
}
template <class V>
SARDONYX_INT8_TILE HWY_INLINE void AddVnniProductsOf(V& sum, V a, const float* b) {
  AddProductsOf(sum, a, b);
}
#if HWY_TARGET != HWY_AVX3_DL
template <class V>
HWY_INLINE V AddPairs(V sum, V a, V b) {
  return AddPairProducts(sum, a, b);
}
#endif
#endif

// sum + the products of groups of four bytes, of which neighbours are added in int16: exact where
// Int8Excess has what would saturate. Where a group is two int16 this is faster than widening.
#if HWY_TARGET == HWY_AVX2
constexpr bool kAddsBytes = true;
template <class V>
HWY_INLINE V AddByteProducts(V sum, V a, const uint8_t* b) {
  __m256i pairs;  // with b from memory: registers are few, and the compiler would load it into one
  __asm__("vpmaddubsw %2, %1, %0"
          : "=x"(pairs)
          : "x"(a.raw), "m"(*reinterpret_cast<const __m256i*>(b)));
  return hn::Add(sum, V{_mm256_madd_epi16(pairs, _mm256_set1_epi16(1))});
}
#else
constexpr bool kAddsBytes = false;
#endif

// Two vectors of int16 as bytes of type T, bounded to its range: in each 16 bytes eight of each.
template <typename T, class V>
HWY_INLINE auto PackPairs(V a, V b) {
  const hn::Repartition<T, hn::DFromV<V>> d8;
  using Result = hn::Vec<decltype(d8)>;
  [[maybe_unused]] constexpr bool kSigned = T(-1) < T(0);
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  if constexpr (sizeof(V) == 64) {
    return kSigned ? Result{_mm512_packs_epi16(a.raw, b.raw)}
                   : Result{_mm512_packus_epi16(a.raw, b.raw)};
  }
#endif
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  if constexpr (sizeof(V) == 32) {
    return kSigned ? Result{_mm256_packs_epi16(a.raw, b.raw)}
                   : Result{_mm256_packus_epi16(a.raw, b.raw)};
  }
#endif
  if constexpr (sizeof(V) == 16) {
    const hn::Half<decltype(d8)> half;
    return Result(hn::Combine(d8, hn::DemoteTo(half, b), hn::DemoteTo(half, a)));
  }
}

// Four vectors of int32 likewise: in each 16 bytes four of each.
template <typename T, class V>
HWY_INLINE auto PackBytes(V v0, V v1, V v2, V v3) {
  const hn::Repartition<int16_t, hn::DFromV<V>> d16;
  return PackPairs<T>(hn::ReorderDemote2To(d16, v0, v1), hn::ReorderDemote2To(d16, v2, v3));
}

// Rounded to the nearest even; below the range of int32 its least value.
template <class V>
HWY_INLINE auto Nearest(V v) {
  const hn::RebindToSigned<hn::DFromV<V>> d;
  using Result = hn::Vec<decltype(d)>;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  if constexpr (sizeof(V) == 64) return Result{_mm512_cvtps_epi32(v.raw)};
#endif
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  if constexpr (sizeof(V) == 32) return Result{_mm256_cvtps_epi32(v.raw)};
#endif
  if constexpr (sizeof(V) == 16) {
#if HWY_ARCH_X86
    return Result{_mm_cvtps_epi32(v.raw)};
#else
    return Result(hn::NearestInt(v));
#endif
  }
}

// Rounded towards zero, for values inside the range of int32.
template <class V>
HWY_INLINE auto Truncated(V v) {
  const hn::RebindToSigned<hn::DFromV<V>> d;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3  // Highway's looks after values outside too
  if constexpr (sizeof(V) == 64) return hn::Vec<decltype(d)>{_mm512_cvttps_epi32(v.raw)};
#endif
  return hn::ConvertTo(d, v);
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SARDONYX_INT8_PRODUCTS_INL_H_
