// Reductions of every type but float32.
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_typed.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>

// Before what is to be inlined: functions of other options are not.
#include "kernels/tile_loop.h"

#include "kernels/reduce_typed.h"
#include "kernels/row_math-inl.h"
#include "kernels/softmax.h"
#include "kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

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

// Of as many rows as a vector has lanes, each of a few vectors: lanes are joined in pairs, and
// pairs of pairs, which leaves a row a lane.
template <ReduceKind kKind, typename T>
HWY_INLINE void RowsJoined(const T* x, T* y, int64_t n, int64_t step) {
  const hn::ScalableTag<T> d;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(hn::ScalableTag<T>()));
  constexpr ReduceKind kPlain = Plain(kKind);
  hn::Vec<decltype(d)> rows[kLanes];
#pragma GCC unroll 16
  for (int r = 0; r < kLanes; ++r) {
    const T* const row = x + r * step;
    auto acc = hn::Set(d, StartReduce<T, T>(kKind));
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) acc = Join<kKind>(d, acc, hn::LoadU(d, row + i));
    if (i < n) {
      acc = Join<kKind>(d, acc, LoadPart(d, row + i, n - i, StartReduce<T, T>(kKind)));
    }
    rows[r] = acc;
  }
#pragma GCC unroll 4
  for (int count = kLanes / 2; count > 0; count /= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < count; ++i) {
      rows[i] = Join<kPlain>(d, hn::ConcatEven(d, rows[2 * i + 1], rows[2 * i]),
                             hn::ConcatOdd(d, rows[2 * i + 1], rows[2 * i]));
    }
  }
  hn::StoreU(rows[0], d, y);
}

template <ReduceKind kKind, typename T, typename A>
void Rows(const T* x, A* y, int64_t n, int64_t step, int64_t rows) {
  int64_t row = 0;
  if constexpr (std::is_same_v<T, A> && sizeof(T) >= 4) {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
    for (; n <= 8 * lanes && row + lanes <= rows; row += lanes) {
      RowsJoined<kKind>(x + row * step, y + row, n, step);
    }
  }
  for (; row < rows; ++row) y[row] = Row<kKind, T, A>(x + row * step, n);
}

// kVectors vectors of adjacent columns of x [n, inner].
template <ReduceKind kKind, int kVectors, typename T, typename A>
HWY_INLINE void ColumnBlock(const T* x, A* y, int64_t n, int64_t inner) {
  const hn::ScalableTag<A> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> acc[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) acc[v] = hn::Set(d, StartReduce<A, A>(kKind));
  for (int64_t i = 0; i < n; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      acc[v] = Join<kKind>(d, acc[v], LoadAs(d, x + i * inner + v * lanes));
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) hn::StoreU(acc[v], d, y + v * lanes);
}

// More columns, whole vectors: some rows at a time on top of y, which stays in the cache. Memory
// gives whole rows faster than pieces of them.
template <ReduceKind kKind, typename T, typename A>
HWY_INLINE void WideColumns(const T* x, A* y, int64_t n, int64_t inner, int64_t count) {
  const hn::ScalableTag<A> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int kRows = 8;
  const auto neutral = hn::Set(d, StartReduce<A, A>(kKind));
  for (int64_t c = 0; c < count; c += lanes) hn::StoreU(neutral, d, y + c);
  int64_t i = 0;
  for (; i + kRows <= n; i += kRows) {
    const T* const rows = x + i * inner;
    for (int64_t c = 0; c < count; c += lanes) {
      auto acc = hn::LoadU(d, y + c);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) acc = Join<kKind>(d, acc, LoadAs(d, rows + r * inner + c));
      hn::StoreU(acc, d, y + c);
    }
  }
  for (; i < n; ++i) {
    for (int64_t c = 0; c < count; c += lanes) {
      hn::StoreU(Join<kKind>(d, hn::LoadU(d, y + c), LoadAs(d, x + i * inner + c)), d, y + c);
    }
  }
}

