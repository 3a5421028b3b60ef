#include "kernels/reduce.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/round.h"
#include "kernels/reduce_columns.h"
#include "kernels/reduce_join-inl.h"
#include "kernels/reduce_typed.h"
#include "kernels/row_math-inl.h"
#include "kernels/slices.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {

using D = ReduceTag;
using V = ReduceVector;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));

// All n elements at x. Sums: chunks in float32, their total in double.
template <ReduceKind kKind>
HWY_INLINE double Row(const float* x, int64_t n) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V neutral = hn::Set(d, Neutral<kKind>());
  double total = Neutral<kKind>();
  for (int64_t begin = 0; begin < n;) {
    const int64_t end = std::min(n, begin + 4 * lanes * kChunk);
    V a0 = neutral, a1 = neutral, a2 = neutral, a3 = neutral;
    int64_t i = begin;
    for (; i + 4 * lanes <= end; i += 4 * lanes) {
      a0 = Join<kKind>(a0, hn::LoadU(d, x + i));
      a1 = Join<kKind>(a1, hn::LoadU(d, x + i + lanes));
      a2 = Join<kKind>(a2, hn::LoadU(d, x + i + 2 * lanes));
      a3 = Join<kKind>(a3, hn::LoadU(d, x + i + 3 * lanes));
    }
    for (; i + lanes <= end; i += lanes) a0 = Join<kKind>(a0, hn::LoadU(d, x + i));
    if (i < end) a1 = Join<kKind>(a1, LoadPart(d, x + i, end - i, Neutral<kKind>()));
    // Squares must not be squared again when accumulators join.
    constexpr ReduceKind kPlain =
        kKind == ReduceKind::kSumSquare || kKind == ReduceKind::kL1 ? ReduceKind::kSum : kKind;
    total = JoinPartial(
        kKind, total, JoinLanes<kPlain>(Join<kPlain>(Join<kPlain>(a0, a1), Join<kPlain>(a2, a3))));
    begin = end;
  }
  return total;
}

// The join of a row of few elements, by lane.
template <ReduceKind kKind>
HWY_INLINE V JoinVectors(const float* x, int64_t n) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V acc = hn::Set(d, Neutral<kKind>());
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) acc = Join<kKind>(acc, hn::LoadU(d, x + i));
  if (i < n) acc = Join<kKind>(acc, LoadPart(d, x + i, n - i, Neutral<kKind>()));
  return acc;
}

// Totals of kRowsJoined rows of few elements: their lanes, widened, are joined in pairs, and pairs
// of pairs, which leaves a row a lane.
using Wide = hn::ScalableTag<double>;
constexpr int kRowsJoined = static_cast<int>(hn::MaxLanes(Wide()));

template <ReduceKind kKind>
HWY_INLINE void SumRowsJoined(const float* x, int64_t n, int64_t step, double* totals) {
  const Wide d;
  hn::Vec<Wide> rows[kRowsJoined];
#pragma GCC unroll 8
  for (int r = 0; r < kRowsJoined; ++r) {
    const V row = JoinVectors<kKind>(x + r * step, n);
    rows[r] = hn::Add(hn::PromoteTo(d, hn::LowerHalf(row)),
                      hn::PromoteTo(d, hn::UpperHalf(hn::Half<D>(), row)));
  }
#pragma GCC unroll 4
  for (int count = kRowsJoined / 2; count > 0; count /= 2) {
#pragma GCC unroll 4
    for (int i = 0; i < count; ++i) {
      rows[i] = hn::Add(hn::ConcatEven(d, rows[2 * i + 1], rows[2 * i]),
                        hn::ConcatOdd(d, rows[2 * i + 1], rows[2 * i]));
    }
  }
  hn::StoreU(rows[0], d, totals);
}

