#include "kernels/pool.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pool.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <limits>
#include <utility>

#include "kernels/chain_sums-inl.h"
#include "kernels/pool_typed.h"
#include "kernels/row_math-inl.h"
#include "kernels/slices.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// What joins the elements of a window, and what changes nothing in that.
template <bool kMax>
HWY_INLINE V Joined(V a, V b) {
  return kMax ? hn::Max(a, b) : hn::Add(a, b);
}
template <bool kMax>
constexpr float kNeutral = kMax ? -std::numeric_limits<float>::infinity() : 0.0f;

// kVectors vectors of channels of one output element. x is at the window's first element within the
// input; part is 0, or the channels where there are fewer than a vector has. kRun: the elements of
// a row of the window, 0 if that is known only at run time.
template <bool kMax, int kVectors, int kRun>
HWY_INLINE void PoolChannels(const PoolWindow& window, const float* x, float* y, float factor,
                             int64_t part) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto load = [&](const float* p)
                        HWY_ATTR { return part == 0 ? hn::LoadU(d, p) : LoadPart(d, p, part); };
  const V start = hn::Set(d, kNeutral<kMax>);
  V total[1][kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) total[0][v] = start;
  ChainSums<1, kVectors, D> chains;  // of kOneChain rows
  int64_t rows = 0;
  for (int64_t i = 0; i < window.count[0]; ++i) {
    for (int64_t j = 0; j < window.count[1]; ++j) {
      const float* row = x + i * window.step[0] + j * window.step[1];
      int64_t left = window.count[2];
      do {
        // A row of the window is added up on its own: large windows lose less.
        V acc[kVectors];
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) acc[v] = start;
        const int64_t run = kRun > 0 ? kRun : std::min(left, kOneChain);
#pragma GCC unroll 3
        for (int64_t k = 0; k < run; ++k, row += window.step[2]) {
#pragma GCC unroll 8
          for (int v = 0; v < kVectors; ++v) {
            acc[v] = Joined<kMax>(acc[v], load(row + v * lanes));
          }
        }
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) {
          total[0][v] = Joined<kMax>(total[0][v], acc[v]);
        }
        if (!kMax && ++rows % kOneChain == 0) chains.End(d, total);
        left -= run;
      } while (kRun == 0 && left > 0);
    }
  }
  if (!kMax) chains.AddTo(d, total);
  const V f = hn::Set(d, factor);
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    const V out = kMax ? total[0][v] : hn::Mul(total[0][v], f);
    if (part == 0) {
      hn::StoreU(out, d, y + v * lanes);
    } else {
      StorePart(out, d, y, part);
    }
  }
}

template <bool kMax, int kRun>
HWY_INLINE void PoolPixel(const PoolWindow& window, int64_t channels, const float* x, float* y,
                          float factor) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  if (channels < lanes) {
    PoolChannels<kMax, 1, kRun>(window, x, y, factor, channels);
    return;
  }
  int64_t c = 0;
  for (; c + 4 * lanes <= channels; c += 4 * lanes) {
    PoolChannels<kMax, 4, kRun>(window, x + c, y + c, factor, 0);
  }
  for (; c < channels; c += lanes) {
    c = std::min(c, channels - lanes);  // the last vector overlaps the one before
    PoolChannels<kMax, 1, kRun>(window, x + c, y + c, factor, 0);
  }
}

// Channels of neighbouring pixels, these so far apart.
struct PixelRun {
  int64_t pixels, channels, in_stride, out_stride;
};

// out = what `count` runs add up to that lie `step` apart, or their largest elements; a sum times
// factor.
template <bool kMax>
HWY_INLINE void JoinRuns(PixelRun run, const float* in, int64_t count, int64_t step, float factor,
                         float* out) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  if (run.in_stride == run.channels && run.out_stride == run.channels) {
    run = {1, run.pixels * run.channels, 0, 0};
  }
  const V f = hn::Set(d, factor);
  const auto finish = [&](V v) HWY_ATTR { return kMax ? v : hn::Mul(v, f); };
  for (int64_t p = 0; p < run.pixels; ++p, in += run.in_stride, out += run.out_stride) {
    int64_t c = 0;
    for (; c + 4 * lanes <= run.channels; c += 4 * lanes) {
      const float* at = in + c;
      V acc[4];
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) acc[v] = hn::LoadU(d, at + v * lanes);
      for (int64_t i = 1; i < count; ++i) {
        at += step;
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) acc[v] = Joined<kMax>(acc[v], hn::LoadU(d, at + v * lanes));
      }
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) hn::StoreU(finish(acc[v]), d, out + c + v * lanes);
    }
    for (; c < run.channels; c += lanes) {
      const int64_t part = std::min(lanes, run.channels - c);
      V acc = LoadPart(d, in + c, part);
      for (int64_t i = 1; i < count; ++i)
        acc = Joined<kMax>(acc, LoadPart(d, in + i * step + c, part));
      StorePart(finish(acc), d, out + c, part);
    }
  }
}

