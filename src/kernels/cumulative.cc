#include "kernels/cumulative.h"

#include <algorithm>
#include <type_traits>

#include "kernels/slices.h"
#include "kernels/tile_loop.h"

namespace sardonyx {
namespace {

constexpr int64_t kColumns = 256;

template <bool kProduct, bool kExclusive, typename T>
void Columns(const T* x, T* y, int64_t n, int64_t inner, int64_t count, bool reverse) {
  using A = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
  A running[kColumns];
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

}  // namespace

template <typename T>
void Cumulative(const CumulativeShape& shape, const T* x, T* y, const Parallel& par) {
  const int64_t n = shape.n, inner = shape.inner;
  const int64_t blocks = (inner + kColumns - 1) / kColumns;
  const auto columns = shape.product
                           ? shape.exclusive ? Columns<true, true, T> : Columns<true, false, T>
                       : shape.exclusive ? Columns<false, true, T>
                                         : Columns<false, false, T>;
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
