#include "kernels/winograd_transform.h"

#include <algorithm>

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/winograd_transform.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"
#include "kernels/rounding-inl.h"
#include "kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Wide = hn::ScalableTag<float>;
using Narrow = hn::CappedTag<float, 4>;
using One = hn::CappedTag<float, 1>;

// One-dimensional maps for F(kM, 3), made from the points at which the polynomials are evaluated.
template <int kM>
struct Map;

// Points 0, 1, -1 and infinity.
template <>
struct Map<2> {
  static constexpr float kWeights[4][3] = {
      {-1.0f, 0.0f, 0.0f}, {0.5f, 0.5f, 0.5f}, {0.5f, -0.5f, 0.5f}, {0.0f, 0.0f, 1.0f}};
  template <class D, class V>
  static HWY_INLINE void Input(D, const V* x, V* to) {
    to[0] = hn::Sub(x[2], x[0]);
    to[1] = hn::Add(x[2], x[1]);
    to[2] = hn::Sub(x[2], x[1]);
    to[3] = hn::Sub(x[3], x[1]);
  }
  template <class D, class V>
  static HWY_INLINE void Output(D, const V* x, V* to) {
    to[0] = hn::Add(x[0], hn::Add(x[1], x[2]));
    to[1] = hn::Add(hn::Sub(x[1], x[2]), x[3]);
  }
};

// Points 0, a, -a, b, -b and infinity with a = sqrt(1/2), b = sqrt(2): a third of the rounding
// error of the usual 1 and 2, since powers of the points stay nearer to one.
template <>
struct Map<4> {
  static constexpr float kA = 0.70710678118654752f, kB = 1.41421356237309505f;
  static constexpr float kWeights[6][3] = {
      {1.0f, 0.0f, 0.0f},           {-2.0f / 3, -kB / 3, -1.0f / 3}, {-2.0f / 3, kB / 3, -1.0f / 3},
      {1.0f / 6, kB / 6, 1.0f / 3}, {1.0f / 6, -kB / 6, 1.0f / 3},   {0.0f, 0.0f, 1.0f}};
  template <class D, class V>
  static HWY_INLINE void Input(D d, const V* x, V* to) {
    const V two = hn::Set(d, 2.0f), half = hn::Set(d, 0.5f), sum = hn::Set(d, 2.5f);
    to[0] = hn::Add(hn::NegMulAdd(sum, x[2], x[0]), x[4]);
    const V p = hn::NegMulAdd(two, x[2], x[4]), q = hn::NegMulAdd(two, x[1], x[3]);
    to[1] = hn::MulAdd(hn::Set(d, kA), q, p);
    to[2] = hn::NegMulAdd(hn::Set(d, kA), q, p);
    const V r = hn::NegMulAdd(half, x[2], x[4]), s = hn::NegMulAdd(half, x[1], x[3]);
    to[3] = hn::MulAdd(hn::Set(d, kB), s, r);
    to[4] = hn::NegMulAdd(hn::Set(d, kB), s, r);
    to[5] = hn::Add(hn::NegMulAdd(sum, x[3], x[1]), x[5]);
  }
  template <class D, class V>
  static HWY_INLINE void Output(D d, const V* x, V* to) {
    const V s1 = hn::Add(x[1], x[2]), d1 = hn::Sub(x[1], x[2]);
    const V s2 = hn::Add(x[3], x[4]), d2 = hn::Sub(x[3], x[4]);
    to[0] = hn::Add(x[0], hn::Add(s1, s2));
    to[1] = hn::MulAdd(hn::Set(d, kA), d1, hn::Mul(hn::Set(d, kB), d2));
    to[2] = hn::MulAdd(hn::Set(d, 0.5f), s1, hn::Add(s2, s2));
    to[3] = hn::MulAdd(hn::Set(d, 0.5f * kA), d1, hn::MulAdd(hn::Set(d, 2.0f * kB), d2, x[5]));
  }
};

// Where tile `index` begins in the output.
struct Place {
  int64_t item, h, w;
};
HWY_INLINE Place PlaceOf(const WinogradTiles& tiles, int64_t index, int m) {
  const int64_t line = index / tiles.columns;
  return {line / tiles.rows, line % tiles.rows * m, index % tiles.columns * m};
}

