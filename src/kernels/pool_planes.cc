#include "kernels/pool_planes.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pool_planes.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "base/round.h"
#include "kernels/chains.h"
#include "kernels/pool_typed.h"
#include "kernels/row_math-inl.h"

namespace sardonyx {
#ifndef SARDONYX_KERNELS_POOL_PLANES_ONCE
#define SARDONYX_KERNELS_POOL_PLANES_ONCE
// What is worked on at a time: outputs of a row, and columns that they need.
inline constexpr int64_t kPoolOutputs = 512, kPoolColumns = 2048;
// What a window spans along an axis; what all of them do by steps of 1, padding included.
inline int64_t PoolSpanOf(const PoolShape& shape, int axis) {
  return (shape.kernel[axis] - 1) * shape.dilation[axis] + 1;
}
inline int64_t PoolReach(const PoolShape& shape, int axis) {
  return shape.out[axis] - 1 + PoolSpanOf(shape, axis);
}
using PlaneRows = void (*)(const PoolShape& shape, const void* x, void* y, int64_t begin,
                           int64_t end);
#endif
}  // namespace sardonyx

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <PlanePool kKind, class V>
HWY_INLINE V JoinVectors(V a, V b) {
  if constexpr (kKind == PlanePool::kMax) return hn::Max(a, b);
  return hn::Add(a, b);
}
template <PlanePool kKind, typename T>
HWY_INLINE T Join(T a, T b) {
  if constexpr (kKind == PlanePool::kMax) return a > b ? a : b;
  return static_cast<T>(a + b);
}

// The rows of a window: counts and distances along the first two axes.
struct Across {
  int64_t count[2], step[2];
};

// to[c] = join of the window's rows at from + c, for the vectors of `d` that fit into [c, count);
// returns the next c. kLong: in chains.
template <PlanePool kKind, bool kLong, class D, typename T>
HWY_INLINE int64_t JoinVectorRows(D d, const Across& across, const T* from, T* to, int64_t c,
                                  int64_t count, T neutral) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; c + lanes <= count; c += lanes) {
    auto acc = hn::Set(d, neutral), chains = acc;
    int64_t left = kOneChain;
    for (int64_t i = 0; i < across.count[0]; ++i) {
      for (int64_t j = 0; j < across.count[1]; ++j) {
        const T* p = from + i * across.step[0] + j * across.step[1] + c;
        acc = JoinVectors<kKind>(acc, hn::LoadU(d, p));
        if (!kLong || --left > 0) continue;
        chains = JoinVectors<kKind>(chains, acc);
        acc = hn::Set(d, neutral);
        left = kOneChain;
      }
    }
    hn::StoreU(JoinVectors<kKind>(chains, acc), d, to + c);
  }
  return c;
}

// to[c] = join of the window's rows at from + c, for c < count. What no whole vector has is taken
// by a short one, which may begin before it.
template <PlanePool kKind, bool kLong, typename T>
HWY_INLINE void JoinRows(const Across& across, const T* from, T* to, int64_t count, T neutral) {
  const hn::CappedTag<T, 16 / sizeof(T)> four;
  const auto join = [&](auto d, int64_t c) HWY_ATTR {
    return JoinVectorRows<kKind, kLong>(d, across, from, to, c, count, neutral);
  };
  int64_t c = join(four, join(hn::ScalableTag<T>(), 0));
  if (const int64_t short_lanes = static_cast<int64_t>(hn::Lanes(four));
      c < count && count >= short_lanes) {
    c = join(four, count - short_lanes);
  }
  join(hn::CappedTag<T, 1>(), c);
}

