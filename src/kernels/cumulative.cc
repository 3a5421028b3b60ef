#include "kernels/cumulative.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cumulative.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <tuple>
#include <type_traits>

#include "kernels/slices.h"
#include "kernels/tile_loop.h"

namespace sardonyx {
#ifndef SARDONYX_KERNELS_CUMULATIVE_ONCE
#define SARDONYX_KERNELS_CUMULATIVE_ONCE
// Columns worked on at a time, and the loops over them of one type.
inline constexpr int64_t kCumulativeColumns = 256;
template <typename T>
struct CumulativeLoops {
  using Loop = void (*)(const T* x, T* y, int64_t n, int64_t inner, int64_t count, bool reverse);
  Loop loops[2][2];  // [product][exclusive]
};
using AllCumulativeLoops =
    std::tuple<CumulativeLoops<float>, CumulativeLoops<double>, CumulativeLoops<int8_t>,
               CumulativeLoops<uint8_t>, CumulativeLoops<int16_t>, CumulativeLoops<uint16_t>,
               CumulativeLoops<int32_t>, CumulativeLoops<uint32_t>, CumulativeLoops<int64_t>,
               CumulativeLoops<uint64_t>>;
#endif
}  // namespace sardonyx

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

template <bool kProduct, bool kExclusive, typename T>
void Columns(const T* x, T* y, int64_t n, int64_t inner, int64_t count, bool reverse) {
  // Integers wrap alike at any width.
  using Unsigned = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  using A = std::conditional_t<std::is_floating_point_v<T>, double, Unsigned>;
  A running[kCumulativeColumns];
  std::fill_n(running, count, kProduct ? A{1} : A{0});
  for (int64_t i = 0; i < n; ++i) {
    const int64_t row = (reverse ? n - 1 - i : i) * inner;
    const T* from = x + row;
    T* to = y + row;
    SARDONYX_TILE_LOOP
    for (int64_t c = 0; c < count; ++c) {
      const A value = static_cast<A>(from[c]);
      const A next = kProduct ? running[c] * value : running[c] + value;
      to[c] = static_cast<T>(kExclusive ? running[c] : next);
      running[c] = next;
    }
  }
}

template <typename T>
void Fill(CumulativeLoops<T>* to) {
  *to = {{{Columns<false, false, T>, Columns<false, true, T>},
          {Columns<true, false, T>, Columns<true, true, T>}}};
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
  const auto columns = std::get<CumulativeLoops<T>>(all).loops[shape.product][shape.exclusive];
  const Slices slices = Slice(shape.outer * blocks, n * std::min(inner, kColumns) / 4 + n);
  par.For(slices.tasks, [&](int64_t task) {
    for (int64_t i = slices.Begin(task); i < slices.End(task, shape.outer * blocks); ++i) {
      const int64_t first = i % blocks * kColumns, at = i / blocks * n * inner + first;
      columns(x + at, y + at, n, inner, std::min(kColumns, inner - first), shape.reverse);
    }
  });
}

#define SARDONYX_CUMULATIVE(T) \
  template void Cumulative<T>(const CumulativeShape&, const T*, T*, const Parallel&)
SARDONYX_CUMULATIVE(float);
SARDONYX_CUMULATIVE(double);
SARDONYX_CUMULATIVE(int8_t);
SARDONYX_CUMULATIVE(uint8_t);
SARDONYX_CUMULATIVE(int16_t);
SARDONYX_CUMULATIVE(uint16_t);
SARDONYX_CUMULATIVE(int32_t);
SARDONYX_CUMULATIVE(uint32_t);
SARDONYX_CUMULATIVE(int64_t);
SARDONYX_CUMULATIVE(uint64_t);
#undef SARDONYX_CUMULATIVE

}  // namespace sardonyx
#endif  // HWY_ONCE