// Channels [c0, c1) of one tile; `inside` says for each input pixel whether it exists.
template <int kM, bool kWhole, class D>
HWY_INLINE int64_t InputChannels(D d, const float* x, int64_t line, int64_t pixel, int64_t c0,
                                 int64_t c1, int h0, int h1, int w0, int w1, float* to,
                                 int64_t t_stride) {
  using V = hn::Vec<D>;
  constexpr int kT = kM + 2;
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(D()));
  int64_t c = c0;
  for (; c + kL <= c1; c += kL) {
    V half[kT][kT];
#pragma GCC unroll 6
    for (int j = 0; j < kT; ++j) {
      V column[kT], mapped[kT];
#pragma GCC unroll 6
      for (int i = 0; i < kT; ++i) {
        if (kWhole || (i >= h0 && i < h1 && j >= w0 && j < w1)) {
          column[i] = hn::LoadU(d, x + i * line + j * pixel + c);
        } else {
          column[i] = hn::Zero(d);
        }
      }
      Map<kM>::Input(d, column, mapped);
#pragma GCC unroll 6
      for (int i = 0; i < kT; ++i) half[i][j] = mapped[i];
    }
#pragma GCC unroll 6
    for (int i = 0; i < kT; ++i) {
      V mapped[kT];
      Map<kM>::Input(d, half[i], mapped);
#pragma GCC unroll 6
      for (int j = 0; j < kT; ++j) hn::StoreU(mapped[j], d, to + (i * kT + j) * t_stride + c);
    }
  }
  return c;
}

template <int kM>
HWY_NOINLINE void Input(const ConvShape& s, const float* x, int64_t first, int64_t count,
                        const WinogradValues& values) {
  constexpr int kT = kM + 2;
  const WinogradTiles tiles(s, kM);
  const int64_t line = s.in[2] * s.x_stride;
  for (int64_t r = 0; r < count; ++r) {
    const Place place = PlaceOf(tiles, first + r, kM);
    const int64_t h = place.h - s.pad_begin[1], w = place.w - s.pad_begin[2];
    const auto Clip = [](int64_t value) {
      return static_cast<int>(std::clamp<int64_t>(value, 0, kT));
    };
    const int h0 = Clip(-h), h1 = Clip(s.in[1] - h), w0 = Clip(-w), w1 = Clip(s.in[2] - w);
    const float* from = x + (place.item * s.in[1] + h) * line + w * s.x_stride;
    float* to = values.data + r * values.ld;
    int64_t c = 0;
    if (h0 == 0 && w0 == 0 && h1 == kT && w1 == kT) {
      c = InputChannels<kM, true>(Wide(), from, line, s.x_stride, c, s.cin, 0, kT, 0, kT, to,
                                  values.t_stride);
    } else {
      c = InputChannels<kM, false>(Wide(), from, line, s.x_stride, c, s.cin, h0, h1, w0, w1, to,
                                   values.t_stride);
    }
    c = InputChannels<kM, false>(Narrow(), from, line, s.x_stride, c, s.cin, h0, h1, w0, w1, to,
                                 values.t_stride);
    InputChannels<kM, false>(One(), from, line, s.x_stride, c, s.cin, h0, h1, w0, w1, to,
                             values.t_stride);
  }
}