template <ReduceKind kKind, typename T, typename A>
void Columns(const T* x, A* y, int64_t n, int64_t inner, int64_t count) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<A>()));
  int64_t c = 0;
  if (count > 8 * lanes && n >= 8) {
    c = count / lanes * lanes;
    WideColumns<kKind>(x, y, n, inner, c);
  }
  for (; c + 8 * lanes <= count; c += 8 * lanes) ColumnBlock<kKind, 8>(x + c, y + c, n, inner);
  for (; c + lanes <= count; c += lanes) ColumnBlock<kKind, 1>(x + c, y + c, n, inner);
  if (c < count && count >= lanes) {  // the last vector has some of them again
    c = count;
    ColumnBlock<kKind, 1>(x + c - lanes, y + c - lanes, n, inner);
  }
  for (; c < count; ++c) {
    A total = StartReduce<A, A>(kKind);
    for (int64_t i = 0; i < n; ++i) {
      total = AccumulateReduce<T, A>(kKind, total, x[i * inner + c]);
    }
    y[c] = total;
  }
}

template <typename T, typename A, ReduceKind kKind>
constexpr ReduceLoops<T, A> Loops() {
  return {Rows<kKind, T, A>, Columns<kKind, T, A>};
}

// Sums of integers wrap alike at any width, so where the result alone counts they are taken in
// theirs; where it is divided or a root is taken, in 64 bits.
template <typename T, typename A>
ReduceLoops<T, A> FindLoops(ReduceKind kind) {
  if constexpr (std::is_same_v<T, A>) {
    if (kind == ReduceKind::kMax) return Loops<T, A, ReduceKind::kMax>();
    if (kind == ReduceKind::kMin) return Loops<T, A, ReduceKind::kMin>();
  }
  if constexpr (sizeof(T) >= 4 && !std::is_same_v<T, float>) {
    if (kind == ReduceKind::kSum) return Loops<T, A, ReduceKind::kSum>();
    if (kind == ReduceKind::kSumSquare) return Loops<T, A, ReduceKind::kSumSquare>();
    if constexpr (std::is_same_v<T, A> && std::is_signed_v<T>) {
      if (kind == ReduceKind::kL1) return Loops<T, A, ReduceKind::kL1>();
      if (kind == ReduceKind::kProd) return Loops<T, A, ReduceKind::kProd>();
    }
  }
  return {};
}

// Whether elements of v are better than those of `best`: larger or smaller, or a NaN before
// numbers.
template <bool kLargest, class D, class V = hn::Vec<D>>
HWY_INLINE hn::Mask<D> Beats(D, V v, V best) {
  if constexpr (std::is_floating_point_v<hn::TFromD<D>>) {
    const auto better = kLargest ? hn::Gt(v, best) : hn::Lt(v, best);
    return hn::Or(better, hn::AndNot(hn::IsNaN(best), hn::IsNaN(v)));
  } else {
    return hn::Not(hn::Eq(kLargest ? hn::Max(v, best) : hn::Min(v, best), best));
  }
}

// The best of each of `count` columns of n rows that lie `step` apart, and the first row that has
// it. Rows are no more than PlaceInColumn counts.
template <typename T, bool kLargest>
void BestOfColumns(const T* x, T* best, PlaceInColumn<T>* places, int64_t n, int64_t step,
                   int64_t count) {
  using Place = PlaceInColumn<T>;
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int kRows = 8;
  std::copy_n(x, count, best);
  std::fill_n(places, count, Place{0});
  const auto join = [&](int64_t k, int64_t rows, int64_t c) HWY_ATTR {
    auto b = hn::LoadU(d, best + c);
    auto place = hn::LoadU(di, places + c);
    const T* from = x + k * step + c;
    for (int64_t r = 0; r < rows; ++r) {
      const auto v = hn::LoadU(d, from + r * step);
      const auto beats = Beats<kLargest>(d, v, b);
      b = hn::IfThenElse(beats, v, b);
      place =
          hn::IfThenElse(hn::RebindMask(di, beats), hn::Set(di, static_cast<Place>(k + r)), place);
    }
    hn::StoreU(b, d, best + c);
    hn::StoreU(place, di, places + c);
  };
  for (int64_t k = 1; k < n; k += kRows) {
    const int64_t rows = std::min<int64_t>(kRows, n - k);
    int64_t c = 0;
    for (; c + lanes <= count; c += lanes) join(k, rows, c);
    // The last vector again in part: what was joined does not beat itself.
    if (c < count && count >= lanes) join(k, rows, count - lanes);
    for (; count < lanes && c < count; ++c) {
      for (int64_t r = 0; r < rows; ++r) {
        const T v = x[(k + r) * step + c], b = best[c];
        if (!Wins(kLargest, v, b)) continue;
        best[c] = v;
        places[c] = static_cast<Place>(k + r);
      }
    }
  }
}