// Windows at steps of one pixel overlap: each column of theirs is joined once for all of them, and
// these then along the row. Both know nothing of pixels, so that few channels fill vectors too.
// Room for joined columns, in the first-level cache or nearly so:
constexpr int64_t kColumnFloats = 8192, kLeastColumns = 8;

bool JoinsColumns(const PoolShape& shape, bool max) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  const int64_t rows = shape.kernel[0] * shape.kernel[1];
  return shape.stride[2] == 1 && shape.kernel[2] > 1 && shape.kernel[0] == 1 &&
         (max || std::max(rows, shape.kernel[2]) <= kOneChain) &&
         shape.kernel[2] - 1 <= (kColumnFloats / lanes - kLeastColumns) / shape.dilation[2];
}

template <bool kMax>
HWY_INLINE void PoolRowByColumns(const PoolShape& shape, const float* x, float* y, int64_t row,
                                 bool include_pad) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t kernel = shape.kernel[2], pixel = shape.XStride(), y_pixel = shape.YStride();
  const int64_t reach = (kernel - 1) * shape.dilation[2];
  const int64_t most = kColumnFloats / (reach + kLeastColumns);
  const int64_t channels = std::min(shape.channels, std::max(lanes, most / lanes * lanes));
  PoolRowWindows windows(shape, row);
  HWY_ALIGN float columns[kColumnFloats];
  for (int64_t c = 0; c < shape.channels; c += channels) {
    const int64_t some = std::min(channels, shape.channels - c);
    const int64_t step = kColumnFloats / some - reach;  // of output pixels
    for (int64_t o = 0; o < shape.out[2]; o += step) {
      const int64_t outputs = std::min(step, shape.out[2] - o);
      const PoolWindow window = windows.At(o, include_pad);
      const int64_t begin = o - shape.pad_begin[2], end = begin + outputs + reach;
      const int64_t first = std::clamp<int64_t>(0, begin, end);
      const int64_t last = std::clamp<int64_t>(shape.in[2], first, end);
      const int64_t rows = window.count[0] * window.count[1];
      const int64_t inside = rows > 0 ? last - first : 0;
      std::fill_n(columns, (first - begin) * some, kNeutral<kMax>);
      float* const at = columns + (first - begin) * some;
      if (inside > 0) {
        const float* const from = x + window.offset + (first - window.first[2]) * pixel + c;
        JoinRuns<kMax>({inside, some, pixel, some}, from, rows, window.step[1], 1.0f, at);
      }
      std::fill_n(at + inside * some, (end - first - inside) * some, kNeutral<kMax>);
      // Averages of windows that the border cuts divide by less.
      for (int64_t i = 0; i < outputs;) {
        const float factor = windows.At(o + i, include_pad).Factor();
        int64_t alike = kMax ? outputs - i : 1;
        const int64_t start = begin + i, whole = shape.in[2] - reach - start;
        if (!kMax && start >= 0 && whole > 0) alike = std::min(outputs - i, whole);
        JoinRuns<kMax>({alike, some, some, y_pixel}, columns + i * some, kernel,
                       shape.dilation[2] * some, factor, y + (o + i) * y_pixel + c);
        i += alike;
      }
    }
  }
}

// The same of whole vectors of channels and windows of few columns: the joined ones are kept in
// registers while some channels walk along the row.
template <bool kMax, int kKernel, int kStride>
struct Walk {
  const PoolShape& shape;
  bool include_pad;
  PoolRowWindows windows;
  const float* from;  // the first pixel of the first row that windows see
  int64_t rows, row_step;
  float inside_factor;

  Walk(const PoolShape& given, const float* x, int64_t row, bool pad)
      : shape(given), include_pad(pad), windows(given, row) {
    // A window that begins inside sees all rows that any does.
    const PoolWindow& window = windows.At(std::min(given.pad_begin[2], given.out[2] - 1), pad);
    from = x + window.offset - window.first[2] * given.XStride();
    rows = window.count[0] * window.count[1];
    row_step = window.step[1];
    inside_factor = 0;
  }

  float FactorOf(int64_t o) { return kMax ? 1.0f : windows.At(o, include_pad).Factor(); }

