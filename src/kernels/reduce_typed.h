#pragma once
// The plain loops of kernels/reduce.h for every type, and what they share with the vectorised ones.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/round.h"
#include "kernels/number_types.h"
#include "kernels/reduce.h"
#include "kernels/slices.h"
#include "kernels/transpose.h"

namespace sardonyx {

// Where integers wrap instead of being undefined.
template <typename A>
using WrappingSum = std::conditional_t<std::is_floating_point_v<A>, A,
                                       std::conditional_t<sizeof(A) == 8, uint64_t, uint32_t>>;

// Joins what two parts of the input have accumulated.
template <typename A>
inline A JoinPartial(ReduceKind kind, A a, A b) {
  using U = WrappingSum<A>;
  switch (kind) {
    case ReduceKind::kMax: return b > a || b != b ? b : a;
    case ReduceKind::kMin: return b < a || b != b ? b : a;
    case ReduceKind::kProd: return static_cast<A>(static_cast<U>(a) * static_cast<U>(b));
    default: return static_cast<A>(static_cast<U>(a) + static_cast<U>(b));
  }
}

// The result of what `count` elements have accumulated. kLogSumExp comes finished.
template <typename T, typename A>
inline T FinishReduce(ReduceKind kind, A total, int64_t count) {
  switch (kind) {
    case ReduceKind::kMean:
      if constexpr (std::is_integral_v<A>) {
        return count == 0 ? T{0} : static_cast<T>(total / static_cast<A>(count));
      } else {
        return static_cast<T>(total / static_cast<A>(count));
      }
    case ReduceKind::kL2: return static_cast<T>(std::sqrt(static_cast<double>(total)));
    case ReduceKind::kLogSum: return static_cast<T>(std::log(static_cast<double>(total)));
    default: return static_cast<T>(total);
  }
}

// Sums of integers are taken in 64 bits (wrapping), of floats in double.
template <typename T>
using ReduceAccumulator =
    std::conditional_t<std::is_floating_point_v<T>, double,
                       std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;

template <typename T, typename A>
inline A StartReduce(ReduceKind kind) {
  using Limits = std::numeric_limits<T>;
  switch (kind) {
    case ReduceKind::kMax:
      return static_cast<A>(Limits::has_infinity ? -Limits::infinity() : Limits::lowest());
    case ReduceKind::kMin:
      return static_cast<A>(Limits::has_infinity ? Limits::infinity() : Limits::max());
    case ReduceKind::kProd: return A{1};
    default: return A{0};
  }
}

template <typename T, typename A>
inline A AccumulateReduce(ReduceKind kind, A total, T element) {
  using U = WrappingSum<A>;
  const A x = static_cast<A>(element);
  switch (kind) {
    case ReduceKind::kSumSquare:
    case ReduceKind::kL2:
      return static_cast<A>(static_cast<U>(total) + static_cast<U>(x) * static_cast<U>(x));
    case ReduceKind::kL1:
      return static_cast<A>(static_cast<U>(total) +
                            (x < A{0} ? U{0} - static_cast<U>(x) : static_cast<U>(x)));
    default: return JoinPartial(kind, total, x);
  }
}

// Any layout, an output element at a time.
template <typename T>
void ReduceElements(ReduceKind kind, const T* x, T* y, const ReduceShape& shape,
                    const Parallel& par) {
  using A = ReduceAccumulator<T>;
  const auto [outer, n, inner, n2] = shape;
  const Slices slices = Slice(outer * inner, n * n2 + 4);
  par.For(slices.tasks, [&, n = n, n2 = n2, inner = inner, outer = outer](int64_t task) {
    for (int64_t i = slices.Begin(task); i < slices.End(task, outer * inner); ++i) {
      const T* from = x + (i / inner * n * inner + i % inner) * n2;
      const auto for_each = [&](auto&& body) {
        for (int64_t k = 0; k < n; ++k) {
          for (int64_t j = 0; j < n2; ++j) body(from[k * inner * n2 + j]);
        }
      };
      if (kind == ReduceKind::kLogSumExp) {
        double max = -std::numeric_limits<double>::infinity(), sum = 0.0;
        for_each([&](T v) { max = JoinPartial(ReduceKind::kMax, max, static_cast<double>(v)); });
        for_each([&](T v) { sum += std::exp(static_cast<double>(v) - max); });
        y[i] = static_cast<T>(std::isinf(max) ? max : std::log(sum) + max);
        continue;
      }
      A total = StartReduce<T, A>(kind);
      for_each([&](T v) { total = AccumulateReduce<T, A>(kind, total, v); });
      y[i] = FinishReduce<T>(kind, total, n * n2);
    }
  });
}

// Short rows are turned, some at a time, to columns, a lane each (Zen 4, places in 65,536 rows of
// 21 float32: 0.4 of the time that vectors along each row take; of 12 rather than gathered: 0.5;
// logarithms of sums of 64: 0.6).
inline constexpr int64_t kTurnedBytes = 384, kTurnedRows = 64;

template <typename T>
bool AreTurned(int64_t rows, int64_t n) {
  return rows >= 8 && n <= kTurnedBytes / 4 && n * static_cast<int64_t>(sizeof(T)) <= kTurnedBytes;
}

// body(columns [n, count], first row, count) for all rows of x [rows, n], of which some have room.
template <typename T, typename Body>
void ForTurnedRows(const T* x, int64_t rows, int64_t n, const Body& body) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
  T columns[kTurnedRows * kTurnedBytes / kBytes];
  const int64_t room = kTurnedRows * kTurnedBytes / (n * kBytes);
  const int64_t most = room >= kTurnedRows ? kTurnedRows : std::max<int64_t>(room / 16 * 16, 1);
  for (int64_t row = 0; row < rows; row += most) {
    const int64_t count = std::min(most, rows - row);
    TransposeMatrix(x + row * n, n, columns, count, n, count, sizeof(T));
    body(columns, row, count);
  }
}

