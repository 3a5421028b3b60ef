// How elements of every type but float32 join accumulators, and lanes one result. Included once a
// target, after hwy/highway.h.

#if defined(SARDONYX_REDUCE_TYPED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SARDONYX_REDUCE_TYPED_INL_H_
#undef SARDONYX_REDUCE_TYPED_INL_H_
#else
#define SARDONYX_REDUCE_TYPED_INL_H_
#endif

#include <limits>

#include "hwy/highway.h"
#include "kernels/reduce_typed.h"
#include "kernels/row_math-inl.h"
#include "kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {

// Elements as lanes of the accumulator's type, widened if they are narrower.
template <class D, typename T, typename A = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadAs(D d, const T* p) {
  const hn::Rebind<T, D> from;
  if constexpr (sizeof(T) == sizeof(A)) {
    return hn::BitCast(d, hn::LoadU(from, p));
  } else if constexpr (std::is_signed_v<T>) {
    return hn::BitCast(d, hn::PromoteTo(hn::RebindToSigned<D>(), hn::LoadU(from, p)));
  } else {
    return hn::BitCast(d, hn::PromoteTo(hn::RebindToUnsigned<D>(), hn::LoadU(from, p)));
  }
}

template <ReduceKind kKind, class D, class V = hn::Vec<D>>
HWY_INLINE V Join(D d, V acc, V x) {
  constexpr bool kIsFloat = std::is_floating_point_v<hn::TFromD<D>>;
  if constexpr (kKind == ReduceKind::kSum) return hn::Add(acc, x);
  if constexpr (kKind == ReduceKind::kProd) return hn::Mul(acc, x);
  if constexpr (kKind == ReduceKind::kSumSquare) return hn::Add(acc, hn::Mul(x, x));
  if constexpr (kKind == ReduceKind::kL1) {
    if constexpr (kIsFloat) return hn::Add(acc, hn::Abs(x));
    const hn::RebindToSigned<D> ds;
    return hn::Add(acc, hn::BitCast(d, hn::Abs(hn::BitCast(ds, x))));
  }
  constexpr bool kMax = kKind == ReduceKind::kMax;
  if constexpr (kIsFloat) {
    return hn::IfThenElse(hn::IsNaN(acc), acc, kMax ? AtLeast(d, acc, x) : AtMost(d, acc, x));
  }
  return kMax ? hn::Max(acc, x) : hn::Min(acc, x);
}

// How results of parts join: squares are not squared again.
constexpr ReduceKind Plain(ReduceKind kind) {
  return kind == ReduceKind::kSumSquare || kind == ReduceKind::kL1 ? ReduceKind::kSum : kind;
}

// Of all lanes. By halves: GCC's own sums of 512 bits are undefined where integers wrap.
template <class D, class V>
HWY_INLINE hn::TFromD<D> SumHalves(D d, V v) {
  if constexpr (hn::MaxLanes(D()) * sizeof(hn::TFromD<D>) > 16) {
    const hn::Half<D> half;
    return SumHalves(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else {
    return hn::GetLane(hn::SumOfLanes(d, v));
  }
}

template <ReduceKind kKind, class D, typename A = hn::TFromD<D>>
HWY_INLINE A JoinLanes(D d, hn::Vec<D> v) {
  if constexpr (kKind == ReduceKind::kMax || kKind == ReduceKind::kMin) {
    constexpr bool kMax = kKind == ReduceKind::kMax;
    if constexpr (std::is_floating_point_v<A>) {
      if (!hn::AllFalse(d, hn::IsNaN(v))) return std::numeric_limits<A>::quiet_NaN();
    }
    if constexpr (sizeof(A) == 1) {
      const hn::RepartitionToWide<D> wide;
      const auto low = hn::PromoteTo(wide, hn::LowerHalf(v));
      const auto high = hn::PromoteTo(wide, hn::UpperHalf(hn::Half<D>(), v));
      return static_cast<A>(JoinLanes<kKind>(wide, kMax ? hn::Max(low, high) : hn::Min(low, high)));
    } else {
      return hn::GetLane(kMax ? hn::MaxOfLanes(d, v) : hn::MinOfLanes(d, v));
    }
  } else if constexpr (kKind == ReduceKind::kSum) {
    return SumHalves(d, v);
  } else {
    HWY_ALIGN A lane[HWY_MAX_BYTES / sizeof(A)];
    hn::Store(v, d, lane);
    A total = lane[0];
    for (size_t i = 1; i < hn::Lanes(d); ++i) total = JoinPartial(kKind, total, lane[i]);
    return total;
  }
}

template <ReduceKind kKind, typename T, typename A>
HWY_INLINE A Row(const T* x, int64_t n) {
  const hn::ScalableTag<A> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto neutral = hn::Set(d, StartReduce<A, A>(kKind));
  auto a0 = neutral, a1 = neutral, a2 = neutral, a3 = neutral;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a0 = Join<kKind>(d, a0, LoadAs(d, x + i));
    a1 = Join<kKind>(d, a1, LoadAs(d, x + i + lanes));
    a2 = Join<kKind>(d, a2, LoadAs(d, x + i + 2 * lanes));
    a3 = Join<kKind>(d, a3, LoadAs(d, x + i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) a0 = Join<kKind>(d, a0, LoadAs(d, x + i));
  if constexpr (sizeof(T) == sizeof(A) && sizeof(T) >= 4) {
    if (i < n) {
      const T fill = static_cast<T>(StartReduce<A, A>(kKind));
      a1 = Join<kKind>(d, a1,
                       hn::BitCast(d, LoadPart(hn::Rebind<T, decltype(d)>(), x + i, n - i, fill)));
      i = n;
    }
  }
  if constexpr (kKind == ReduceKind::kMax || kKind == ReduceKind::kMin) {
    if (i < n && n >= lanes) {  // the last ones, some of them again
      a1 = Join<kKind>(d, a1, LoadAs(d, x + n - lanes));
      i = n;
    }
  }
  constexpr ReduceKind kPlain = Plain(kKind);
  a0 = Join<kPlain>(d, Join<kPlain>(d, a0, a1), Join<kPlain>(d, a2, a3));
  A total = JoinLanes<kPlain>(d, a0);
  for (; i < n; ++i) total = AccumulateReduce<T, A>(kKind, total, x[i]);
  return total;
}

}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SARDONYX_REDUCE_TYPED_INL_H_
