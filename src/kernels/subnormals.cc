#include "kernels/subnormals.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/subnormals.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Memory is written only where there is something to change, which is hardly ever.
void Zero(float* weights, int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto least = hn::Set(d, std::numeric_limits<float>::min());
  const auto is_below = [&](auto v) HWY_ATTR {
    return hn::AndNot(hn::Eq(v, hn::Zero(d)), hn::Lt(hn::Abs(v), least));
  };
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto v = hn::LoadU(d, weights + i);
    const auto below = is_below(v);
    if (!hn::AllFalse(d, below)) hn::StoreU(hn::IfThenZeroElse(below, v), d, weights + i);
  }
  for (; i < count; ++i) {
    if (weights[i] != 0.0f && std::abs(weights[i]) < std::numeric_limits<float>::min()) {
      weights[i] = 0.0f;
    }
  }
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Zero);

void ZeroSubnormals(float* weights, int64_t count) {
  // Mostly the first is such already.
  const bool has_large =
      std::any_of(weights, weights + count, [](float w) { return std::abs(w) >= 0x1p-60f; });
  if (has_large) HWY_DYNAMIC_DISPATCH(Zero)(weights, count);
}

}  // namespace sardonyx
#endif  // HWY_ONCE