template <int kM, class D>
HWY_INLINE int64_t OutputChannels(D d, const float* from, int64_t t_stride, int64_t c0, int64_t c1,
                                  int rows, int columns, float* y, int64_t line, int64_t pixel,
                                  const float* bias, const float* residual, int64_t residual_line,
                                  int64_t residual_pixel, const TileEpilogue& e) {
  using V = hn::Vec<D>;
  constexpr int kT = kM + 2;
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(D()));
  int64_t c = c0;
  for (; c + kL <= c1; c += kL) {
    V half[kM][kT];
#pragma GCC unroll 6
    for (int j = 0; j < kT; ++j) {
      V column[kT], mapped[kM];
#pragma GCC unroll 6
      for (int i = 0; i < kT; ++i) column[i] = hn::LoadU(d, from + (i * kT + j) * t_stride + c);
      Map<kM>::Output(d, column, mapped);
#pragma GCC unroll 6
      for (int i = 0; i < kM; ++i) half[i][j] = mapped[i];
    }
    const V add = bias == nullptr ? hn::Zero(d) : hn::LoadU(d, bias + c);
    const V lo = hn::Set(d, e.lo), hi = hn::Set(d, e.hi);
#pragma GCC unroll 6
    for (int i = 0; i < kM; ++i) {
      if (i >= rows) break;
      V mapped[kM];
      Map<kM>::Output(d, half[i], mapped);
#pragma GCC unroll 6
      for (int j = 0; j < kM; ++j) {
        if (j >= columns) break;
        V value = hn::Add(mapped[j], add);
        if (residual != nullptr) {
          value =
              hn::Add(value, hn::LoadU(d, residual + i * residual_line + j * residual_pixel + c));
        }
        if (e.clamp) value = AtMost(d, hi, AtLeast(d, lo, value));
        hn::StoreU(RoundTo(d, e.rounding, value), d, y + i * line + j * pixel + c);
      }
    }
  }
  return c;
}

template <int kM>
HWY_NOINLINE void Output(const ConvShape& s, const WinogradValues& values, int64_t first,
                         int64_t count, int64_t channels, float* y, const TileEpilogue& e) {
  const WinogradTiles tiles(s, kM);
  const int64_t line = s.out[2] * s.y_stride, residual_line = s.out[2] * e.residual_ld;
  for (int64_t r = 0; r < count; ++r) {
    const Place place = PlaceOf(tiles, first + r, kM);
    const int rows = static_cast<int>(std::min<int64_t>(kM, s.out[1] - place.h));
    const int columns = static_cast<int>(std::min<int64_t>(kM, s.out[2] - place.w));
    const int64_t pixel = (place.item * s.out[1] + place.h) * s.out[2] + place.w;
    const float* from = values.data + r * values.ld;
    float* to = y + pixel * s.y_stride;
    const float* residual = e.residual == nullptr ? nullptr : e.residual + pixel * e.residual_ld;
    int64_t c =
        OutputChannels<kM>(Wide(), from, values.t_stride, 0, channels, rows, columns, to, line,
                           s.y_stride, e.bias, residual, residual_line, e.residual_ld, e);
    c = OutputChannels<kM>(Narrow(), from, values.t_stride, c, channels, rows, columns, to, line,
                           s.y_stride, e.bias, residual, residual_line, e.residual_ld, e);
    OutputChannels<kM>(One(), from, values.t_stride, c, channels, rows, columns, to, line,
                       s.y_stride, e.bias, residual, residual_line, e.residual_ld, e);
    if (e.activation.kind == Activation::Kind::kNone) continue;
    for (int i = 0; i < rows; ++i) {
      ApplyActivation(e.activation, to + i * line, s.y_stride, columns, channels);
    }
  }
}

