#include "kernels/pool_planes.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pool_planes.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/pool_typed.h"
#include "kernels/tile_loop.h"

namespace sardonyx {
#ifndef SARDONYX_KERNELS_POOL_PLANES_ONCE
#define SARDONYX_KERNELS_POOL_PLANES_ONCE
// What is worked on at a time: outputs of a row, and columns that they need.
inline constexpr int64_t kPoolOutputs = 512, kPoolColumns = 2048;
inline int64_t PoolSpan(const PoolShape& shape) {
  return (shape.kernel[2] - 1) * shape.dilation[2] + 1;
}
using PlaneRows = void (*)(const PoolShape& shape, const void* x, void* y, int64_t begin,
                           int64_t end);
#endif
}  // namespace sardonyx

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

template <PlanePool kKind, typename T>
HWY_INLINE T Join(T a, T b) {
  if constexpr (kKind == PlanePool::kMax) return a > b ? a : b;
  return a + b;
}

// to[i] = join(to[i], from[i * stride]).
template <PlanePool kKind, int64_t kStride, typename T>
HWY_INLINE void JoinEvery(const T* from, T* to, int64_t count, int64_t stride) {
  const int64_t step = kStride > 0 ? kStride : stride;
  SARDONYX_TILE_LOOP
  for (int64_t i = 0; i < count; ++i) to[i] = Join<kKind>(to[i], from[i * step]);
}

// Rows [begin, end) of y: the rows of a window are joined first, then its columns.
template <PlanePool kKind, typename T>
void Rows(const PoolShape& shape, const void* x_in, void* y_in, int64_t begin, int64_t end) {
  const T* x = static_cast<const T*>(x_in);
  const T neutral = kKind != PlanePool::kMax               ? T{0}
                    : std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                           : std::numeric_limits<T>::lowest();
  const int64_t stride = shape.stride[2], span = PoolSpan(shape), width = shape.out[2];
  const int64_t most = std::min(kPoolOutputs, (kPoolColumns - span) / stride + 1);
  constexpr bool kPadded = kKind == PlanePool::kAverageWithPad;
  PoolShape line;  // the last axis alone
  line.in[2] = shape.in[2], line.out[2] = shape.out[2], line.kernel[2] = shape.kernel[2];
  line.stride[2] = stride, line.dilation[2] = shape.dilation[2];
  line.pad_begin[2] = shape.pad_begin[2], line.pad_end[2] = shape.pad_end[2];
  PoolShape rest = shape;  // and the others
  rest.in[2] = rest.out[2] = rest.kernel[2] = rest.stride[2] = rest.dilation[2] = 1;
  rest.pad_begin[2] = rest.pad_end[2] = 0;
  T columns[kPoolColumns], counts[kPoolOutputs];
  for (int64_t first = 0; first < width; first += most) {
    const int64_t count = std::min(most, width - first);
    if constexpr (kKind != PlanePool::kMax) {
      PoolRowWindows along(line, 0);
      for (int64_t o = 0; o < count; ++o) {
        counts[o] = static_cast<T>(along.At(first + o, kPadded).counted);
      }
    }
    const int64_t start = first * stride - shape.pad_begin[2];
    const int64_t needed = (count - 1) * stride + span;
    const int64_t low = std::clamp<int64_t>(-start, 0, needed);
    const int64_t high = std::clamp<int64_t>(shape.in[2] - start, low, needed);
    for (int64_t row = begin; row < end; ++row) {
      const PoolWindow across = PoolRowWindows(rest, row).At(0, kPadded);
      std::fill_n(columns, needed, neutral);
      for (int64_t i = 0; i < across.count[0]; ++i) {
        for (int64_t j = 0; j < across.count[1]; ++j) {
          // `rest` has planes of in[0] * in[1] elements, each here a row of in[2].
          const int64_t at = across.offset + i * across.step[0] + j * across.step[1];
          const T* from = x + (at * shape.in[2] + start + low);
          JoinEvery<kKind, 1>(from, columns + low, high - low, 1);
        }
      }
      T* to = static_cast<T*>(y_in) + row * width + first;
      std::fill_n(to, count, neutral);
      for (int64_t k = 0; k < shape.kernel[2]; ++k) {
        const T* from = columns + k * shape.dilation[2];
        if (stride == 1) {
          JoinEvery<kKind, 1>(from, to, count, 1);
        } else if (stride == 2) {
          JoinEvery<kKind, 2>(from, to, count, 2);
        } else {
          JoinEvery<kKind, 0>(from, to, count, stride);
        }
      }
      if constexpr (kKind != PlanePool::kMax) {
        const T rows = static_cast<T>(across.counted);
        SARDONYX_TILE_LOOP
        for (int64_t o = 0; o < count; ++o) {
          const T total = rows * counts[o];
          to[o] = total > 0 ? to[o] / total : T{0};
        }
      }
    }
  }
}

PlaneRows Find(PlanePool kind, DType type) {
  const auto any = [&](auto tag) -> PlaneRows {
    using T = typename decltype(tag)::type;
    if (kind == PlanePool::kMax) return Rows<PlanePool::kMax, T>;
    if constexpr (std::is_floating_point_v<T>) {
      return kind == PlanePool::kAverage ? Rows<PlanePool::kAverage, T>
                                         : Rows<PlanePool::kAverageWithPad, T>;
    }
    return nullptr;
  };
  switch (type) {
    case DType::kFloat32: return any(TypeTag<float>{});
    case DType::kFloat64: return any(TypeTag<double>{});
    case DType::kInt8: return any(TypeTag<int8_t>{});
    case DType::kUInt8: return any(TypeTag<uint8_t>{});
    default: return nullptr;
  }
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Find);

bool CanPoolPlanes(const PoolShape& shape, PlanePool kind, DType type) {
  return shape.channels == 1 && PoolSpan(shape) <= kPoolColumns / 2 &&
         HWY_DYNAMIC_DISPATCH(Find)(kind, type) != nullptr;
}

void PoolPlanes(const PoolShape& shape, PlanePool kind, DType type, const void* x, void* y,
                const Parallel& par) {
  const PlaneRows run = HWY_DYNAMIC_DISPATCH(Find)(kind, type);
  const int64_t rows = shape.batch * shape.out[0] * shape.out[1];
  const int64_t taps = shape.kernel[0] * shape.kernel[1] * shape.stride[2] + shape.kernel[2];
  const Slices slices = Slice(rows, shape.out[2] * taps / 8 + 20);
  par.For(slices.tasks,
          [&](int64_t task) { run(shape, x, y, slices.Begin(task), slices.End(task, rows)); });
}

}  // namespace sardonyx
#endif  // HWY_ONCE