// to[o] = join of columns[o * stride + k * dilation] over k. Reads whole vectors, at most two
// beyond the last column that is needed, and writes whole vectors to `to`.
template <PlanePool kKind, typename T>
HWY_INLINE void JoinColumns(const PoolShape& shape, const T* columns, T* to, int64_t count) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t kernel = shape.kernel[2], stride = shape.stride[2], step = shape.dilation[2];
  if (stride > 2) {
    for (int64_t o = 0; o < count; ++o) {
      T acc = columns[o * stride];
      for (int64_t k = 1; k < kernel; ++k) {
        acc = Join<kKind>(acc, columns[o * stride + k * step]);
      }
      to[o] = acc;
    }
    return;
  }
  for (int64_t o = 0; o < count; o += lanes) {
    const T* from = columns + o * stride;
    hn::Vec<decltype(d)> acc, next;
    if (stride == 1) {
      acc = hn::LoadU(d, from);
      for (int64_t k = 1; k < kernel; ++k) {
        acc = JoinVectors<kKind>(acc, hn::LoadU(d, from + k * step));
      }
    } else {
      hn::LoadInterleaved2(d, from, acc, next);
      // One load has two neighbouring taps.
      int64_t k = 1;
      if (step == 1 && kernel > 1) {
        acc = JoinVectors<kKind>(acc, next);
        ++k;
      }
      for (; k < kernel; ++k) {
        hn::Vec<decltype(d)> even, odd;
        hn::LoadInterleaved2(d, from + k * step, even, odd);
        acc = JoinVectors<kKind>(acc, even);
        if (step != 1 || k + 1 == kernel) continue;
        acc = JoinVectors<kKind>(acc, odd);
        ++k;
      }
    }
    hn::StoreU(acc, d, to + o);
  }
}

// to[o] = sums[o] / (rows * counts[o]), or 0 for a window of nothing. Reads whole vectors, and
// writes them if it may exceed `count`.
template <typename T>
HWY_INLINE void Divide(const T* sums, T rows, const T* counts, int64_t count, bool exceeds, T* to) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto mean = [&](int64_t o) HWY_ATTR {
    const auto total = hn::Mul(hn::Set(d, rows), hn::LoadU(d, counts + o));
    return hn::IfThenElseZero(hn::Gt(total, hn::Zero(d)), hn::Div(hn::LoadU(d, sums + o), total));
  };
  int64_t o = 0;
  for (const int64_t end = exceeds ? count : count - lanes + 1; o < end; o += lanes) {
    hn::StoreU(mean(o), d, to + o);
  }
  if (o < count) StorePart(mean(o), d, to + o, count - o);
}

// What no maximum sees.
template <typename T>
constexpr T kLeast = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                          : std::numeric_limits<T>::lowest();