// Some channels at a time: their kernels are read in lines, and what is written to each of the many
// positions, whose distance is a power of two as often as not, are whole lines.
template <int kM>
HWY_NOINLINE void Weights(int64_t cin, int64_t columns, const float* weights, float* packed) {
  constexpr int kT = kM + 2;
  constexpr int64_t kTogether = 4;
  using Tag = hn::CappedTag<float, kPanelGranule>;
  using V = hn::Vec<Tag>;
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(Tag()));
  constexpr int64_t kWidest = std::max<int64_t>(2 * hn::MaxLanes(Wide()), kPanelGranule);
  const Tag d;
  const int64_t width = RoundUp(columns, kPanelGranule);
  HWY_ALIGN float kernels[kTogether * 9 * kL];
  HWY_ALIGN float staged[kT * kT * kTogether * kWidest];
  for (int64_t first = 0; first < cin; first += kTogether) {
    const int64_t count = std::min(kTogether, cin - first);
    for (int64_t j = 0; j < width; j += kL) {
      for (int64_t lane = 0; lane < kL; ++lane) {
        const float* from = weights + ((j + lane) * cin + first) * 9;
        for (int64_t i = 0; i < 9 * count; ++i) {
          kernels[i * kL + lane] = j + lane < columns ? from[i] : 0.0f;
        }
      }
      for (int64_t c = 0; c < count; ++c) {
        const float* kernel = kernels + c * 9 * kL;
        V half[kT][3];
        for (int i = 0; i < kT; ++i) {
          const float* g = Map<kM>::kWeights[i];
          for (int k = 0; k < 3; ++k) {
            V sum = hn::Mul(hn::Set(d, g[0]), hn::Load(d, kernel + k * kL));
            sum = hn::MulAdd(hn::Set(d, g[1]), hn::Load(d, kernel + (3 + k) * kL), sum);
            half[i][k] = hn::MulAdd(hn::Set(d, g[2]), hn::Load(d, kernel + (6 + k) * kL), sum);
          }
        }
        for (int i = 0; i < kT; ++i) {
          for (int k = 0; k < kT; ++k) {
            const float* g = Map<kM>::kWeights[k];
            V sum = hn::Mul(hn::Set(d, g[0]), half[i][0]);
            sum = hn::MulAdd(hn::Set(d, g[1]), half[i][1], sum);
            sum = hn::MulAdd(hn::Set(d, g[2]), half[i][2], sum);
            hn::StoreU(sum, d, staged + ((i * kT + k) * kTogether + c) * width + j);
          }
        }
      }
    }
    for (int t = 0; t < kT * kT; ++t) {
      std::copy_n(staged + t * kTogether * width, count * width,
                  packed + (t * cin + first) * width);
    }
  }
}

void Input4(const ConvShape& s, const float* x, int64_t first, int64_t count,
            const WinogradValues& to) {
  Input<4>(s, x, first, count, to);
}
void Input2(const ConvShape& s, const float* x, int64_t first, int64_t count,
            const WinogradValues& to) {
  Input<2>(s, x, first, count, to);
}
void Output4(const ConvShape& s, const WinogradValues& from, int64_t first, int64_t count,
             int64_t channels, float* y, const TileEpilogue& e) {
  Output<4>(s, from, first, count, channels, y, e);
}
void Output2(const ConvShape& s, const WinogradValues& from, int64_t first, int64_t count,
             int64_t channels, float* y, const TileEpilogue& e) {
  Output<2>(s, from, first, count, channels, y, e);
}
void Weights4(int64_t cin, int64_t columns, const float* weights, float* packed) {
  Weights<4>(cin, columns, weights, packed);
}
void Weights2(int64_t cin, int64_t columns, const float* weights, float* packed) {
  Weights<2>(cin, columns, weights, packed);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Input4);
HWY_EXPORT(Input2);
HWY_EXPORT(Output4);
HWY_EXPORT(Output2);
HWY_EXPORT(Weights4);
HWY_EXPORT(Weights2);

template <>
void WinogradInput<4>(const ConvShape& s, const float* x, int64_t first, int64_t count,
                      const WinogradValues& to) {
  HWY_DYNAMIC_DISPATCH(Input4)(s, x, first, count, to);
}
template <>
void WinogradInput<2>(const ConvShape& s, const float* x, int64_t first, int64_t count,
                      const WinogradValues& to) {
  HWY_DYNAMIC_DISPATCH(Input2)(s, x, first, count, to);
}
template <>
void WinogradOutput<4>(const ConvShape& s, const WinogradValues& from, int64_t first, int64_t count,
                       int64_t channels, float* y, const TileEpilogue& e) {
  HWY_DYNAMIC_DISPATCH(Output4)(s, from, first, count, channels, y, e);
}
template <>
void WinogradOutput<2>(const ConvShape& s, const WinogradValues& from, int64_t first, int64_t count,
                       int64_t channels, float* y, const TileEpilogue& e) {
  HWY_DYNAMIC_DISPATCH(Output2)(s, from, first, count, channels, y, e);
}
template <>
void WinogradWeights<4>(int64_t cin, int64_t columns, const float* weights, float* packed) {
  HWY_DYNAMIC_DISPATCH(Weights4)(cin, columns, weights, packed);
}
template <>
void WinogradWeights<2>(int64_t cin, int64_t columns, const float* weights, float* packed) {
  HWY_DYNAMIC_DISPATCH(Weights2)(cin, columns, weights, packed);
}

}  // namespace sardonyx
#endif  // HWY_ONCE
