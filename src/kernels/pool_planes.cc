#include "kernels/pool_planes.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pool_planes.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "base/round.h"
#include "kernels/chains.h"
#include "kernels/pool_columns-inl.h"
#include "kernels/pool_typed.h"
#include "kernels/row_math-inl.h"
#include "kernels/transpose.h"

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
enum class PlaneForm : uint8_t { kAny, kSmall, kColumns };
using PlaneRows = void (*)(const PoolShape& shape, const void* x, void* y, int64_t begin,
                           int64_t end);
#endif
}  // namespace sardonyx

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

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

// The same of one to three rows, times `scale` if means are wanted.
template <PlanePool kKind, int kRows, bool kScales, class D, typename T>
HWY_INLINE int64_t JoinFewRows(D d, const T* const (&rows)[3], T* to, int64_t c, int64_t count,
                               T scale) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; c + lanes <= count; c += lanes) {
    auto acc = hn::LoadU(d, rows[0] + c);
    if constexpr (kRows > 1) acc = JoinVectors<kKind>(acc, hn::LoadU(d, rows[1] + c));
    if constexpr (kRows > 2) acc = JoinVectors<kKind>(acc, hn::LoadU(d, rows[2] + c));
    if constexpr (kScales) acc = hn::Mul(acc, hn::Set(d, scale));
    hn::StoreU(acc, d, to + c);
  }
  return c;
}

// Runs `join`(vectors, first) over `count` columns: it returns how far vectors went. What no whole
// vector has is taken by one that begins before it, or by short ones.
template <typename T, class F>
HWY_INLINE void OverColumns(int64_t count, const F& join) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 16 / sizeof(T)> four;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t short_lanes = static_cast<int64_t>(hn::Lanes(four));
  int64_t c = 0;
  if (count >= lanes) {
    c = join(d, c);
    if (c < count) join(d, count - lanes);
    return;
  }
  c = join(four, c);
  if (c < count && count >= short_lanes) c = join(four, count - short_lanes);
  if (c < count) join(hn::CappedTag<T, 1>(), c);
}

// Of up to three rows: to[c] = join of the window's rows at from + c, for c < count.
template <PlanePool kKind, bool kScales, typename T>
HWY_INLINE void JoinFew(const Across& across, const T* from, T* to, int64_t count, T scale) {
  const int64_t rows = across.count[0] * across.count[1];
  const T* at[3] = {from, from, from};
  for (int64_t i = 0; i < rows; ++i) {
    at[i] = from + i / across.count[1] * across.step[0] + i % across.count[1] * across.step[1];
  }
  OverColumns<T>(count, [&](auto d, int64_t c) HWY_ATTR {
    return rows == 1   ? JoinFewRows<kKind, 1, kScales>(d, at, to, c, count, scale)
           : rows == 2 ? JoinFewRows<kKind, 2, kScales>(d, at, to, c, count, scale)
                       : JoinFewRows<kKind, 3, kScales>(d, at, to, c, count, scale);
  });
}

// Of any.
template <PlanePool kKind, typename T>
HWY_INLINE void JoinRows(const Across& across, const T* from, T* to, int64_t count, T neutral) {
  const int64_t rows = across.count[0] * across.count[1];
  if (kKind != PlanePool::kMax && rows > kOneChain) {
    return OverColumns<T>(count, [&](auto d, int64_t c) HWY_ATTR {
      return JoinVectorRows<kKind, true>(d, across, from, to, c, count, neutral);
    });
  }
  if (rows == 0 || rows > 3) {
    return OverColumns<T>(count, [&](auto d, int64_t c) HWY_ATTR {
      return JoinVectorRows<kKind, false>(d, across, from, to, c, count, neutral);
    });
  }
  JoinFew<kKind, false>(across, from, to, count, T{1});
}

// What no maximum sees.
template <typename T>
constexpr T kLeast = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                          : std::numeric_limits<T>::lowest();