// Which of the first `lanes` of x are v; NaN is the other NaN.
template <bool kNan, class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Mask<D> AreSame(D d, hn::Vec<D> v, const T* x) {
  if constexpr (kNan) {
    return hn::IsNaN(hn::LoadU(d, x));
  } else {
    return hn::Eq(hn::LoadU(d, x), v);
  }
}

template <bool kNan, typename T>
HWY_INLINE int64_t FindElement(const T* x, T best, int64_t n, bool select_last) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto wanted = hn::Set(d, best);
  const auto here = [&](int64_t i) { return kNan ? x[i] != x[i] : x[i] == best; };
  if (select_last) {
    int64_t end = n;
    while (end >= lanes && hn::AllFalse(d, AreSame<kNan>(d, wanted, x + end - lanes))) end -= lanes;
    while (end > 0 && !here(end - 1)) --end;
    return std::max<int64_t>(end - 1, 0);
  }
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const intptr_t at = hn::FindFirstTrue(d, AreSame<kNan>(d, wanted, x + i));
    if (at >= 0) return i + at;
  }
  if (n >= lanes) {  // the last ones, some of them again
    const intptr_t at = hn::FindFirstTrue(d, AreSame<kNan>(d, wanted, x + n - lanes));
    return at >= 0 ? n - lanes + at : 0;
  }
  while (i < n && !here(i)) ++i;
  return i < n ? i : 0;
}

template <typename T>
int64_t FindInRow(const T* x, T best, int64_t n, bool select_last) {
  if constexpr (std::is_floating_point_v<T>) {
    if (best != best) return FindElement<true>(x, best, n, select_last);
  }
  return FindElement<false>(x, best, n, select_last);
}

template <typename T, bool kLargest>
void FindInRows(const T* x, int64_t* y, int64_t rows, int64_t n, bool select_last) {
  constexpr ReduceKind kKind = kLargest ? ReduceKind::kMax : ReduceKind::kMin;
  for (int64_t row = 0; row < rows; ++row, x += n) {
    y[row] = FindInRow(x, Row<kKind, T, T>(x, n), n, select_last);
  }
}

template <typename T>
void Fill(TypedReduction<T>* loops) {
  loops->same = FindLoops<T, T>;
  if constexpr (sizeof(T) == 4 && std::is_integral_v<T>) {
    loops->wide = FindLoops<T, ReduceAccumulator<T>>;
  }
  if constexpr (sizeof(T) == 1) loops->byte_sums = Loops<T, int32_t, ReduceKind::kSum>();
  loops->largest_of_columns = BestOfColumns<T, true>;
  loops->smallest_of_columns = BestOfColumns<T, false>;
  loops->largest_of_rows = FindInRows<T, true>;
  loops->smallest_of_rows = FindInRows<T, false>;
}

