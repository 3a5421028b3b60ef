// How elements of float32 join accumulators, and lanes one result. Included once a target, after
// hwy/highway.h.

#if defined(SARDONYX_REDUCE_JOIN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SARDONYX_REDUCE_JOIN_INL_H_
#undef SARDONYX_REDUCE_JOIN_INL_H_
#else
#define SARDONYX_REDUCE_JOIN_INL_H_
#endif

#include <limits>

#include "hwy/highway.h"
#include "kernels/reduce_typed.h"
#include "kernels/row_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {

using ReduceTag = hn::ScalableTag<float>;
using ReduceVector = hn::Vec<ReduceTag>;

// Elements a lane adds in float32 before the sum goes into a wider or compensated one.
constexpr int64_t kChunk = 64;

constexpr bool IsSum(ReduceKind kind) {
  return kind == ReduceKind::kSum || kind == ReduceKind::kL1 || kind == ReduceKind::kSumSquare;
}

// How one element joins an accumulator. AtLeast and AtMost pass a NaN of x alone, so kMax and kMin
// keep one that is there themselves.
template <ReduceKind kKind>
HWY_INLINE ReduceVector Join(ReduceVector acc, ReduceVector x) {
  if constexpr (kKind == ReduceKind::kSum) return hn::Add(acc, x);
  if constexpr (kKind == ReduceKind::kL1) return hn::Add(acc, hn::Abs(x));
  if constexpr (kKind == ReduceKind::kSumSquare) return hn::MulAdd(x, x, acc);
  if constexpr (kKind == ReduceKind::kProd) return hn::Mul(acc, x);
  if constexpr (kKind == ReduceKind::kMax)
    return hn::IfThenElse(hn::IsNaN(acc), acc, AtLeast(ReduceTag(), acc, x));
  if constexpr (kKind == ReduceKind::kMin)
    return hn::IfThenElse(hn::IsNaN(acc), acc, AtMost(ReduceTag(), acc, x));
}

template <ReduceKind kKind>
constexpr float Neutral() {
  if constexpr (kKind == ReduceKind::kProd) return 1.0f;
  if constexpr (kKind == ReduceKind::kMax) return -std::numeric_limits<float>::infinity();
  if constexpr (kKind == ReduceKind::kMin) return std::numeric_limits<float>::infinity();
  return 0.0f;
}

// Of all lanes, sums and products in double; NaN wins in max and min.
template <ReduceKind kKind>
HWY_INLINE double JoinLanes(ReduceVector v) {
  const ReduceTag d;
  if constexpr (kKind == ReduceKind::kSum) {
    const hn::ScalableTag<double> dd;
    return hn::GetLane(
        hn::SumOfLanes(dd, hn::Add(hn::PromoteTo(dd, hn::LowerHalf(v)),
                                   hn::PromoteTo(dd, hn::UpperHalf(hn::Half<ReduceTag>(), v)))));
  }
  HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
  if constexpr (kKind == ReduceKind::kMax || kKind == ReduceKind::kMin) {
    if (!hn::AllFalse(d, hn::IsNaN(v))) return std::numeric_limits<double>::quiet_NaN();
    return hn::GetLane(kKind == ReduceKind::kMax ? hn::MaxOfLanes(d, v) : hn::MinOfLanes(d, v));
  }
  hn::Store(v, d, lanes);
  double acc = lanes[0];
  for (size_t i = 1; i < hn::Lanes(d); ++i) acc = JoinPartial(kKind, acc, double{lanes[i]});
  return acc;
}

}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#endif  // include guard of each target