// The means' factors of a row of windows: 1 / (rows * counts[o]), 0 for a window of nothing. Whole
// vectors.
template <typename T>
HWY_INLINE void Invert(T rows, const T* counts, int64_t count, T* inverse) {
  const hn::ScalableTag<T> d;
  for (int64_t o = 0; o < count; o += static_cast<int64_t>(hn::Lanes(d))) {
    const auto all = hn::Mul(hn::Set(d, rows), hn::LoadU(d, counts + o));
    const auto one = hn::Set(d, T{1});
    hn::StoreU(hn::IfThenElseZero(hn::Gt(all, hn::Zero(d)), hn::Div(one, all)), d, inverse + o);
  }
}

// Rows [begin, end) of y: the rows of a window are joined first, then its columns. Each is done for
// several rows of y, for one is short, and what has just been stored is slow to load otherwise.
template <PlanePool kKind, typename T>
void Rows(const PoolShape& shape, const void* x_in, void* y_in, int64_t begin, int64_t end) {
  constexpr int64_t kSlack = 6 * HWY_MAX_BYTES / sizeof(T), kMostRows = 32;
  const T* x = static_cast<const T*>(x_in);
  const int64_t in = shape.in[2], plane = shape.in[1] * in;
  const T* const x_end = x + shape.batch * shape.in[0] * plane;
  constexpr T kNeutral = kKind == PlanePool::kMax ? kLeast<T> : T{0};
  const int64_t stride = shape.stride[2], span = PoolSpanOf(shape, 2), width = shape.out[2];
  const int64_t step[2] = {plane * shape.dilation[0], in * shape.dilation[1]};
  const int64_t most = std::min(kPoolOutputs, (kPoolColumns - span) / stride + 1);
  constexpr bool kPadded = kKind == PlanePool::kAverageWithPad;
  const Joining<kKind, T> join_columns = JoiningOf<kKind, T>(shape);
  HWY_ALIGN T columns[kPoolColumns + kSlack];
  T counts[kPoolOutputs + kSlack] = {}, inverse[kPoolOutputs + kSlack] = {};
  std::fill_n(columns, kPoolColumns + kSlack, kNeutral);
  for (int64_t first = 0; first < width; first += most) {
    const int64_t count = std::min(most, width - first);
    bool is_even = true;  // all windows count as many columns
    if constexpr (kKind != PlanePool::kMax) {
      for (int64_t o = 0; o < count; ++o) {
        const PoolSpan along(shape, 2, first + o);
        counts[o] = static_cast<T>(kPadded ? along.padded : along.count);
        is_even = is_even && counts[o] == counts[0];
      }
    }
    const int64_t start = first * stride - shape.pad_begin[2];
    const int64_t needed = (count - 1) * stride + span;
    const int64_t low = std::clamp<int64_t>(-start, 0, needed);
    const int64_t high = std::clamp<int64_t>(in - start, low, needed);
    // Windows that do not overlap make one row of several, which begin `pitch` columns apart. Else
    // what is joined begins at a whole vector: stores into two lines of the cache take long.
    constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
    const bool joins = count == width && span <= stride && is_even;
    const int64_t lead = joins ? 0 : RoundUp(low, kLanes) - low;
    const int64_t pitch = joins ? stride * width : RoundUp(lead + needed, kLanes);
    const int64_t fitting =
        std::min({kMostRows, kPoolColumns / pitch, joins ? kPoolOutputs / width : kMostRows});
    const int64_t together = std::max<int64_t>(1, fitting);
    for (int64_t i = 0; i < together; ++i) {
      std::fill_n(columns + i * pitch + lead, low, kNeutral);
      std::fill_n(columns + i * pitch + lead + high, needed - high, kNeutral);
    }
    std::array<int64_t, 2> out = {begin / shape.out[1] % shape.out[0], begin % shape.out[1]};
    int64_t image = begin / (shape.out[0] * shape.out[1]) * shape.in[0];
    PoolSpan top(shape, 0, out[0]);
    T inverse_of{0};  // rows that `inverse` is of
    for (int64_t row = begin, rows; row < end; row += rows) {
      rows = std::min(together, end - row);
      const T* source[kMostRows];
      T counted[kMostRows];
      bool is_one = joins;  // rows lie behind each other, and their windows count as many
      for (int64_t i = 0; i < rows; ++i) {
        const PoolSpan left(shape, 1, out[1]);
        const Across across = {{top.count, left.count}, {step[0], step[1]}};
        const T* const from = x + (image + top.first) * plane + left.first * in + start;
        const bool is_whole = low == 0 && high == needed && top.count * left.count == 1;
        if (is_whole && x_end - from >= needed + kSlack) {
          source[i] = from;
        } else {
          T* const to = columns + i * pitch + lead;
          JoinRows<kKind>(across, from + low, to + low, high - low, kNeutral);
          source[i] = to;
        }
        counted[i] = static_cast<T>(kPadded ? top.padded * left.padded : top.count * left.count);
        is_one = is_one && source[i] == source[0] + i * pitch &&
                 (kKind == PlanePool::kMax || counted[i] == counted[0]);
        if (++out[1] < shape.out[1]) continue;
        out[1] = 0;
        if (++out[0] == shape.out[0]) out[0] = 0, image += shape.in[0];
        top = PoolSpan(shape, 0, out[0]);
      }
      T* const y = static_cast<T*>(y_in) + row * width + first;
      for (int64_t i = 0; i < (is_one ? 1 : rows); ++i) {
        if constexpr (kKind != PlanePool::kMax) {
          if (counted[i] != inverse_of) {
            inverse_of = counted[i];
            Invert(inverse_of, counts, count, inverse);
            if (joins) std::fill_n(inverse + count, kPoolOutputs - count, inverse[0]);
          }
        }
        // What goes beyond a row is written over by the rows behind it.
        const bool exceeds =
            count == width && (is_one ? end - row - rows : end - row - i - 1) * width >= kSlack;
        join_columns(shape, source[i],
                     {inverse, y + i * width, is_one ? rows * count : count, exceeds});
      }
    }
  }
}

