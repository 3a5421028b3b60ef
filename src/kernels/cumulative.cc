#include "kernels/cumulative.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cumulative.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "kernels/number_types.h"
#include "kernels/slices.h"

namespace sardonyx {
#ifndef SARDONYX_KERNELS_CUMULATIVE_ONCE
#define SARDONYX_KERNELS_CUMULATIVE_ONCE
// Columns worked on at a time, and the loops of one type: over columns, and over whole rows.
inline constexpr int64_t kCumulativeColumns = 1024;
template <typename T>
struct CumulativeLoops {
  using Columns = void (*)(const T* x, T* y, int64_t n, int64_t inner, int64_t count, bool reverse);
  using Rows = void (*)(const T* x, T* y, int64_t n, int64_t count, bool reverse);
  Columns columns[2][2];  // [product][exclusive]
  Rows rows[2][2];
};
using AllCumulativeLoops = RowPerNumber<CumulativeLoops>;
#endif
}  // namespace sardonyx

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Integers wrap alike at any width.
template <typename T>
using Accumulator = std::conditional_t<std::is_floating_point_v<T>, double,
                                       std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>>;

template <typename T>
using Unsigned = std::conditional_t<std::is_floating_point_v<T>, T, hwy::MakeUnsigned<T>>;

// The next running value; what belongs to this element is written.
template <bool kProduct, bool kExclusive, typename T, typename A>
HWY_INLINE A Step(A running, T from, T* to) {
  const A value = static_cast<A>(from);
  const A next = kProduct ? running * value : running + value;
  *to = static_cast<T>(kExclusive ? running : next);
  return next;
}

template <class D, typename T>
HWY_INLINE hn::Vec<D> Widened(D d, const T* p) {
  if constexpr (sizeof(T) == sizeof(hn::TFromD<D>)) {
    return hn::LoadU(d, p);
  } else {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, D>(), p));
  }
}
template <class D, typename T>
HWY_INLINE void StoreNarrowed(D d, hn::Vec<D> v, T* p) {
  const hn::Rebind<T, D> narrow;
  if constexpr (sizeof(T) == sizeof(hn::TFromD<D>)) {
    hn::StoreU(v, d, p);
  } else if constexpr (std::is_floating_point_v<T>) {
    hn::StoreU(hn::DemoteTo(narrow, v), narrow, p);
  } else {
    hn::StoreU(hn::TruncateTo(narrow, v), narrow, p);
  }
}

// Some rows of kVectors vectors of adjacent columns, on top of the running values.
template <bool kProduct, bool kExclusive, int kVectors, class D, typename T, typename A>
HWY_INLINE void ColumnBlock(D d, const T* x, T* y, A* running, int64_t rows, int64_t step) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> sum[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) sum[v] = hn::LoadU(d, running + v * lanes);
  for (int64_t i = 0; i < rows; ++i, x += step, y += step) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const auto value = Widened(d, x + v * lanes);
      const auto next = kProduct ? hn::Mul(sum[v], value) : hn::Add(sum[v], value);
      StoreNarrowed(d, kExclusive ? sum[v] : next, y + v * lanes);
      sum[v] = next;
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[v], d, running + v * lanes);
}

// `count` columns of x [n, inner], a few rows at a time, so that each is read onwards: of short
// rows as many as stay in the cache, or one where only memory is waited for. Of long ones more than
// 4 would push each other out: where they lie pages apart, they and their results share the 8
// places of a line of the first-level cache.
template <bool kProduct, bool kExclusive, typename Type>
void Columns(const Type* x_in, Type* y_out, int64_t n, int64_t inner, int64_t count, bool reverse) {
  const int64_t row_bytes = inner * static_cast<int64_t>(sizeof(Type));
  const int64_t some = row_bytes > 2048 ? 4 : sizeof(Type) == 8 ? 1 : 16384 / row_bytes;
  using A = Accumulator<Type>;
  using T = Unsigned<Type>;
  const int64_t first = reverse ? (n - 1) * inner : 0, step = reverse ? -inner : inner;
  const T* x = reinterpret_cast<const T*>(x_in) + first;
  T* y = reinterpret_cast<T*>(y_out) + first;
  A running[kCumulativeColumns];
  std::fill_n(running, count, kProduct ? A{1} : A{0});
  for (int64_t i = 0; i < n; i += some, x += some * step, y += some * step) {
    const int64_t rows = std::min(some, n - i);
    int64_t c = 0;
    const auto blocks = [&](auto vectors, auto d) HWY_ATTR {
      const int64_t columns = vectors() * static_cast<int64_t>(hn::Lanes(d));
      for (; c + columns <= count; c += columns) {
        ColumnBlock<kProduct, kExclusive, vectors()>(d, x + c, y + c, running + c, rows, step);
      }
    };
    // As many side by side as there are: each sum waits for the one before it.
    const hn::ScalableTag<A> d;
    blocks(std::integral_constant<int, 8>(), d);
    blocks(std::integral_constant<int, 4>(), d);
    blocks(std::integral_constant<int, 2>(), d);
    blocks(std::integral_constant<int, 1>(), d);
    blocks(std::integral_constant<int, 1>(), hn::CappedTag<A, 32 / sizeof(A)>());
    blocks(std::integral_constant<int, 1>(), hn::CappedTag<A, 16 / sizeof(A)>());
    blocks(std::integral_constant<int, 1>(), hn::CappedTag<A, 8 / sizeof(A)>());
    blocks(std::integral_constant<int, 1>(), hn::CappedTag<A, 1>());
  }
}