// Rows [begin, end) of y: the rows of a window are joined first, then its columns.
template <PlanePool kKind, typename T>
void Rows(const PoolShape& shape, const void* x_in, void* y_in, int64_t begin, int64_t end) {
  constexpr int64_t kSlack = 2 * HWY_MAX_BYTES / sizeof(T), kShortRow = 192 / sizeof(T);
  const T* x = static_cast<const T*>(x_in);
  constexpr T kNeutral = kKind == PlanePool::kMax ? kLeast<T> : T{0};
  const int64_t stride = shape.stride[2], span = PoolSpanOf(shape, 2), width = shape.out[2];
  const int64_t step[2] = {shape.in[1] * shape.in[2] * shape.dilation[0],
                           shape.in[2] * shape.dilation[1]};
  const int64_t most = std::min(kPoolOutputs, (kPoolColumns - span) / stride + 1);
  constexpr bool kPadded = kKind == PlanePool::kAverageWithPad;
  T columns[kPoolColumns + kSlack], counts[kPoolOutputs + kSlack], made[kPoolOutputs + kSlack];
  std::fill_n(columns, kPoolColumns + kSlack, kNeutral);
  for (int64_t first = 0; first < width; first += most) {
    const int64_t count = std::min(most, width - first);
    if constexpr (kKind != PlanePool::kMax) {
      for (int64_t o = 0; o < count; ++o) {
        const PoolSpan along(shape, 2, first + o);
        counts[o] = static_cast<T>(kPadded ? along.padded : along.count);
      }
      std::fill_n(counts + count, kSlack, T{0});
    }
    const int64_t start = first * stride - shape.pad_begin[2];
    const int64_t needed = (count - 1) * stride + span;
    const int64_t low = std::clamp<int64_t>(-start, 0, needed);
    const int64_t high = std::clamp<int64_t>(shape.in[2] - start, low, needed);
    std::fill_n(columns, low, kNeutral);
    std::fill_n(columns + high, needed - high, kNeutral);
    std::array<int64_t, 2> out = {begin / shape.out[1] % shape.out[0], begin % shape.out[1]};
    int64_t image = begin / (shape.out[0] * shape.out[1]) * shape.in[0];
    PoolSpan top(shape, 0, out[0]);
    for (int64_t row = begin; row < end; ++row) {
      const PoolSpan left(shape, 1, out[1]);
      const Across across = {{top.count, left.count}, {step[0], step[1]}};
      const T* from =
          x + ((image + top.first) * shape.in[1] + left.first) * shape.in[2] + start + low;
      if (kKind != PlanePool::kMax && top.count * left.count > kOneChain) {
        JoinRows<kKind, true>(across, from, columns + low, high - low, kNeutral);
      } else {
        JoinRows<kKind, false>(across, from, columns + low, high - low, kNeutral);
      }
      T* to = static_cast<T*>(y_in) + row * width + first;
      // To copy a short row takes long; what goes beyond it is written over by the rows behind it.
      const bool straight =
          width <= kShortRow && count == width && (end - row - 1) * width >= kSlack;
      if constexpr (kKind == PlanePool::kMax) {
        JoinColumns<kKind>(shape, columns, straight ? to : made, count);
        if (!straight) std::copy_n(made, count, to);
      } else {
        JoinColumns<kKind>(shape, columns, made, count);
        const T rows = static_cast<T>(kPadded ? top.padded * left.padded : top.count * left.count);
        Divide(made, rows, counts, count, straight, to);
      }
      if (++out[1] < shape.out[1]) continue;
      out[1] = 0;
      if (++out[0] == shape.out[0]) out[0] = 0, image += shape.in[0];
      top = PoolSpan(shape, 0, out[0]);
    }
  }
}

// to[i] = max(from[i], from[i + a], from[i + b]), in whole vectors; `to` may be `from`.
template <typename T>
HWY_INLINE void JoinThree(const T* from, int64_t a, int64_t b, T* to, int64_t count) {
  const hn::ScalableTag<T> d;
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::Lanes(d))) {
    const auto both = hn::Max(hn::LoadU(d, from + i), hn::LoadU(d, from + i + a));
    hn::StoreU(hn::Max(both, hn::LoadU(d, from + i + b)), d, to + i);
  }
}

// to[0:count] = from[0:count], and what no maximum sees up to the end of the last vector.
template <typename T>
HWY_INLINE void CopyRow(const T* from, int64_t count, T* to) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
  if (i == count) return;
  const auto part = hn::FirstN(d, static_cast<size_t>(count - i));
  hn::StoreU(hn::IfThenElse(part, hn::LoadU(d, from + i), hn::Set(d, kLeast<T>)), d, to + i);
}