// As Rows, of windows of up to three rows of one column: all that lie inside of a plane are one
// row.
template <PlanePool kKind, typename T>
void Columns(const PoolShape& shape, const void* x_in, void* y_in, int64_t begin, int64_t end) {
  const int64_t width = shape.in[2], reach = PoolSpanOf(shape, 1);
  const T* const x = static_cast<const T*>(x_in);
  for (int64_t row = begin, rows; row < end; row += rows) {
    const int64_t image = row / shape.out[1], o = row % shape.out[1];
    const PoolSpan left(shape, 1, o);
    rows = 1;
    if (left.count == shape.kernel[1] && shape.stride[1] == 1) {
      rows = std::min({end - row, shape.out[1] - o, shape.in[1] - reach - left.first + 1});
    }
    const int64_t counted = kKind == PlanePool::kAverageWithPad ? left.padded : left.count;
    T* const to = static_cast<T*>(y_in) + row * width;
    if (left.count == 0) {
      std::fill_n(to, width, kKind == PlanePool::kMax ? kLeast<T> : T{0});
      continue;
    }
    JoinFew<kKind, kKind != PlanePool::kMax>({{1, left.count}, {0, shape.dilation[1] * width}},
                                             x + (image * shape.in[1] + left.first) * width, to,
                                             rows * width,
                                             static_cast<T>(1 / static_cast<double>(counted)));
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

// to[i] = sum of from[i + k * step] over k < kernel, times inverse[i] if kScales, in whole vectors;
// `to` may be `from`.
template <bool kScales, int kTaps, typename T>
HWY_INLINE void SumTaps(const T* from, int64_t kernel, int64_t step, const T* inverse, T* to,
                        int64_t count) {
  const hn::ScalableTag<T> d;
  const int64_t taps = kTaps > 0 ? kTaps : kernel;
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::Lanes(d))) {
    auto sum = hn::LoadU(d, from + i);
#pragma GCC unroll 3
    for (int64_t k = 1; k < taps; ++k) sum = hn::Add(sum, hn::LoadU(d, from + i + k * step));
    if constexpr (kScales) sum = hn::Mul(sum, hn::LoadU(d, inverse + i));
    hn::StoreU(sum, d, to + i);
  }
}
template <bool kScales, typename T>
HWY_INLINE void Sum(const T* from, int64_t kernel, int64_t step, const T* inverse, T* to,
                    int64_t count) {
  if (kernel == 3) return SumTaps<kScales, 3>(from, 3, step, inverse, to, count);
  SumTaps<kScales, 0>(from, kernel, step, inverse, to, count);
}

