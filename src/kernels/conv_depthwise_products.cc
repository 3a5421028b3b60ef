// Products of each channel by itself, of which transposed convolutions are sums.

#include "kernels/conv_internal.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv_depthwise_products.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Wide = hn::ScalableTag<float>;
using Narrow = hn::CappedTag<float, 4>;
using One = hn::CappedTag<float, 1>;

template <class D>
HWY_INLINE int64_t AddVectors(D d, const float* x, const float* w, float* y, int64_t c,
                              int64_t channels, bool accumulate) {
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(D()));
  for (; c + kL <= channels; c += kL) {
    const auto sum = accumulate ? hn::LoadU(d, y + c) : hn::Zero(d);
    hn::StoreU(hn::MulAdd(hn::LoadU(d, x + c), hn::LoadU(d, w + c), sum), d, y + c);
  }
  return c;
}

void Products(const float* x, int64_t x_step, const float* w, float* y, int64_t y_step,
              int64_t pixels, int64_t channels, bool accumulate) {
  for (int64_t p = 0; p < pixels; ++p, x += x_step, y += y_step) {
    int64_t c = AddVectors(Wide(), x, w, y, 0, channels, accumulate);
    c = AddVectors(Narrow(), x, w, y, c, channels, accumulate);
    AddVectors(One(), x, w, y, c, channels, accumulate);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Products);

void conv_depthwise::AddProducts(const float* x, int64_t x_step, const float* w, float* y,
                                 int64_t y_step, int64_t pixels, int64_t channels,
                                 bool accumulate) {
  HWY_DYNAMIC_DISPATCH(Products)(x, x_step, w, y, y_step, pixels, channels, accumulate);
}

}  // namespace sardonyx
#endif  // HWY_ONCE
