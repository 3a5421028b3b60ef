#include "kernels/select.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "kernels/slices.h"
#include "kernels/strided_copy.h"
#include "kernels/tile_loop.h"
#include "kernels/tile_ops.h"

namespace sardonyx {

void Triangle(const void* x, void* y, int64_t count, int64_t rows, int64_t columns,
              int64_t diagonal, bool upper, int element_bytes, const Parallel& par) {
  const Slices slices = Slice(count * rows, columns * element_bytes / 16 + 4);
  par.For(slices.tasks, [&](int64_t task) {
    const int64_t end = slices.End(task, count * rows);
    for (int64_t i = slices.Begin(task), run; i < end; i += run) {
      const char* from = static_cast<const char*>(x) + i * columns * element_bytes;
      char* to = static_cast<char*>(y) + i * columns * element_bytes;
      const int64_t row = i % rows, border = row + diagonal + (upper ? 0 : 1);
      // Rows on one side of the triangle's border are one piece.
      const int64_t alike = border >= columns ? rows : border <= 0 ? row + 1 - border : row + 1;
      run = std::min(std::min(alike, rows) - row, end - i);
      const int64_t cut = std::clamp<int64_t>(border, 0, columns) * element_bytes * run;
      const int64_t rest = columns * element_bytes * run - cut;
      if (upper) {
        std::memset(to, 0, cut);
        std::memcpy(to + cut, from + cut, rest);
      } else {
        std::memcpy(to, from, cut);
        std::memset(to + cut, 0, rest);
      }
    }
  });
}

// Integers, which wrap alike at any width: multiples of the step in the cache, and the tiles of the
// target add to them what each chunk begins with.
template <typename T>
void Range(T first, T step, T* y, int64_t count, const Parallel& par) {
  using A = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
  constexpr int64_t kChunk = 1024;
  const A base = static_cast<A>(first), by = static_cast<A>(step);
  const Slices slices = Slice(count, 1, kChunk);
  par.For(slices.tasks, [&](int64_t task) {
    const int64_t end = slices.End(task, count);
    [[maybe_unused]] T multiples[kChunk];
    if constexpr (std::is_integral_v<T>) {
      A multiple = 0;
      for (T& each : multiples) {
        each = static_cast<T>(multiple);
        multiple += by;
      }
    }
    for (int64_t begin = slices.Begin(task); begin < end; begin += kChunk) {
      const int32_t size = static_cast<int32_t>(std::min(kChunk, end - begin));
      const A start = static_cast<A>(begin);
      T* to = y + begin;
      if constexpr (std::is_integral_v<T>) {
        const T at = static_cast<T>(base + start * by);
        TypedTileFn(TileOpcode::kAdd, DTypeOf<T>::value, 2)({{multiples, &at}, to, size});
      } else {
        SARDONYX_TILE_LOOP
        for (int32_t i = 0; i < size; ++i) {
          to[i] = static_cast<T>(base + (start + static_cast<A>(i)) * by);
        }
      }
    }
  });
}
template void Range<float>(float, float, float*, int64_t, const Parallel&);
template void Range<double>(double, double, double*, int64_t, const Parallel&);
template void Range<int16_t>(int16_t, int16_t, int16_t*, int64_t, const Parallel&);
template void Range<int32_t>(int32_t, int32_t, int32_t*, int64_t, const Parallel&);
template void Range<int64_t>(int64_t, int64_t, int64_t*, int64_t, const Parallel&);

namespace {

// Writes `on` into y [count, depth, inner] at the index of each line.
template <typename T, typename Index>
void MarkIndices(const Index* indices, int64_t count, int64_t depth, int64_t inner, const void* on,
                 void* y) {
  T value;
  std::memcpy(&value, on, sizeof(T));
  T* to = static_cast<T*>(y);
  for (int64_t i = 0; i < count; ++i, to += depth * inner) {
    for (int64_t j = 0; j < inner; ++j) {
      Index at = indices[i * inner + j];
      if (at < Index{0}) at += static_cast<Index>(depth);
      if (!(at >= Index{0} && at < static_cast<Index>(depth))) continue;
      const int64_t place = static_cast<int64_t>(at);
      if (static_cast<Index>(place) == at) to[place * inner + j] = value;  // no fraction
    }
  }
}

template <typename Index>
auto MarkerOf(int element_bytes) {
  switch (element_bytes) {
    case 1: return MarkIndices<uint8_t, Index>;
    case 2: return MarkIndices<uint16_t, Index>;
    case 4: return MarkIndices<uint32_t, Index>;
    case 8: return MarkIndices<uint64_t, Index>;
    default: return MarkIndices<std::array<uint64_t, 2>, Index>;
  }
}

}  // namespace

template <typename Index>
void OneHot(const Index* indices, const void* values, void* y, int64_t outer, int64_t depth,
            int64_t inner, int element_bytes, const Parallel& par) {
  const char* const off = static_cast<const char*>(values);
  const int64_t block = depth * inner;  // of y, an index of `outer`
  const auto mark = MarkerOf<Index>(element_bytes);
  const Slices slices = Slice(outer, block * element_bytes / 16 + inner * 4);
  par.For(slices.tasks, [&](int64_t task) {
    const int64_t end = slices.End(task, outer);
    // As many vectors at a time as stay in the first-level cache.
    const int64_t step = std::max<int64_t>(1, 8192 / std::max<int64_t>(1, block * element_bytes));
    for (int64_t begin = slices.Begin(task); begin < end; begin += step) {
      const int64_t count = std::min(step, end - begin);
      char* const to = static_cast<char*>(y) + begin * block * element_bytes;
      Fill(to, count * block, off, element_bytes, Parallel{});
      mark(indices + begin * inner, count, depth, inner, off + element_bytes, to);
    }
  });
}
#define SARDONYX_ONE_HOT(Index)                                                                 \
  template void OneHot<Index>(const Index*, const void*, void*, int64_t, int64_t, int64_t, int, \
                              const Parallel&)
SARDONYX_ONE_HOT(int32_t);
SARDONYX_ONE_HOT(int64_t);
SARDONYX_ONE_HOT(float);
SARDONYX_ONE_HOT(double);
#undef SARDONYX_ONE_HOT

}  // namespace sardonyx