// to[0:count] = from[0:count], and `neutral` up to the end of the last vector.
template <typename T>
HWY_INLINE void CopyRow(const T* from, int64_t count, T* to, T neutral) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
  if (i == count) return;
  const auto part = hn::FirstN(d, static_cast<size_t>(count - i));
  hn::StoreU(hn::IfThenElse(part, hn::LoadU(d, from + i), hn::Set(d, neutral)), d, to + i);
}

// Images [begin, end), as many at a time as fit into a buffer, by steps of 1: sums, or the maxima
// of up to 3, 9 ... neighbours, of all of the padded images, down and then across. Rows go in and
// out in whole vectors: what these have beyond a row is written over by the next one.
template <PlanePool kKind, typename T>
void SmallPlanes(const PoolShape& shape, const void* x_in, void* y_in, int64_t begin, int64_t end) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t height = PoolReach(shape, 1), width = PoolReach(shape, 2);
  const int64_t in = shape.in[2], out = shape.out[2], most = kPoolColumns / (height * width);
  constexpr int64_t kSlack = 2 * HWY_MAX_BYTES / sizeof(T);
  constexpr T kNeutral = kKind == PlanePool::kMax ? kLeast<T> : T{0};
  constexpr bool kPadded = kKind == PlanePool::kAverageWithPad;
  T planes[kPoolColumns + kSlack], joined[kPoolColumns + kSlack], made[kPoolColumns + kSlack];
  T counts[kPoolColumns + kSlack], inverse[kPoolColumns + kSlack];
  T inverse_of = static_cast<T>(-1);  // rows that `inverse` is of
  const int64_t filled = std::min(most, end - begin) * height * width + lanes;
  for (int64_t i = 0; i < filled; i += lanes) hn::StoreU(hn::Set(d, kNeutral), d, planes + i);
  if constexpr (kKind != PlanePool::kMax) {
    std::fill_n(counts, RoundUp(out, lanes), T{0});
    for (int64_t o = 0; o < out; ++o) {
      const PoolSpan along(shape, 2, o);
      counts[o] = static_cast<T>(kPadded ? along.padded : along.count);
    }
  }
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
          CopyRow(x, in, to, kNeutral);
        } else {
          std::copy_n(x, in, to);
          std::fill_n(to + in, width - in, kNeutral);
        }
      }
    }
    const T* from = planes;
    const int64_t filled_now = images * height * width;
    if constexpr (kKind != PlanePool::kMax) {
      const int64_t step = shape.dilation[1] * width;
      Sum<false>(from, shape.kernel[1], step, inverse, joined,
                 filled_now - (shape.kernel[1] - 1) * step);
      for (int64_t image = 0; image < images; ++image) {
        from = joined + image * height * width;
        for (int64_t row = 0; row < shape.out[1]; ++row, from += width, y += out) {
          const PoolSpan left(shape, 1, row);
          const T rows = static_cast<T>(kPadded ? left.padded : left.count);
          if (rows != inverse_of) Invert(inverse_of = rows, counts, out, inverse);
          const bool straight = y_end - y >= RoundUp(out, lanes);
          Sum<true>(from, shape.kernel[2], shape.dilation[2], inverse, straight ? y : made, out);
          if (!straight) std::copy_n(made, out, y);
        }
      }
      continue;
    }
    const auto join = [&](int axis, int64_t step, auto&& last) HWY_ATTR {
      const int64_t kernel = shape.kernel[axis];
      for (int64_t count = 1;; count *= 3) {
        const int64_t a = std::min(count, kernel - count) * step;
        const int64_t b = std::min(2 * count, kernel - count) * step;
        if (3 * count >= kernel) return last(a, b);
        JoinThree(from, a, b, joined, filled_now - b);
        from = joined;
      }
    };
    join(1, shape.dilation[1] * width,
         [&](int64_t a, int64_t b) HWY_ATTR { JoinThree(from, a, b, joined, filled_now - b); });
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

