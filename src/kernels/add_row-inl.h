// A row of floats added to another.

// One definition for each SIMD target.
#if defined(SARDONYX_KERNELS_ADD_ROW_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SARDONYX_KERNELS_ADD_ROW_INL_H
#undef SARDONYX_KERNELS_ADD_ROW_INL_H
#else
#define SARDONYX_KERNELS_ADD_ROW_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE int64_t AddVectors(D d, const float* from, int64_t i, int64_t count, float* to) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::Add(hn::LoadU(d, to + i), hn::LoadU(d, from + i)), d, to + i);
  }
  return i;
}

// to[i] += from[i] for i < count, by vectors of powers of two.
HWY_INLINE void AddRow(const float* from, int64_t count, float* to) {
  int64_t i = AddVectors(hn::ScalableTag<float>(), from, 0, count, to);
  i = AddVectors(hn::CappedTag<float, 8>(), from, i, count, to);
  i = AddVectors(hn::CappedTag<float, 4>(), from, i, count, to);
  i = AddVectors(hn::CappedTag<float, 2>(), from, i, count, to);
  AddVectors(hn::CappedTag<float, 1>(), from, i, count, to);
}

}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SARDONYX_KERNELS_ADD_ROW_INL_H