// The joins of two vectors are lanes next to each other: the joins of these.
template <ReduceKind kKind>
HWY_INLINE V JoinPairs(V first, V second) {
  const D d;
  const V even = hn::ConcatEven(d, second, first), odd = hn::ConcatOdd(d, second, first);
  if constexpr (kKind == ReduceKind::kL1 || kKind == ReduceKind::kSumSquare) {
    return hn::Add(even, odd);
  }
  return Join<kKind>(even, odd);
}

// The same of the largest or the smallest elements, which need not be widened.
template <ReduceKind kKind>
HWY_INLINE void BestRowsJoined(const float* x, int64_t n, int64_t step, double* totals) {
  V rows[kLanes];
#pragma GCC unroll 16
  for (int r = 0; r < kLanes; ++r) rows[r] = JoinVectors<kKind>(x + r * step, n);
#pragma GCC unroll 4
  for (int count = kLanes / 2; count > 0; count /= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < count; ++i) rows[i] = JoinPairs<kKind>(rows[2 * i], rows[2 * i + 1]);
  }
  HWY_ALIGN float joined[kLanes];
  hn::Store(rows[0], D(), joined);
  std::copy_n(joined, kLanes, totals);
}

template <ReduceKind kKind>
HWY_INLINE void Rows(const float* x, int64_t n, int64_t step, int64_t rows, double* totals) {
  constexpr int64_t kFew = 4 * kLanes;
  int64_t row = 0;
  if constexpr (IsSum(kKind)) {
    for (; n <= kFew && row + kRowsJoined <= rows; row += kRowsJoined) {
      SumRowsJoined<kKind>(x + row * step, n, step, totals + row);
    }
  } else if constexpr (kKind != ReduceKind::kProd) {
    for (; n <= kFew && row + kLanes <= rows; row += kLanes) {
      BestRowsJoined<kKind>(x + row * step, n, step, totals + row);
    }
  }
  for (; row < rows; ++row) totals[row] = Row<kKind>(x + row * step, n);
}

// Totals of rows of n elements that lie `step` apart.
void ReduceRows(ReduceKind kind, const float* x, int64_t n, int64_t step, int64_t rows,
                double* totals) {
  switch (kind) {
    case ReduceKind::kL1: return Rows<ReduceKind::kL1>(x, n, step, rows, totals);
    case ReduceKind::kSumSquare: return Rows<ReduceKind::kSumSquare>(x, n, step, rows, totals);
    case ReduceKind::kProd: return Rows<ReduceKind::kProd>(x, n, step, rows, totals);
    case ReduceKind::kMax: return Rows<ReduceKind::kMax>(x, n, step, rows, totals);
    case ReduceKind::kMin: return Rows<ReduceKind::kMin>(x, n, step, rows, totals);
    default: return Rows<ReduceKind::kSum>(x, n, step, rows, totals);
  }
}

double ExpSumRow(const float* x, int64_t n, float max) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V shift = hn::Set(d, max);
  double total = 0.0;
  for (int64_t begin = 0; begin < n;) {
    const int64_t end = std::min(n, begin + lanes * kChunk);
    V sum = hn::Zero(d);
    int64_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      sum = hn::Add(sum, ExpNonPositive(d, hn::Sub(hn::LoadU(d, x + i), shift)));
    }
    if (i < end) {
      const V rest = LoadPart(d, x + i, end - i, -std::numeric_limits<float>::infinity());
      sum = hn::Add(sum, ExpNonPositive(d, hn::Sub(rest, shift)));
    }
    total += SumLanes(d, sum);
    begin = end;
  }
  return total;
}

// The join of a row of kN elements, 2 to 4, in each lane, in the order of the elements.
template <ReduceKind kKind, int kN>
HWY_INLINE V JoinRowsOf(const float* x) {
  const D d;
  V of[4];
  if constexpr (kN == 2) hn::LoadInterleaved2(d, x, of[0], of[1]);
  if constexpr (kN == 3) hn::LoadInterleaved3(d, x, of[0], of[1], of[2]);
  if constexpr (kN == 4) hn::LoadInterleaved4(d, x, of[0], of[1], of[2], of[3]);
  V acc = hn::Set(d, Neutral<kKind>());
#pragma GCC unroll 4
  for (int k = 0; k < kN; ++k) acc = Join<kKind>(acc, of[k]);
  return acc;
}

