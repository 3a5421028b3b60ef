// Reductions of every type but float32.
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_typed.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>

// Before what is to be inlined: functions of other options are not.
#include "kernels/tile_loop.h"

#include "kernels/reduce_typed-inl.h"
#include "kernels/reduce_typed.h"
#include "kernels/softmax.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

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

template <typename T>
void Fill(TypedReduction<T>* loops) {
  loops->same = FindLoops<T, T>;
  if constexpr (sizeof(T) == 4 && std::is_integral_v<T>) {
    loops->wide = FindLoops<T, ReduceAccumulator<T>>;
  }
  if constexpr (sizeof(T) == 1) loops->byte_sums = Loops<T, int32_t, ReduceKind::kSum>();
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

#define SARDONYX_REDUCE(T) \
  template void Reduce<T>(ReduceKind, const T*, T*, const ReduceShape&, const Parallel&);
SARDONYX_NUMBERS_BUT_FLOAT(SARDONYX_REDUCE)
#undef SARDONYX_REDUCE

}  // namespace sardonyx
#endif
