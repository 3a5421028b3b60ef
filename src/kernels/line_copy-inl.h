// Short lines of an image as kernels of planes copy them. Included once a target, after
// hwy/highway.h.

#if defined(SARDONYX_LINE_COPY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SARDONYX_LINE_COPY_INL_H_
#undef SARDONYX_LINE_COPY_INL_H_
#else
#define SARDONYX_LINE_COPY_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/tile_store-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {

// Zeros from `to` up to `end`, or a vector further. These loops are not to be calls of memset and
// memcpy, which take as long as a line.
HWY_INLINE void ClearLine(float* to, const float* end) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> d;
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
  for (; to < end; to = Kept(to + kLanes)) hn::StoreU(hn::Zero(d), d, to);
}

// to[0:count] = from[0:count].
HWY_INLINE void CopyLine(const float* from, int64_t count, float* to) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> d;
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
  if (count < kLanes) {
    for (; count > 0; --count) *to++ = *from++;
    return;
  }
  const float* const last = from + count - kLanes;
  float* const last_to = to + count - kLanes;
  for (; from < last; from = Kept(from + kLanes), to += kLanes) {
    hn::StoreU(hn::LoadU(d, from), d, to);
  }
  hn::StoreU(hn::LoadU(d, last), d, last_to);
}

// Columns [low, high) of `to` are those at x; those before, and behind up to `end` or a vector
// further, are padding.
HWY_INLINE void CopyPadded(const float* x, int64_t low, int64_t high, float* to, const float* end) {
  ClearLine(to, to + low);
  CopyLine(x, high - low, to + low);
  ClearLine(to + high, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#endif  // include guard of each target