// The same of n elements; `places`: k n of lane k.
template <ReduceKind kKind, class Places>
HWY_INLINE V JoinShortRows(const float* x, int64_t n, Places places) {
  const D d;
  const int64_t half = static_cast<int64_t>(hn::Lanes(d)) * n / 2;  // of the rows
  switch (n) {
    case 2: return JoinRowsOf<kKind, 2>(x);
    case 3: return JoinRowsOf<kKind, 3>(x);
    case 4: return JoinRowsOf<kKind, 4>(x);
    case 6: return JoinPairs<kKind>(JoinRowsOf<kKind, 3>(x), JoinRowsOf<kKind, 3>(x + half));
    case 8: return JoinPairs<kKind>(JoinRowsOf<kKind, 4>(x), JoinRowsOf<kKind, 4>(x + half));
    default: break;
  }
  V acc = hn::Set(d, Neutral<kKind>());
  for (int64_t k = 0; k < n; ++k) acc = Join<kKind>(acc, hn::GatherIndex(d, x + k, places));
  return acc;
}

// Rows of few elements, a lane each: y[row] = join of x [rows, n].
template <ReduceKind kKind>
HWY_INLINE void ShortRowsOf(const float* x, float* y, int64_t rows, int64_t n) {
  const D d;
  const hn::RebindToSigned<D> di;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto places = hn::Mul(hn::Iota(di, 0), hn::Set(di, static_cast<int32_t>(n)));
  int64_t row = 0;
  for (; row + lanes <= rows; row += lanes) {
    hn::StoreU(JoinShortRows<kKind>(x + row * n, n, places), d, y + row);
  }
  for (; row < rows; ++row) {
    float acc = Neutral<kKind>();
    for (int64_t k = 0; k < n; ++k)
      acc = AccumulateReduce<float, float>(kKind, acc, x[row * n + k]);
    y[row] = acc;
  }
}

void ShortRows(ReduceKind kind, const float* x, float* y, int64_t rows, int64_t n) {
  switch (kind) {
    case ReduceKind::kL1: return ShortRowsOf<ReduceKind::kL1>(x, y, rows, n);
    case ReduceKind::kSumSquare: return ShortRowsOf<ReduceKind::kSumSquare>(x, y, rows, n);
    case ReduceKind::kProd: return ShortRowsOf<ReduceKind::kProd>(x, y, rows, n);
    case ReduceKind::kMax: return ShortRowsOf<ReduceKind::kMax>(x, y, rows, n);
    case ReduceKind::kMin: return ShortRowsOf<ReduceKind::kMin>(x, y, rows, n);
    default: return ShortRowsOf<ReduceKind::kSum>(x, y, rows, n);
  }
}

}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(ReduceRows);
HWY_EXPORT(ExpSumRow);
HWY_EXPORT(ShortRows);

namespace {

// What is accumulated for a kind before Finish makes the result of it.
ReduceKind Accumulated(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kMean:
    case ReduceKind::kLogSum: return ReduceKind::kSum;
    case ReduceKind::kL2: return ReduceKind::kSumSquare;
    default: return kind;
  }
}

double LogSumExp(double sum, float max) { return std::isinf(max) ? max : std::log(sum) + max; }

// Rows whose totals are asked for at once.
constexpr int64_t kRowsAtOnce = 64;

double RowTotal(ReduceKind accumulated, const float* x, int64_t n) {
  double total;
  HWY_DYNAMIC_DISPATCH(ReduceRows)(accumulated, x, n, n, 1, &total);
  return total;
}

