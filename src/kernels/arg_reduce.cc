// Places of the largest and the smallest elements.
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/arg_reduce.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>

// Before what is to be inlined: functions of other options are not.
#include "kernels/tile_loop.h"

#include "kernels/reduce_typed-inl.h"
#include "kernels/reduce_typed.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

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
void Fill(BestPlaces<T>* places) {
  *places = {BestOfColumns<T, true>, BestOfColumns<T, false>, FindInRows<T, true>,
             FindInRows<T, false>};
}

void FillAll(AllBestPlaces* all) {
  std::apply([](auto&... each) { (Fill(&each), ...); }, *all);
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(FillAll);

namespace {

template <typename T>
BestPlaces<T> PlacesOf() {
  AllBestPlaces all;
  HWY_DYNAMIC_DISPATCH(FillAll)(&all);
  return std::get<BestPlaces<T>>(all);
}

// Places of the best of `count` columns of x [n, inner]. Some rows at a time: as many as places of
// an element's width count. The last of equals is the first from behind.
template <typename T>
void ArgReduceColumns(const BestPlaces<T>& loops, bool largest, bool select_last, const T* x,
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
void ArgReduceFewColumns(const BestPlaces<T>& loops, bool largest, bool select_last, const T* x,
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

}  // namespace

template <typename T>
void ArgReduce(bool largest, bool select_last, const T* x, int64_t* y, int64_t outer, int64_t n,
               int64_t inner, const Parallel& par) {
  const BestPlaces<T> loops = PlacesOf<T>();
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

#define SARDONYX_ARG_REDUCE(T)                                                          \
  template void ArgReduce<T>(bool, bool, const T*, int64_t*, int64_t, int64_t, int64_t, \
                             const Parallel&);
SARDONYX_ARG_REDUCE(float)
SARDONYX_NUMBERS_BUT_FLOAT(SARDONYX_ARG_REDUCE)
#undef SARDONYX_ARG_REDUCE

}  // namespace sardonyx
#endif
