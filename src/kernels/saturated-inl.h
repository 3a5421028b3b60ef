// Integers of 32 bits as narrower ones, bounded to their range. Included once a target, after
// hwy/highway.h.

#if defined(SARDONYX_SATURATED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SARDONYX_SATURATED_INL_H_
#undef SARDONYX_SATURATED_INL_H_
#else
#define SARDONYX_SATURATED_INL_H_
#endif

#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {

// As many elements of type T as v has.
template <typename T, class V>
HWY_INLINE auto Saturated(V v) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::DFromV<V> d;
  static_assert(std::is_same_v<hn::TFromD<decltype(d)>, int32_t>);
  // On x86 Highway 1.0.3 makes 0 to 255 of 2^15 to 2^15 + 255.
  if constexpr (std::is_same_v<T, uint8_t>) v = hn::Min(v, hn::Set(d, 255));
  return hn::DemoteTo(hn::Rebind<T, decltype(d)>(), v);
}

}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#endif