// Images [begin, end), as many at a time as fit into a buffer, by steps of 1: the maxima of up to
// 3, 9 ... neighbours of all of the padded images, down and then across. Rows go in and out in
// whole vectors: what these have beyond a row is written over by the next one.
template <typename T>
void SmallPlanes(const PoolShape& shape, const void* x_in, void* y_in, int64_t begin, int64_t end) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t height = PoolReach(shape, 1), width = PoolReach(shape, 2);
  const int64_t in = shape.in[2], out = shape.out[2], most = kPoolColumns / (height * width);
  constexpr int64_t kSlack = 2 * HWY_MAX_BYTES / sizeof(T);
  T planes[kPoolColumns + kSlack], joined[kPoolColumns + kSlack], made[kPoolColumns + kSlack];
  const int64_t filled = std::min(most, end - begin) * height * width + lanes;
  for (int64_t i = 0; i < filled; i += lanes) hn::StoreU(hn::Set(d, kLeast<T>), d, planes + i);
  const T* x = static_cast<const T*>(x_in) + begin * shape.in[1] * in;
  const T* const x_end = static_cast<const T*>(x_in) + shape.batch * shape.in[1] * in;
  T* y = static_cast<T*>(y_in) + begin * shape.out[1] * out;
  const T* const y_end = static_cast<const T*>(y_in) + end * shape.out[1] * out;
  for (int64_t images = most; begin < end; begin += images) {
    images = std::min(most, end - begin);
    for (int64_t image = 0; image < images; ++image) {
      T* to = planes + (image * height + shape.pad_begin[1]) * width + shape.pad_begin[2];
      for (int64_t row = 0; row < shape.in[1]; ++row, x += in, to += width) {
        if (x_end - x >= RoundUp(in, lanes)) {
          CopyRow(x, in, to);
        } else {
          std::copy_n(x, in, to);
          std::fill_n(to + in, width - in, kLeast<T>);
        }
      }
    }
    const T* from = planes;
    const auto join = [&](int axis, int64_t step, auto&& last) HWY_ATTR {
      const int64_t kernel = shape.kernel[axis];
      for (int64_t count = 1;; count *= 3) {
        const int64_t a = std::min(count, kernel - count) * step;
        const int64_t b = std::min(2 * count, kernel - count) * step;
        if (3 * count >= kernel) return last(a, b);
        JoinThree(from, a, b, joined, images * height * width - b);
        from = joined;
      }
    };
    join(1, shape.dilation[1] * width, [&](int64_t a, int64_t b) HWY_ATTR {
      JoinThree(from, a, b, joined, images * height * width - b);
    });
    from = joined;
    join(2, shape.dilation[2], [&](int64_t a, int64_t b) HWY_ATTR {
      for (int64_t image = 0; image < images; ++image) {
        from = joined + image * height * width;
        for (int64_t row = 0; row < shape.out[1]; ++row, from += width, y += out) {
          const bool straight = y_end - y >= RoundUp(out, lanes);
          JoinThree(from, a, b, straight ? y : made, out);
          if (!straight) std::copy_n(made, out, y);
        }
      }
    });
  }
}

PlaneRows Find(PlanePool kind, DType type, bool is_small) {
  const auto any = [&](auto tag) -> PlaneRows {
    using T = typename decltype(tag)::type;
    if (kind == PlanePool::kMax) return is_small ? SmallPlanes<T> : Rows<PlanePool::kMax, T>;
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
  return shape.channels == 1 && PoolSpanOf(shape, 2) <= kPoolColumns / 2 &&
         HWY_DYNAMIC_DISPATCH(Find)(kind, type, false) != nullptr;
}

void PoolPlanes(const PoolShape& shape, PlanePool kind, DType type, const void* x, void* y,
                const Parallel& par) {
  const auto fits = [&](int axis) {
    return shape.stride[axis] == 1 && shape.pad_begin[axis] >= 0 &&
           shape.pad_begin[axis] + shape.in[axis] <= PoolReach(shape, axis);
  };
  const bool is_small = kind == PlanePool::kMax && shape.in[0] * shape.out[0] == 1 && fits(1) &&
                        fits(2) && PoolReach(shape, 1) * PoolReach(shape, 2) <= kPoolColumns;
  const PlaneRows run = HWY_DYNAMIC_DISPATCH(Find)(kind, type, is_small);
  const int64_t lines = is_small ? shape.batch : shape.batch * shape.out[0] * shape.out[1];
  const int64_t taps = shape.kernel[0] * shape.kernel[1] * shape.stride[2] + shape.kernel[2];
  const int64_t outputs = is_small ? shape.out[1] * shape.out[2] : shape.out[2];
  const Slices slices = Slice(lines, outputs * taps / 8 + 20);
  par.For(slices.tasks,
          [&](int64_t task) { run(shape, x, y, slices.Begin(task), slices.End(task, lines)); });
}

}  // namespace sardonyx
#endif  // HWY_ONCE
