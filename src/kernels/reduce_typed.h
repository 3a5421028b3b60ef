#pragma once
// The plain loops of kernels/reduce.h for every type, and what they share with the vectorised ones.

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/reduce.h"
#include "kernels/slices.h"

namespace sardonyx {

// Joins what two parts of the input have accumulated.
template <typename A>
inline A JoinPartial(ReduceKind kind, A a, A b) {
  using U = std::conditional_t<std::is_same_v<A, int64_t>, uint64_t, A>;  // wraps, not undefined
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
  using U = std::conditional_t<std::is_same_v<A, int64_t>, uint64_t, A>;
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

template <typename T>
void ArgReduceElements(bool largest, bool select_last, const T* x, int64_t* y, int64_t outer,
                       int64_t n, int64_t inner, const Parallel& par) {
  const Slices slices = Slice(outer * inner, n);
  par.For(slices.tasks, [&](int64_t task) {
    for (int64_t i = slices.Begin(task); i < slices.End(task, outer * inner); ++i) {
      const T* from = x + i / inner * n * inner + i % inner;
      T best = from[0];
      int64_t at = 0;
      for (int64_t k = 1; k < n; ++k) {
        const T v = from[k * inner];
        const bool nan = v != v, best_nan = best != best;
        const bool better = nan ? !best_nan : !best_nan && (largest ? v > best : v < best);
        const bool equal = nan ? best_nan : v == best;
        if (better || (select_last && equal)) {
          best = v;
          at = k;
        }
      }
      y[i] = at;
    }
  });
}

}  // namespace sardonyx