void FillAll(TypedReductions* all) {
  std::apply([](auto&... each) { (Fill(&each), ...); }, *all);
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {
namespace {

HWY_EXPORT(FillAll);

template <typename T>
TypedReduction<T> LoopsOf() {
  TypedReductions all;
  HWY_DYNAMIC_DISPATCH(FillAll)(&all);
  return std::get<TypedReduction<T>>(all);
}

// Whether results are made of what was accumulated, which must not have wrapped.
bool IsFinished(ReduceKind kind) {
  return kind == ReduceKind::kMean || kind == ReduceKind::kL2 || kind == ReduceKind::kLogSum;
}

template <typename A, typename Y>
void FinishAll(ReduceKind kind, const A* totals, Y* y, int64_t count, int64_t n) {
  const auto each = [&](auto known) {
    for (int64_t i = 0; i < count; ++i) y[i] = FinishReduce<Y>(known(), totals[i], n);
  };
  switch (kind) {
    case ReduceKind::kMean: return each([] { return ReduceKind::kMean; });
    case ReduceKind::kL2: return each([] { return ReduceKind::kL2; });
    case ReduceKind::kLogSum: return each([] { return ReduceKind::kLogSum; });
    default: return each([] { return ReduceKind::kSum; });
  }
}

// Results of `kind` from what was accumulated as `accumulated`; false if the shape has no loops.
template <typename T, typename A, typename Y>
bool RunLoops(const ReduceLoops<T, A>& loops, ReduceKind kind, ReduceKind accumulated, const T* x,
              Y* y, const ReduceShape& shape, const Parallel& par) {
  const auto [outer, n, inner, n2] = shape;
  if (loops.rows == nullptr || n * n2 == 0) return false;
  const bool rows = inner == 1 || n2 > 1;
  if (rows && n2 > 1 && n2 < 8 && n > 1 && inner > 1) return false;
  const int64_t columns = ColumnsOfTask(outer, inner);
  const int64_t blocks = rows ? inner : CeilDiv(inner, columns);
  const int64_t cost = rows ? n * (n2 / 4 + 4) : n * std::min(inner, columns) / 4 + 4;
  const Slices slices = Slice(outer * blocks, cost);
  constexpr int64_t kRows = 64;
  par.For(slices.tasks, [&, n = n, n2 = n2, inner = inner, outer = outer](int64_t task) {
    const int64_t end = slices.End(task, outer * blocks);
    int64_t i = slices.Begin(task);
    A totals[kRows];
    while (inner == 1 && i < end) {
      const int64_t length = n * n2, count = std::min(kRows, end - i);
      loops.rows(x + i * length, totals, length, length, count);
      FinishAll(kind, totals, y + i, count, length);
      i += count;
    }
    for (; i < end; ++i) {
      if (rows) {
        const int64_t step = inner * n2;
        const T* from = x + (i / inner * n * inner + i % inner) * n2;
        A total;
        loops.rows(from, &total, n2, step, 1);
        for (int64_t k = 1; k < n; k += kRows) {
          const int64_t count = std::min(kRows, n - k);
          loops.rows(from + k * step, totals, n2, step, count);
          for (int64_t r = 0; r < count; ++r) total = JoinPartial(accumulated, total, totals[r]);
        }
        y[i] = FinishReduce<Y>(kind, total, n * n2);
        continue;
      }
      const int64_t first = i % blocks * columns, count = std::min(columns, inner - first);
      const T* const from = x + i / blocks * n * inner + first;
      Y* const to = y + i / blocks * inner + first;
      if constexpr (std::is_same_v<A, Y>) {
        if (kind == accumulated) {
          loops.columns(from, to, n, inner, count);
          continue;
        }
      }
      A sums[kMostColumns];
      loops.columns(from, sums, n, inner, count);
      FinishAll(kind, sums, to, count, n);
    }
  });
  return true;
}

// Of integers, in double, some columns of a set at a time; false if these are too long, or of two
// groups of axes.
constexpr int64_t kDoubles = 4096;
template <typename T>
bool LogSumExpOfIntegers(const T* x, T* y, const ReduceShape& shape, const Parallel& par) {
  const int64_t inner = shape.inner, n = shape.reduced * shape.reduced2;
  if (n == 0 || n > kDoubles || (shape.reduced2 > 1 && inner > 1)) return false;
  const int64_t most = std::min(inner, kDoubles / n), parts = CeilDiv(inner, most);
  const Slices slices = Slice(shape.outer * parts, most * n * 4);
  par.For(slices.tasks, [&](int64_t task) {
    double from[kDoubles], to[kDoubles];
    for (int64_t i = slices.Begin(task); i < slices.End(task, shape.outer * parts); ++i) {
      const int64_t set = i / parts, first = i % parts * most;
      const int64_t count = std::min(most, inner - first);
      for (int64_t k = 0; k < n; ++k) {
        const T* const row = x + (set * n + k) * inner + first;
        for (int64_t c = 0; c < count; ++c) from[k * count + c] = static_cast<double>(row[c]);
      }
      LogSumExp(from, to, 1, n, count, Parallel{});
      for (int64_t c = 0; c < count; ++c) y[set * inner + first + c] = static_cast<T>(to[c]);
    }
  });
  return true;
}

template <typename T>
void ReduceBy(const TypedReduction<T>& loops, ReduceKind kind, const T* x, T* y,
              const ReduceShape& shape, const Parallel& par) {
  const ReduceKind accumulated = kind == ReduceKind::kMean || kind == ReduceKind::kLogSum
                                     ? ReduceKind::kSum
                                 : kind == ReduceKind::kL2 ? ReduceKind::kSumSquare
                                                           : kind;
  if (kind != ReduceKind::kLogSumExp) {
    // Narrow sums count in wrapped form alone.
    if (!IsFinished(kind) || sizeof(T) == 8) {
      if (RunLoops(loops.same(accumulated), kind, accumulated, x, y, shape, par)) return;
    } else if (loops.wide != nullptr) {
      if (RunLoops(loops.wide(accumulated), kind, accumulated, x, y, shape, par)) return;
    }
  } else if constexpr (std::is_same_v<T, double>) {
    const auto [outer, n, inner, n2] = shape;
    if (n * n2 > 0 && (inner == 1 || n2 == 1)) {
      return LogSumExp(x, y, outer, n * n2, inner, par);
    }
  } else if constexpr (std::is_integral_v<T>) {
    if (LogSumExpOfIntegers(x, y, shape, par)) return;
  }
  ReduceElements(kind, x, y, shape, par);
}

}  // namespace

template <typename T>
void Reduce(ReduceKind kind, const T* x, T* y, const ReduceShape& given, const Parallel& par) {
  const TypedReduction<T> loops = LoopsOf<T>();
  const ReduceShape shape = WithoutSingles(given);
  const int64_t n = shape.reduced * shape.reduced2;
  if (AreSetsTurned<T>(shape)) {
    return ReduceTurnedSets(x, y, shape, par, [&](const T* columns, T* to, const auto& some) {
      ReduceBy(loops, kind, columns, to, some, Parallel{});
    });
  }
  // Rows of wide elements are joined as fast where they are, unless they are to be made wider, as
  // longer ones are of narrow elements.
  const bool gains = kind == ReduceKind::kLogSumExp || (sizeof(T) < 8 && IsFinished(kind)) ||
                     (sizeof(T) < 4 && n * static_cast<int64_t>(sizeof(T)) < 64);
  if (gains && shape.inner == 1 && n > 1 && AreTurned<T>(shape.outer, n)) {
    const Slices slices = Slice(shape.outer, n / 2 + 4);
    return par.For(slices.tasks, [&](int64_t task) {
      const int64_t first = slices.Begin(task), rows = slices.End(task, shape.outer) - first;
      ForTurnedRows(x + first * n, rows, n, [&](const T* columns, int64_t row, int64_t count) {
        ReduceBy(loops, kind, columns, y + first + row, ReduceShape{1, n, count, 1}, Parallel{});
      });
    });
  }
  ReduceBy(loops, kind, x, y, shape, par);
}

template <typename T>
void SumBytes(const T* x, int32_t* y, const ReduceShape& shape, const Parallel& par) {
  RunLoops(LoopsOf<T>().byte_sums, ReduceKind::kSum, ReduceKind::kSum, x, y, shape, par);
}
template void SumBytes<int8_t>(const int8_t*, int32_t*, const ReduceShape&, const Parallel&);
template void SumBytes<uint8_t>(const uint8_t*, int32_t*, const ReduceShape&, const Parallel&);

// Places of the best of `count` columns of x [n, inner]. Some rows at a time: as many as places of
// an element's width count. The last of equals is the first from behind.
template <typename T>
void ArgReduceColumns(const TypedReduction<T>& loops, bool largest, bool select_last, const T* x,
                      int64_t* y, int64_t n, int64_t inner, int64_t count) {
  constexpr int64_t kRows =
      std::min<int64_t>(std::numeric_limits<PlaceInColumn<T>>::max(), 1 << 16);
  const auto best_of = largest ? loops.largest_of_columns : loops.smallest_of_columns;
  T best[kMostColumns], found[kMostColumns];
  PlaceInColumn<T> places[kMostColumns];
  const int64_t start = select_last ? n - 1 : 0, turn = select_last ? -1 : 1;
  for (int64_t done = 0; done < n; done += kRows) {
    const int64_t first = start + turn * done;
    best_of(x + first * inner, found, places, std::min(kRows, n - done), turn * inner, count);
    for (int64_t c = 0; c < count; ++c) {
      const T a = found[c], b = best[c];
      if (done > 0 && !Wins(largest, a, b)) continue;
      best[c] = a;
      y[c] = first + turn * int64_t{places[c]};
    }
  }
}

// Columns of which a vector has room for several rows: so many rows beside each other count as one.
template <typename T>
constexpr int64_t kRowsBeside = 64 / static_cast<int64_t>(sizeof(T));
constexpr int64_t kFewColumns = 15;

template <typename T>
bool AreFewColumns(int64_t n, int64_t columns) {
  const int64_t most = std::clamp<int64_t>(kRowsBeside<T> - 1, 8, kFewColumns);
  return columns <= most && n >= 4 * kRowsBeside<T>;
}

// As ArgReduceColumns, of all columns, kFewColumns at most.
template <typename T>
void ArgReduceFewColumns(const TypedReduction<T>& loops, bool largest, bool select_last, const T* x,
                         int64_t* y, int64_t n, int64_t inner) {
  // Of few rows half as many, for each of them is a column to look through at the end.
  const int64_t beside = n < 8 * kRowsBeside<T> ? kRowsBeside<T> / 2 : kRowsBeside<T>;
  const int64_t whole = n / beside * beside, columns = beside * inner;
  int64_t places[kRowsBeside<T> * kFewColumns];
  ArgReduceColumns(loops, largest, select_last, x, places, whole / beside, columns, columns);
  for (int64_t c = 0; c < inner; ++c) {
    int64_t place = places[c] * beside;
    T best = x[place * inner + c];
    const auto join = [&](int64_t row) {
      const T v = x[row * inner + c];
      const bool equals = v == best || (v != v && best != best);
      if (!Wins(largest, v, best) && !(equals && (row < place) != select_last)) return;
      best = v;
      place = row;
    };
    for (int64_t i = 1; i < beside; ++i) join(places[i * inner + c] * beside + i);
    for (int64_t row = whole; row < n; ++row) join(row);
    y[c] = place;
  }
}

template <typename T>
void ArgReduce(bool largest, bool select_last, const T* x, int64_t* y, int64_t outer, int64_t n,
               int64_t inner, const Parallel& par) {
  const TypedReduction<T> loops = LoopsOf<T>();
  if (const ReduceShape shape{outer, n, inner, 1}; AreSetsTurned<T>(shape)) {
    return ReduceTurnedSets(x, y, shape, par, [&](const T* turned, int64_t* to, const auto& some) {
      for (int64_t c = 0; c < some.inner; c += kMostColumns) {
        ArgReduceColumns(loops, largest, select_last, turned + c, to + c, n, some.inner,
                         std::min(kMostColumns, some.inner - c));
      }
    });
  }
  const int64_t columns = ColumnsOfTask(outer, inner), blocks = CeilDiv(inner, columns);
  const Slices slices = Slice(outer * blocks, n * std::min(inner, columns) / 4 + 4);
  par.For(slices.tasks, [&](int64_t task) {
    if (inner == 1) {
      const int64_t first = slices.Begin(task), rows = slices.End(task, outer) - first;
      if (AreTurned<T>(rows, n)) {
        return ForTurnedRows(x + first * n, rows, n,
                             [&](const T* columns, int64_t row, int64_t count) {
                               ArgReduceColumns(loops, largest, select_last, columns,
                                                y + first + row, n, count, count);
                             });
      }
      const auto find = largest ? loops.largest_of_rows : loops.smallest_of_rows;
      return find(x + first * n, y + first, rows, n, select_last);
    }
    if (AreFewColumns<T>(n, inner)) {
      for (int64_t i = slices.Begin(task); i < slices.End(task, outer); ++i) {
        const T* const from = x + i * n * inner;
        ArgReduceFewColumns(loops, largest, select_last, from, y + i * inner, n, inner);
      }
      return;
    }
    for (int64_t i = slices.Begin(task); i < slices.End(task, outer * blocks); ++i) {
      const int64_t first = i % blocks * columns, count = std::min(columns, inner - first);
      ArgReduceColumns(loops, largest, select_last, x + i / blocks * n * inner + first,
                       y + i / blocks * inner + first, n, inner, count);
    }
  });
}

#define SARDONYX_REDUCE(T)                                                                \
  template void Reduce<T>(ReduceKind, const T*, T*, const ReduceShape&, const Parallel&); \
  template void ArgReduce<T>(bool, bool, const T*, int64_t*, int64_t, int64_t, int64_t,   \
                             const Parallel&);
template void ArgReduce<float>(bool, bool, const float*, int64_t*, int64_t, int64_t, int64_t,
                               const Parallel&);
SARDONYX_NUMBERS_BUT_FLOAT(SARDONYX_REDUCE)
#undef SARDONYX_REDUCE

}  // namespace sardonyx
#endif
