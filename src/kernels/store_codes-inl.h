// Vectors of int32 as integers of 8 or 16 bits in memory, bounded to their range. Included once a
// target, after hwy/highway.h.

#if defined(SARDONYX_STORE_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SARDONYX_STORE_CODES_INL_H_
#undef SARDONYX_STORE_CODES_INL_H_
#else
#define SARDONYX_STORE_CODES_INL_H_
#endif

#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"
#include "kernels/int8_products-inl.h"
#include "kernels/saturated-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

// Writes whole(i), int32 of the elements from i on, as codes y; returns where the whole vectors
// end.
template <typename T, class Whole>
HWY_INLINE int64_t StoreCodes(T* y, int64_t count, const Whole& whole) {
  using D = hn::ScalableTag<int32_t>;
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  int64_t i = 0;
  if constexpr (sizeof(T) == 1 &&
                kLanes > 4) {  // four vectors fill one of bytes, though not in order
    const hn::Repartition<T, D> bytes;
    const hn::RebindToUnsigned<D> words;
    HWY_ALIGN int32_t order[kLanes];
    for (int64_t l = 0; l < kLanes; ++l) {
      order[l] = static_cast<int32_t>(l % (kLanes / 4) * 4 + l / (kLanes / 4));
    }
    const auto indices = hn::SetTableIndices(words, order);
    for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
      const auto v0 = whole(i), v1 = whole(i + kLanes);
      const auto v2 = whole(i + 2 * kLanes), v3 = whole(i + 3 * kLanes);
      const auto packed = PackBytes<T>(v0, v1, v2, v3);
      const auto ordered = hn::TableLookupLanes(hn::BitCast(words, packed), indices);
      hn::StoreU(hn::BitCast(bytes, ordered), bytes, y + i);
    }
  }
#if HWY_TARGET == HWY_AVX2
  if constexpr (sizeof(T) == 2) {  // two vectors fill one, each half of it with halves of both
    for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
      const __m256i first = whole(i).raw, second = whole(i + kLanes).raw;
      const __m256i packed = std::is_signed_v<T> ? _mm256_packs_epi32(first, second)
                                                 : _mm256_packus_epi32(first, second);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i),
                          _mm256_permute4x64_epi64(packed, 0xd8));
    }
  }
#endif
  const hn::Rebind<T, D> codes;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(Saturated<T>(whole(i)), codes, y + i);
  return i;
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SARDONYX_STORE_CODES_INL_H_
