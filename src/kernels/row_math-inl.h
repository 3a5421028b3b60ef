// What the kernels over rows share on top of kernels/vector_math-inl.h: parts of vectors, joins
// over lanes, the exponential of softmax. Included once a SIMD target by the kernels' sources.
#if defined(SARDONYX_KERNELS_ROW_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SARDONYX_KERNELS_ROW_MATH_INL_H_
#undef SARDONYX_KERNELS_ROW_MATH_INL_H_
#else
#define SARDONYX_KERNELS_ROW_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Whether parts of vectors can be read and written with masks: on AVX2, of wide elements alone.
template <typename T>
constexpr bool kMasksLanes = !HWY_MEM_OPS_MIGHT_FAULT || (HWY_TARGET == HWY_AVX2 && sizeof(T) >= 4);

// The first `count` (less than all) lanes from p, the others `fill`. Reads nothing beyond them.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadPart(D d, const T* p, int64_t count, T fill = T{0}) {
  if constexpr (kMasksLanes<T>) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(count));
    return hn::IfThenElse(mask, hn::MaskedLoad(mask, d, p), hn::Set(d, fill));
  } else {
    HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)];
    hn::Store(hn::Set(d, fill), d, lanes);
    for (int64_t i = 0; i < count; ++i) lanes[i] = p[i];
    return hn::Load(d, lanes);
  }
}

#if HWY_TARGET == HWY_AVX2
// The first `words` of 32 bits, fewer than all. Zen 3 takes 18 cycles for a store with a mask, and
// five for this.
HWY_INLINE void StoreWords(__m128i v, void* p, int64_t words) {
  auto* to = static_cast<char*>(p);
  if ((words & 2) != 0) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), v);
    to += 8;
    v = _mm_unpackhi_epi64(v, v);
  }
  const int32_t last = _mm_cvtsi128_si32(v);
  if ((words & 1) != 0) std::memcpy(to, &last, sizeof(last));
}
HWY_INLINE void StoreWords(__m256i v, void* p, int64_t words) {
  auto* to = static_cast<__m128i*>(p);
  if ((words & 4) == 0) return StoreWords(_mm256_castsi256_si128(v), to, words);
  _mm_storeu_si128(to, _mm256_castsi256_si128(v));
  StoreWords(_mm256_extracti128_si256(v, 1), to + 1, words);
}
#endif

// Writes the first `count` lanes and nothing else.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void StorePart(hn::Vec<D> v, D d, T* p, int64_t count) {
  if constexpr (HWY_TARGET == HWY_AVX2 && kMasksLanes<T>) {
    if (count == static_cast<int64_t>(hn::MaxLanes(d))) return hn::StoreU(v, d, p);
    const auto words = hn::BitCast(hn::Repartition<int32_t, D>(), v);
    StoreWords(words.raw, p, count * static_cast<int64_t>(sizeof(T) / 4));
  } else if constexpr (kMasksLanes<T>) {
    hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(count)), d, p);
  } else {
    HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)];
    hn::Store(v, d, lanes);
    for (int64_t i = 0; i < count; ++i) p[i] = lanes[i];
  }
}

// The same by whole stores of powers of two: a load of what lies behind, as of the next row where x
// is written over, would wait for a store with a mask (Zen 4: rows of 17 take half of the time).
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void StorePieces(hn::Vec<D> v, D d, T* p, int64_t count) {
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  if constexpr (kLanes == 1) {
    if (count != 0) hn::StoreU(v, d, p);
  } else {
    const hn::Half<D> half;
    if (count >= kLanes / 2) {
      hn::StoreU(hn::LowerHalf(half, v), half, p);
      if (count == kLanes / 2) return;
      return StorePieces(hn::UpperHalf(half, v), half, p + kLanes / 2, count - kLanes / 2);
    }
    StorePieces(hn::LowerHalf(half, v), half, p, count);
  }
}

template <class D>
HWY_INLINE hn::TFromD<D> SumLanes(D d, hn::Vec<D> v) {
  return hn::GetLane(hn::SumOfLanes(d, v));
}
template <class D>
HWY_INLINE hn::TFromD<D> MaxLane(D d, hn::Vec<D> v) {
  return hn::GetLane(hn::MaxOfLanes(d, v));
}

// e^x for x <= 0, or NaN. What is below 1e-38 becomes 0: subnormal terms add nothing to a sum that
// holds e^0, and are slow.
template <class D>
HWY_INLINE hn::Vec<D> ExpNonPositive(D d, hn::Vec<D> x) {
  const auto bound = hn::Set(d, -87.3f);
  const auto inside = AtLeast(d, bound, x);
  const NearestPower<D> near(d, inside, hn::Set(d, kLog2E));
  const auto r = MinusLn2(d, near.n, inside);
#if HWY_TARGET <= HWY_AVX3
  const auto one = hn::Set(d, 1.0f), half = hn::Set(d, 0.5f);
  const auto square = hn::MulAdd(r, hn::Set(d, 1.0f / 6), half);
  const auto p = hn::MulAdd(r, hn::MulAdd(r, square, one), one);
#else
  const auto p = Polynomial(
      d, r, {1.0f, 1.0f, 0.49999994f, 0.1666652f, 0.041668393f, 0.008368781f, 0.0013814465f});
#endif
  return hn::IfThenZeroElse(hn::Lt(x, bound), hn::Mul(near.power, p));
}

}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