  template <int kVectors>
  HWY_INLINE void Channels(int64_t c, float* HWY_RESTRICT y) {
    const D d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    const int64_t pixel = shape.XStride(), y_pixel = shape.YStride(), in = shape.in[2];
    const float* const x = from + c;
    V seen[kKernel][kVectors];
    const auto see = [&](int64_t w, V* column) HWY_ATTR {
      if (w < 0 || w >= in || rows == 0) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) column[v] = hn::Set(d, kNeutral<kMax>);
        return;
      }
      const float* at = x + w * pixel;
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) column[v] = hn::LoadU(d, at + v * lanes);
      for (int64_t r = 1; r < rows; ++r) {
        at += row_step;
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v)
          column[v] = Joined<kMax>(column[v], hn::LoadU(d, at + v * lanes));
      }
    };
    constexpr int kKept = kKernel - kStride;
    int64_t w = -shape.pad_begin[2];
#pragma GCC unroll 8
    for (int k = 0; k < kKept; ++k) see(w++, seen[kStride + k]);
    for (int64_t o = 0; o < shape.out[2]; ++o) {
#pragma GCC unroll 8
      for (int k = 0; k < kKept; ++k) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) seen[k][v] = seen[k + kStride][v];
      }
#pragma GCC unroll 8
      for (int k = 0; k < kStride; ++k) see(w++, seen[kKept + k]);
      const bool is_inside = w >= kKernel && w <= in;
      const V factor = hn::Set(d, is_inside ? inside_factor : FactorOf(o));
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        V out = seen[0][v];
#pragma GCC unroll 8
        for (int k = 1; k < kKernel; ++k) out = Joined<kMax>(out, seen[k][v]);
        hn::StoreU(kMax ? out : hn::Mul(out, factor), d, y + o * y_pixel + c + v * lanes);
      }
    }
  }

  void Run(float* y) {
    // An output whose window the border does not cut, if there is one.
    const int64_t inside = (shape.pad_begin[2] + kStride - 1) / kStride;
    if (inside < shape.out[2]) inside_factor = FactorOf(inside);
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(D())), channels = shape.channels;
    constexpr int kTogether = HWY_TARGET <= HWY_AVX3 || kKernel < 5 ? 4 : 2;
    int64_t c = 0;
    for (; c + kTogether * lanes <= channels; c += kTogether * lanes) Channels<kTogether>(c, y);
    for (; c + 2 * lanes <= channels; c += 2 * lanes) Channels<2>(c, y);
    for (; c < channels; c += lanes) {
      c = std::min(c, channels - lanes);  // the last vector overlaps the one before
      Channels<1>(c, y);
    }
  }
};

template <bool kMax>
HWY_INLINE bool PoolRowByWalk(const PoolShape& shape, const float* x, float* y, int64_t row,
                              bool include_pad) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  if (shape.channels < lanes || shape.dilation[2] != 1 || shape.kernel[0] != 1) return false;
  if (!kMax && shape.kernel[1] > kOneChain) return false;
  const int64_t kernel = shape.kernel[2], stride = shape.stride[2];
  // A few vectors and a part of one: whole rows fill them better.
  if (stride == 1 && shape.channels % lanes != 0 && shape.channels < 4 * lanes) return false;
  const auto walk = [&]<int kKernel, int kStride>(std::integer_sequence<int, kKernel, kStride>)
                        HWY_ATTR {
                          if (kernel != kKernel || stride != kStride) return false;
                          Walk<kMax, kKernel, kStride>(shape, x, row, include_pad).Run(y);
                          return true;
                        };
  return walk(std::integer_sequence<int, 2, 1>()) || walk(std::integer_sequence<int, 3, 1>()) ||
         walk(std::integer_sequence<int, 5, 1>()) || walk(std::integer_sequence<int, 2, 2>()) ||
         walk(std::integer_sequence<int, 3, 2>());
}

template <bool kMax>
HWY_INLINE void PoolRow(const PoolShape& shape, const float* x, float* y, int64_t row,
                        bool include_pad) {
  if (PoolRowByWalk<kMax>(shape, x, y, row, include_pad)) return;
  if (JoinsColumns(shape, kMax)) return PoolRowByColumns<kMax>(shape, x, y, row, include_pad);
  PoolRowWindows windows(shape, row);
  for (int64_t o = 0; o < shape.out[2]; ++o, y += shape.YStride()) {
    const PoolWindow& window = windows.At(o, include_pad);
    const float factor = window.Factor();
    const float* from = x + window.offset;
    if (window.count[2] == 3) {
      PoolPixel<kMax, 3>(window, shape.channels, from, y, factor);
    } else {
      PoolPixel<kMax, 0>(window, shape.channels, from, y, factor);
    }
  }
}