double LogSumExpOfRow(const float* x, int64_t n) {
  const float max = static_cast<float>(RowTotal(ReduceKind::kMax, x, n));
  return LogSumExp(HWY_DYNAMIC_DISPATCH(ExpSumRow)(x, n, max), max);
}

// Long rows: 64 parts at most, each its own task, joined in order.
constexpr int64_t kParts = 64;
Slices LongRowParts(int64_t n) {
  constexpr int64_t kPart = 65536;
  const int64_t step = std::max(kPart, (n + kParts - 1) / kParts);
  return {(n + step - 1) / step, step};
}

double LongRow(ReduceKind kind, const float* x, int64_t n, const Parallel& par) {
  const auto [parts, step] = LongRowParts(n);
  double totals[kParts] = {};
  const auto each_part = [&](auto&& body) {
    par.For(parts, [&, step = step](int64_t i) {
      totals[i] = body(x + i * step, std::min(step, n - i * step));
    });
  };
  if (kind == ReduceKind::kLogSumExp) {
    each_part([](const float* p, int64_t count) { return RowTotal(ReduceKind::kMax, p, count); });
    double max = totals[0];
    for (int64_t i = 1; i < parts; ++i) max = JoinPartial(ReduceKind::kMax, max, totals[i]);
    each_part([max](const float* p, int64_t count) {
      return HWY_DYNAMIC_DISPATCH(ExpSumRow)(p, count, static_cast<float>(max));
    });
    double sum = 0.0;
    for (int64_t i = 0; i < parts; ++i) sum += totals[i];
    return LogSumExp(sum, static_cast<float>(max));
  }
  const ReduceKind accumulated = Accumulated(kind);
  each_part(
      [accumulated](const float* p, int64_t count) { return RowTotal(accumulated, p, count); });
  double total = totals[0];
  for (int64_t i = 1; i < parts; ++i) total = JoinPartial(accumulated, total, totals[i]);
  return total;
}

constexpr int64_t kLongRow = 262144, kShortRow = 8;

// Of rows of few elements, by the columns that they are turned to.
void ReduceTurned(ReduceKind kind, const float* x, float* y, int64_t rows, int64_t n) {
  const bool logs = kind == ReduceKind::kLogSumExp;
  ForTurnedRows(x, rows, n, [&](const float* columns, int64_t row, int64_t count) {
    ReduceColumns(logs ? ReduceKind::kMax : kind, columns, y + row, n, count, count);
    if (logs) LogSumExpColumns(columns, y + row, n, count, count);
  });
}

void ReduceLastAxis(ReduceKind kind, const float* x, float* y, int64_t rows, int64_t n,
                    const Parallel& par) {
  if (rows < 32 && n >= kLongRow) {
    for (int64_t row = 0; row < rows; ++row) {
      y[row] = FinishReduce<float>(kind, LongRow(kind, x + row * n, n, par), n);
    }
    return;
  }
  const Slices slices = Slice(rows, n / 4 + 4);
  if (n <= kShortRow && rows > 1 && kind != ReduceKind::kLogSumExp) {
    par.For(slices.tasks, [&](int64_t task) {
      const int64_t begin = slices.Begin(task), end = slices.End(task, rows);
      HWY_DYNAMIC_DISPATCH(ShortRows)(Accumulated(kind), x + begin * n, y + begin, end - begin, n);
      if (kind == Accumulated(kind)) return;
      for (int64_t i = begin; i < end; ++i) y[i] = FinishReduce<float>(kind, double{y[i]}, n);
    });
    return;
  }
  par.For(slices.tasks, [&](int64_t task) {
    const int64_t begin = slices.Begin(task), end = slices.End(task, rows);
    const bool gains = kind == ReduceKind::kLogSumExp || kind == ReduceKind::kProd;
    if (gains && AreTurned<float>(rows, n)) {
      return ReduceTurned(kind, x + begin * n, y + begin, end - begin, n);
    }
    for (int64_t row = begin; row < end;) {
      if (kind == ReduceKind::kLogSumExp) {
        y[row] = static_cast<float>(LogSumExpOfRow(x + row * n, n));
        ++row;
        continue;
      }
      double totals[kRowsAtOnce];
      const int64_t count = std::min(kRowsAtOnce, end - row);
      HWY_DYNAMIC_DISPATCH(ReduceRows)(Accumulated(kind), x + row * n, n, n, count, totals);
      for (int64_t i = 0; i < count; ++i) y[row + i] = FinishReduce<float>(kind, totals[i], n);
      row += count;
    }
  });
}