template <PlanePool kKind, typename T>
PlaneRows FindOf(PlaneForm form) {
  switch (form) {
    case PlaneForm::kSmall: return SmallPlanes<kKind, T>;
    case PlaneForm::kColumns: return Columns<kKind, T>;
    case PlaneForm::kAny: break;
  }
  return Rows<kKind, T>;
}

PlaneRows Find(PlanePool kind, DType type, PlaneForm form) {
  const auto any = [&](auto tag) -> PlaneRows {
    using T = typename decltype(tag)::type;
    if (kind == PlanePool::kMax) return FindOf<PlanePool::kMax, T>(form);
    if constexpr (std::is_floating_point_v<T>) {
      return kind == PlanePool::kAverage ? FindOf<PlanePool::kAverage, T>(form)
                                         : FindOf<PlanePool::kAverageWithPad, T>(form);
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
         HWY_DYNAMIC_DISPATCH(Find)(kind, type, PlaneForm::kAny) != nullptr;
}

// Where windows lie in lines, which they fill, several lines are one of as many windows as are made
// at a time.
PoolShape JoinLines(const PoolShape& s) {
  bool is_of_lines =
      PoolSpanOf(s, 2) <= s.stride[2] && s.pad_begin[2] == 0 && s.in[2] == s.out[2] * s.stride[2];
  for (int axis = 0; axis < 2; ++axis) {
    is_of_lines = is_of_lines && s.kernel[axis] == 1 && s.stride[axis] == 1 &&
                  s.pad_begin[axis] == 0 && s.out[axis] == s.in[axis];
  }
  const int64_t lines = s.batch * s.in[0] * s.in[1];
  if (!is_of_lines || lines == 0 || s.out[2] == 0) return s;
  int64_t joined = std::clamp<int64_t>(kPoolOutputs / s.out[2], 1, lines);
  while (lines % joined != 0) --joined;
  PoolShape of_lines = s;
  of_lines.batch = lines / joined;
  of_lines.in = {1, 1, s.in[2] * joined};
  of_lines.out = {1, 1, s.out[2] * joined};
  return of_lines;
}

// Planes side by side, as channels: one alone is too small for vectors, and a row of a few outputs
// costs more than its arithmetic.
constexpr int64_t kBesideFloats = 32768, kLeastBeside = 16, kMostBeside = 64;

int64_t PixelsOf(const std::array<int64_t, 3>& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

// Measured against rows of planes (Zen 4): lines of 130 are as fast, maxima at steps of 1 from
// 16x16 on; the others later than planes fit here, but where all lie in the same sets of a cache.
bool RunsBeside(const PoolShape& shape, PlanePool kind, DType type) {
  constexpr int64_t kMost = kBesideFloats / kLeastBeside, kSets = 1024;
  const bool is_line = shape.in[0] * shape.in[1] == 1;
  const bool is_fast = kind == PlanePool::kMax && shape.stride[1] == 1 && shape.stride[2] == 1 &&
                       shape.kernel[0] == 1;
  const int64_t most = is_line ? 128 : is_fast ? 200 : kMost, in = PixelsOf(shape.in);
  return type == DType::kFloat32 && shape.batch >= kLeastBeside && in <= most && in % kSets != 0 &&
         PixelsOf(shape.out) <= most;
}

void PoolBeside(const PoolShape& shape, PlanePool kind, const float* x, float* y,
                const Parallel& par) {
  const int64_t in = PixelsOf(shape.in), out = PixelsOf(shape.out);
  const int64_t fitting = kBesideFloats / std::max(in, out) / kLeastBeside * kLeastBeside;
  const int64_t together = std::min(fitting, kMostBeside), parts = CeilDiv(shape.batch, together);
  const Slices slices = Slice(parts, (in + out) * together);
  par.For(slices.tasks, [&](int64_t task) {
    HWY_ALIGN float from[kBesideFloats], to[kBesideFloats];
    const int64_t end = std::min(shape.batch, slices.End(task, parts) * together);
    for (int64_t plane = slices.Begin(task) * together; plane < end; plane += together) {
      PoolShape beside = shape;
      beside.batch = 1;
      beside.channels = std::min(together, end - plane);
      TransposeMatrix(x + plane * in, in, from, beside.channels, in, beside.channels,
                      sizeof(float));
      if (kind == PlanePool::kMax) {
        MaxPool<float>(beside, from, to, nullptr, PoolIndexOrder::kRowMajor, Parallel{});
      } else {
        AveragePool<float>(beside, from, to, kind == PlanePool::kAverageWithPad, Parallel{});
      }
      TransposeMatrix(to, beside.channels, y + plane * out, out, beside.channels, out,
                      sizeof(float));
    }
  });
}

void PoolPlanes(const PoolShape& given, PlanePool kind, DType type, const void* x, void* y,
                const Parallel& par) {
  const PoolShape shape = JoinLines(given);
  if (RunsBeside(shape, kind, type)) {
    return PoolBeside(shape, kind, static_cast<const float*>(x), static_cast<float*>(y), par);
  }
  const auto fits = [&](int axis) {
    return shape.stride[axis] == 1 && shape.pad_begin[axis] >= 0 &&
           shape.pad_begin[axis] + shape.in[axis] <= PoolReach(shape, axis);
  };
  const bool is_short = std::max(shape.kernel[1], shape.kernel[2]) <= kOneChain;
  // Beside a plane alone windows may still reach into padding, and count it.
  const bool is_flat = shape.in[0] * shape.out[0] * shape.kernel[0] == 1 && shape.pad_begin[0] == 0;
  const bool is_small = (kind == PlanePool::kMax || is_short) && is_flat && fits(1) && fits(2) &&
                        PoolReach(shape, 1) * PoolReach(shape, 2) <= kPoolColumns;
  const bool is_columns = shape.kernel[2] == 1 && shape.stride[2] == 1 && shape.pad_begin[2] == 0 &&
                          shape.out[2] == shape.in[2] && shape.kernel[1] <= 3 && is_flat;
  const PlaneForm form = is_small     ? PlaneForm::kSmall
                         : is_columns ? PlaneForm::kColumns
                                      : PlaneForm::kAny;
  const PlaneRows run = HWY_DYNAMIC_DISPATCH(Find)(kind, type, form);
  const int64_t lines = is_small ? shape.batch : shape.batch * shape.out[0] * shape.out[1];
  const int64_t taps = shape.kernel[0] * shape.kernel[1] * shape.stride[2] + shape.kernel[2];
  const int64_t outputs = is_small ? shape.out[1] * shape.out[2] : shape.out[2];
  const Slices slices = Slice(lines, outputs * taps / 8 + 20);
  par.For(slices.tasks,
          [&](int64_t task) { run(shape, x, y, slices.Begin(task), slices.End(task, lines)); });
}

}  // namespace sardonyx
#endif  // HWY_ONCE