// Some rows side by side, where each step waits long for the one before it: integers are added
// within a cycle, and one row after the other is what memory gives fastest.
template <bool kProduct, bool kExclusive, typename T>
void Rows(const T* x, T* y, int64_t n, int64_t count, bool reverse) {
  using A = Accumulator<T>;
  const A start = kProduct ? A{1} : A{0};
  const int64_t first = reverse ? n - 1 : 0, step = reverse ? -1 : 1;
  constexpr bool kIsSlow = kProduct || std::is_floating_point_v<T>;
  int64_t row = 0;
  for (; kIsSlow && row + 4 <= count; row += 4) {
    const T* from = x + row * n + first;
    T* to = y + row * n + first;
    A a = start, b = start, c = start, d = start;
    for (int64_t i = 0; i < n; ++i, from += step, to += step) {
      a = Step<kProduct, kExclusive>(a, from[0], to);
      b = Step<kProduct, kExclusive>(b, from[n], to + n);
      c = Step<kProduct, kExclusive>(c, from[2 * n], to + 2 * n);
      d = Step<kProduct, kExclusive>(d, from[3 * n], to + 3 * n);
    }
  }
  for (; row < count; ++row) {
    const T* from = x + row * n + first;
    T* to = y + row * n + first;
    A running = start;
    for (int64_t i = 0; i < n; ++i, from += step, to += step) {
      running = Step<kProduct, kExclusive>(running, *from, to);
    }
  }
}

template <typename T>
void Fill(CumulativeLoops<T>* to) {
  *to = {
      {{Columns<false, false, T>, Columns<false, true, T>},
       {Columns<true, false, T>, Columns<true, true, T>}},
      {{Rows<false, false, T>, Rows<false, true, T>}, {Rows<true, false, T>, Rows<true, true, T>}}};
}

void FillAll(AllCumulativeLoops* all) {
  std::apply([](auto&... each) { (Fill(&each), ...); }, *all);
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(FillAll);

template <typename T>
void Cumulative(const CumulativeShape& shape, const T* x, T* y, const Parallel& par) {
  const int64_t n = shape.n, inner = shape.inner;
  constexpr int64_t kColumns = kCumulativeColumns;
  const int64_t blocks = (inner + kColumns - 1) / kColumns;
  AllCumulativeLoops all;
  HWY_DYNAMIC_DISPATCH(FillAll)(&all);
  if (inner == 1) {
    const auto rows = std::get<CumulativeLoops<T>>(all).rows[shape.product][shape.exclusive];
    const Slices slices = Slice(shape.outer, n / 2 + 1, 4);
    par.For(slices.tasks, [&](int64_t task) {
      const int64_t begin = slices.Begin(task), end = slices.End(task, shape.outer);
      rows(x + begin * n, y + begin * n, n, end - begin, shape.reverse);
    });
    return;
  }
  const auto columns = std::get<CumulativeLoops<T>>(all).columns[shape.product][shape.exclusive];
  const Slices slices = Slice(shape.outer * blocks, n * std::min(inner, kColumns) / 4 + n);
  par.For(slices.tasks, [&](int64_t task) {
    for (int64_t i = slices.Begin(task); i < slices.End(task, shape.outer * blocks); ++i) {
      const int64_t first = i % blocks * kColumns, at = i / blocks * n * inner + first;
      columns(x + at, y + at, n, inner, std::min(kColumns, inner - first), shape.reverse);
    }
  });
}

#define SARDONYX_CUMULATIVE(T) \
  template void Cumulative<T>(const CumulativeShape&, const T*, T*, const Parallel&);
SARDONYX_CUMULATIVE(float)
SARDONYX_NUMBERS_BUT_FLOAT(SARDONYX_CUMULATIVE)
#undef SARDONYX_CUMULATIVE

}  // namespace sardonyx
#endif  // HWY_ONCE