// A tall matrix of few columns, as a map of features is: rows are cut, so that each thread reads
// those that it wrote, and the parts are joined in order.
constexpr int64_t kTallParts = 4, kTallColumns = 2048, kTallElements = 16384;

void ReduceTall(ReduceKind kind, const float* x, float* y, int64_t n, int64_t inner,
                const Parallel& par) {
  const ReduceKind accumulated = Accumulated(kind);
  float totals[kTallParts][kTallColumns];
  par.For(kTallParts, [&](int64_t part) {
    const int64_t begin = n * part / kTallParts, end = n * (part + 1) / kTallParts;
    ReduceColumns(accumulated, x + begin * inner, totals[part], end - begin, inner, inner);
  });
  for (int64_t c = 0; c < inner; ++c) {
    double total = totals[0][c];
    for (int part = 1; part < kTallParts; ++part) {
      total = JoinPartial<double>(accumulated, total, totals[part][c]);
    }
    y[c] = FinishReduce<float>(kind, total, n);
  }
}

constexpr int64_t kMostExact = 1 << 24;  // of whole numbers in float32

void ReduceMiddleAxis(ReduceKind kind, const float* x, float* y, int64_t outer, int64_t n,
                      int64_t inner, const Parallel& par) {
  const int64_t columns = ColumnsOfTask(outer, inner);
  const int64_t blocks = CeilDiv(inner, columns);
  const bool logs = kind == ReduceKind::kLogSumExp;
  if (outer == 1 && !logs && n >= 4 * kTallParts && inner <= kTallColumns &&
      n * inner >= kTallElements) {
    return ReduceTall(kind, x, y, n, inner, par);
  }
  const ReduceKind accumulated = logs ? ReduceKind::kMax : Accumulated(kind);
  const Slices slices = Slice(outer * blocks, n * std::min(inner, columns) / (logs ? 1 : 4) + 4);
  par.For(slices.tasks, [&](int64_t task) {
    for (int64_t i = slices.Begin(task); i < slices.End(task, outer * blocks); ++i) {
      const int64_t first = i % blocks * columns, count = std::min(columns, inner - first);
      const float* from = x + i / blocks * n * inner + first;
      float* to = y + i / blocks * inner + first;
      ReduceColumns(accumulated, from, to, n, inner, count);
      if (logs) LogSumExpColumns(from, to, n, inner, count);
      if (logs || kind == accumulated) continue;
      if (kind == ReduceKind::kMean && n <= kMostExact) {
        DivideAll(to, count, static_cast<float>(n));
        continue;
      }
      for (int64_t c = 0; c < count; ++c) to[c] = FinishReduce<float>(kind, double{to[c]}, n);
    }
  });
}

// Rows of n2 elements, `inner` of them n times: those that lie under each other are columns, and
// what these are joined to is short rows.
constexpr int64_t kJoinedRow = 64, kJoinedFloats = 4096;