// Sets of few results, too few for a vector, each a short row: they are turned like rows, and what
// they are reduced to back (Zen 4, largest of 50,000 x 3 x 2 float32: 0.2 of the time).
template <typename T>
bool AreSetsTurned(const ReduceShape& s) {
  constexpr int64_t kVector = 64, kMostBytes = 1536;
  const int64_t result = s.inner * static_cast<int64_t>(sizeof(T));
  return s.outer >= 8 && s.inner > 1 && s.reduced2 == 1 && s.reduced > 1 && result < kVector &&
         s.reduced <= kMostBytes / result;
}

// `reduce`(columns, results, shape) reduces some of them, in one thread.
template <typename T, typename Y, typename Reduction>
void ReduceTurnedSets(const T* x, Y* y, const ReduceShape& shape, const Parallel& par,
                      const Reduction& reduce) {
  const int64_t inner = shape.inner, row_size = shape.reduced * inner;
  const Slices slices = Slice(shape.outer, row_size / 2 + 4);
  par.For(slices.tasks, [&](int64_t task) {
    const int64_t first = slices.Begin(task), rows = slices.End(task, shape.outer) - first;
    ForTurnedRows(x + first * row_size, rows, row_size,
                  [&](const T* columns, int64_t row, int64_t count) {
                    Y results[kTurnedRows * 64 / sizeof(T)];
                    reduce(columns, results, ReduceShape{1, shape.reduced, inner * count, 1});
                    TransposeMatrix(results, count, y + (first + row) * inner, inner, count, inner,
                                    sizeof(Y));
                  });
  });
}

// Sets of one element each are the columns of one row.
inline ReduceShape WithoutSingles(const ReduceShape& s) {
  return s.reduced * s.reduced2 == 1 ? ReduceShape{1, 1, s.outer * s.inner, 1} : s;
}

// Columns of [outer, n, inner] in a task: many, as memory gives long pieces of rows faster than
// short ones, but no more than leave some tasks for each thread.
constexpr int64_t kLeastColumns = 128, kMostColumns = 1024;
inline int64_t ColumnsOfTask(int64_t outer, int64_t inner) {
  const int64_t wanted = CeilDiv(outer * inner, MostTasks(4));
  return std::clamp(RoundUp(wanted, kLeastColumns), kLeastColumns, kMostColumns);
}

// The vectorised loops of a type T, accumulating in A; null where a kind has none. Rows of n lie
// `step` apart. Columns are at most kMostColumns of x [n, inner]. Totals go to y.
template <typename T, typename A>
struct ReduceLoops {
  void (*rows)(const T* x, A* y, int64_t n, int64_t step, int64_t rows) = nullptr;
  void (*columns)(const T* x, A* y, int64_t n, int64_t inner, int64_t count) = nullptr;
};

// Whether a wins over b among the largest or smallest: a NaN wins over numbers. Without branches.
template <typename T>
inline bool Wins(bool largest, T a, T b) {
  return (largest & (a > b)) | (!largest & (a < b)) | ((a != a) & (b == b));
}

// A row's number, as wide as its elements: vectors of both have as many lanes.
template <typename T>
using PlaceInColumn =
    std::conditional_t<sizeof(T) == 1, int8_t,
                       std::conditional_t<sizeof(T) == 2, int16_t,
                                          std::conditional_t<sizeof(T) == 4, int32_t, int64_t>>>;

template <typename T>
struct TypedReduction {
  ReduceLoops<T, T> (*same)(ReduceKind kind) = nullptr;
  ReduceLoops<T, ReduceAccumulator<T>> (*wide)(ReduceKind kind) = nullptr;
  ReduceLoops<T, int32_t> byte_sums;  // of bytes
};
using TypedReductions = RowPerNumber<TypedReduction>;

template <typename T>
struct BestPlaces {
  // The best of at most kMostColumns columns of n rows that lie `step` apart, and the first row
  // that has it.
  using FindBest = void (*)(const T* x, T* best, PlaceInColumn<T>* places, int64_t n, int64_t step,
                            int64_t count);
  FindBest largest_of_columns = nullptr, smallest_of_columns = nullptr;
  // Places of the best of each row of x [rows, n].
  using FindInRows = void (*)(const T* x, int64_t* y, int64_t rows, int64_t n, bool select_last);
  FindInRows largest_of_rows = nullptr, smallest_of_rows = nullptr;
};
using AllBestPlaces = RowPerNumber<BestPlaces>;

}  // namespace sardonyx
