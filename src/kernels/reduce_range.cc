#include "kernels/reduce.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_range.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <limits>

#include "base/round.h"
#include "kernels/reduce_join-inl.h"
#include "kernels/slices.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {

FloatRange RangeOf(const float* x, int64_t n) {
  constexpr int kChains = 4;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const ReduceTag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  ReduceVector low[kChains], high[kChains];
  std::fill_n(low, kChains, hn::Set(d, kInfinity));
  std::fill_n(high, kChains, hn::Set(d, -kInfinity));
  const auto join = [&](int k, ReduceVector least, ReduceVector greatest) HWY_ATTR {
    low[k] = Join<ReduceKind::kMin>(low[k], least);
    high[k] = Join<ReduceKind::kMax>(high[k], greatest);
  };
  int64_t i = 0;
  for (; i + kChains * lanes <= n; i += kChains * lanes) {
#pragma GCC unroll 4
    for (int k = 0; k < kChains; ++k) {
      const ReduceVector v = hn::LoadU(d, x + i + k * lanes);
      join(k, v, v);
    }
  }
  for (; i < n; i += lanes) {
    const int64_t rest = std::min(lanes, n - i);
    join(0, LoadPart(d, x + i, rest, kInfinity), LoadPart(d, x + i, rest, -kInfinity));
  }
  for (int k = 1; k < kChains; ++k) join(0, low[k], high[k]);
  return {static_cast<float>(JoinLanes<ReduceKind::kMin>(low[0])),
          static_cast<float>(JoinLanes<ReduceKind::kMax>(high[0]))};
}

}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(RangeOf);

FloatRange Range(const float* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(RangeOf)(x, n); }

FloatRange Range(const float* x, int64_t n, const Parallel& par) {
  // The result is the same however they are cut. kMostTasks: what MostTasks says at most.
  constexpr int64_t kTogether = 64, kCost = kTogether / 4, kMostTasks = 128;
  const int64_t count = CeilDiv(n, kTogether);
  const Slices slices = Slice(count, kCost);
  if (slices.tasks <= 1) return Range(x, n);
  FloatRange ranges[kMostTasks] = {};
  par.For(slices.tasks, [&](int64_t task) {
    const int64_t begin = slices.Begin(task) * kTogether;
    const int64_t end = std::min(n, slices.End(task, count) * kTogether);
    ranges[task] = Range(x + begin, end - begin);
  });
  FloatRange all = ranges[0];
  for (int64_t i = 1; i < slices.tasks; ++i) {
    all.least = JoinPartial(ReduceKind::kMin, all.least, ranges[i].least);
    all.greatest = JoinPartial(ReduceKind::kMax, all.greatest, ranges[i].greatest);
  }
  return all;
}

}  // namespace sardonyx
#endif  // HWY_ONCE