// A row of the maximum with its places. A plane has fewer than 2^31 pixels.
void IndexedMaxRow(const PoolShape& shape, const float* x, float* y, int64_t* indices,
                   PoolIndexOrder order, int64_t row) {
  const D d;
  const hn::RebindToSigned<D> di;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), channels = shape.channels;
  const std::array<int64_t, 3>& in = shape.in;
  const int64_t plane = in[0] * in[1] * in[2];
  const int64_t image = row / (shape.out[0] * shape.out[1]) * channels;
  // How a step along an axis of the input, and of the window, advances the place.
  std::array<int64_t, 3> axis_step = {in[1] * in[2], in[2], 1};
  if (order == PoolIndexOrder::kColumnMajor) axis_step = {1, in[0], in[0] * in[1]};
  std::array<int64_t, 3> advance = axis_step;
  for (int axis = 0; axis < 3; ++axis) advance[axis] *= shape.dilation[axis];
  HWY_ALIGN int32_t places[hn::MaxLanes(di)];
  PoolRowWindows windows(shape, row);
  for (int64_t o = 0; o < shape.out[2]; ++o, y += channels, indices += channels) {
    const PoolWindow& window = windows.At(o, false);
    int64_t start = 0;
    for (int axis = 0; axis < 3; ++axis) start += window.first[axis] * axis_step[axis];
    for (int64_t c = 0; c < channels; c += lanes) {
      const int64_t part = std::min(lanes, channels - c);
      V best = hn::Set(d, -std::numeric_limits<float>::infinity());
      auto place = hn::Set(di, -1);
      for (int64_t i = 0; i < window.count[0]; ++i) {
        for (int64_t j = 0; j < window.count[1]; ++j) {
          const float* at = x + window.offset + i * window.step[0] + j * window.step[1] + c;
          int64_t here = start + i * advance[0] + j * advance[1];
          for (int64_t k = 0; k < window.count[2]; ++k) {
            const V v = part == lanes ? hn::LoadU(d, at) : LoadPart(d, at, part);
            const auto better =
                hn::Or(hn::Gt(v, best), hn::RebindMask(d, hn::Lt(place, hn::Zero(di))));
            best = hn::IfThenElse(better, v, best);
            place = hn::IfThenElse(hn::RebindMask(di, better),
                                   hn::Set(di, static_cast<int32_t>(here)), place);
            at += window.step[2];
            here += advance[2];
          }
        }
      }
      StorePart(best, d, y + c, part);
      hn::Store(place, di, places);
      for (int64_t lane = 0; lane < part; ++lane) {
        indices[c + lane] =
            places[lane] < 0 ? -1 : (image + c + lane) * plane + int64_t{places[lane]};
      }
    }
  }
}

void MaxPoolRow(const PoolShape& shape, const float* x, float* y, int64_t row) {
  PoolRow<true>(shape, x, y, row, false);
}
void AveragePoolRow(const PoolShape& shape, const float* x, float* y, int64_t row,
                    bool include_pad) {
  PoolRow<false>(shape, x, y, row, include_pad);
}

}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(IndexedMaxRow);
HWY_EXPORT(MaxPoolRow);
HWY_EXPORT(AveragePoolRow);

template <>
void MaxPool<float>(const PoolShape& shape, const float* x, float* y, int64_t* indices,
                    PoolIndexOrder order, const Parallel& par) {
  if (indices != nullptr && shape.in[0] * shape.in[1] * shape.in[2] > INT32_MAX) {
    return MaxPoolElements(shape, x, y, indices, order, par);
  }
  ForEachPoolRow(shape, 4, par, [&](int64_t row) {
    const int64_t at = row * shape.out[2] * shape.YStride();
    if (indices == nullptr) return HWY_DYNAMIC_DISPATCH(MaxPoolRow)(shape, x, y + at, row);
    HWY_DYNAMIC_DISPATCH(IndexedMaxRow)(shape, x, y + at, indices + at, order, row);
  });
}

template <>
void AveragePool<float>(const PoolShape& shape, const float* x, float* y, bool count_include_pad,
                        const Parallel& par) {
  ForEachPoolRow(shape, 4, par, [&](int64_t row) {
    HWY_DYNAMIC_DISPATCH(AveragePoolRow)
    (shape, x, y + row * shape.out[2] * shape.YStride(), row, count_include_pad);
  });
}

}  // namespace sardonyx
#endif  // HWY_ONCE