void ReduceTwoAxes(ReduceKind kind, const float* x, float* y, const ReduceShape& shape,
                   const Parallel& par) {
  const auto [outer, n, inner, n2] = shape;
  const ReduceKind accumulated = Accumulated(kind);
  const bool is_prepared = accumulated == ReduceKind::kL1 || accumulated == ReduceKind::kSumSquare;
  const ReduceKind joined = is_prepared ? ReduceKind::kSum : accumulated;
  const int64_t step = kJoinedFloats / n2, blocks = CeilDiv(inner, step);
  const Slices slices = Slice(outer * blocks, n * std::min(step, inner) * n2 / 4 + 4);
  par.For(slices.tasks, [&](int64_t task) {
    for (int64_t i = slices.Begin(task); i < slices.End(task, outer * blocks); ++i) {
      float columns[kJoinedFloats];
      const int64_t first = i % blocks * step, rows = std::min(step, inner - first);
      ReduceColumns(accumulated, x + (i / blocks * n * inner + first) * n2, columns, n, inner * n2,
                    rows * n2);
      float* const to = y + i / blocks * inner + first;
      if (n2 <= kShortRow) {
        HWY_DYNAMIC_DISPATCH(ShortRows)(joined, columns, to, rows, n2);
        for (int64_t r = 0; kind != joined && r < rows; ++r) {
          to[r] = FinishReduce<float>(kind, double{to[r]}, n * n2);
        }
        continue;
      }
      for (int64_t row = 0; row < rows; row += kRowsAtOnce) {
        double totals[kRowsAtOnce];
        const int64_t count = std::min(kRowsAtOnce, rows - row);
        HWY_DYNAMIC_DISPATCH(ReduceRows)(joined, columns + row * n2, n2, n2, count, totals);
        for (int64_t r = 0; r < count; ++r) {
          to[row + r] = FinishReduce<float>(kind, totals[r], n * n2);
        }
      }
    }
  });
}

}  // namespace

template <>
void Reduce<float>(ReduceKind kind, const float* x, float* y, const ReduceShape& given,
                   const Parallel& par) {
  const ReduceShape shape = WithoutSingles(given);
  const auto [outer, n, inner, n2] = shape;
  if (AreSetsTurned<float>(shape)) {
    ReduceTurnedSets(x, y, shape, par, [kind](const float* columns, float* to, const auto& some) {
      Reduce<float>(kind, columns, to, some, Parallel{});
    });
  } else if (n * n2 == 1) {
    ReduceMiddleAxis(kind, x, y, 1, 1, inner, par);
  } else if (n * n2 > 0 && inner == 1) {
    ReduceLastAxis(kind, x, y, outer, n * n2, par);
  } else if (n * n2 > 0 && n2 == 1) {
    ReduceMiddleAxis(kind, x, y, outer, n, inner, par);
  } else if (n == 1 && n2 > 0) {
    ReduceLastAxis(kind, x, y, outer * inner, n2, par);
  } else if (n > 0 && n2 > 0 && n2 < kJoinedRow && kind != ReduceKind::kLogSumExp) {
    ReduceTwoAxes(kind, x, y, shape, par);
  } else if (n2 > 0 && n > 0 && kind != ReduceKind::kLogSumExp) {
    // Rows of n2 joined in double over n.
    const ReduceKind accumulated = Accumulated(kind);
    const Slices slices = Slice(outer * inner, n * (n2 / 4 + 4));
    par.For(slices.tasks, [&](int64_t task) {
      for (int64_t i = slices.Begin(task); i < slices.End(task, outer * inner); ++i) {
        const float* from = x + (i / inner * n * inner + i % inner) * n2;
        double total = RowTotal(accumulated, from, n2), totals[kRowsAtOnce];
        for (int64_t k = 1; k < n; k += kRowsAtOnce) {
          const int64_t count = std::min(kRowsAtOnce, n - k), step = inner * n2;
          HWY_DYNAMIC_DISPATCH(ReduceRows)(accumulated, from + k * step, n2, step, count, totals);
          for (int64_t r = 0; r < count; ++r) total = JoinPartial(accumulated, total, totals[r]);
        }
        y[i] = FinishReduce<float>(kind, total, n * n2);
      }
    });
  } else {
    ReduceElements(kind, x, y, shape, par);
  }
}

}  // namespace sardonyx
#endif  // HWY_ONCE
