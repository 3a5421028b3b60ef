#include "kernels/winograd_transform.h"

#include <algorithm>
#include <array>

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/winograd_transform.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"
#include "kernels/rounding-inl.h"
#include "kernels/tile_store-inl.h"
#include "kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Wide = hn::ScalableTag<float>;
using Narrow = hn::CappedTag<float, 4>;
using One = hn::CappedTag<float, 1>;

// One-dimensional maps of a form, made from the points at which the polynomials are evaluated.
template <WinogradForm kForm>
struct Map;

// Points 0, 1, -1 and infinity.
template <>
struct Map<WinogradForm{2, 1}> {
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
struct Map<WinogradForm{4, 1}> {
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

// The points of F(4, 3), and so its map of the input.
template <>
struct Map<WinogradForm{2, 1, 5}> : Map<WinogradForm{4, 1}> {
  static constexpr float kWeights[6][5] = {{1.0f, 0.0f, 0.0f, 0.0f, 0.0f},
                                           {-2.0f / 3, -kB / 3, -1.0f / 3, -kB / 6, -1.0f / 6},
                                           {-2.0f / 3, kB / 3, -1.0f / 3, kB / 6, -1.0f / 6},
                                           {1.0f / 6, kB / 6, 1.0f / 3, kB / 3, 2.0f / 3},
                                           {1.0f / 6, -kB / 6, 1.0f / 3, -kB / 3, 2.0f / 3},
                                           {0.0f, 0.0f, 0.0f, 0.0f, 1.0f}};
  template <class D, class V>
  static HWY_INLINE void Output(D d, const V* x, V* to) {
    const V d1 = hn::Sub(x[1], x[2]), d2 = hn::Sub(x[3], x[4]);
    to[0] = hn::Add(x[0], hn::Add(hn::Add(x[1], x[2]), hn::Add(x[3], x[4])));
    to[1] = hn::MulAdd(hn::Set(d, kA), d1, hn::MulAdd(hn::Set(d, kB), d2, x[5]));
  }
};

// Even pixels: points 0, 1 and infinity.
template <>
struct Map<WinogradForm{2, 2}> {
  static constexpr float kWeights[4][3] = {
      {1.0f, 0.0f, 0.0f}, {1.0f, 0.0f, 1.0f}, {0.0f, 0.0f, 1.0f}, {0.0f, 1.0f, 0.0f}};
  template <class D, class V>
  static HWY_INLINE void Input(D, const V* x, V* to) {
    to[0] = hn::Sub(x[0], x[2]);
    to[1] = x[2];
    to[2] = hn::Sub(x[4], x[2]);
    to[3] = x[1];
    to[4] = x[3];
  }
  template <class D, class V>
  static HWY_INLINE void Output(D, const V* x, V* to) {
    to[0] = hn::Add(hn::Add(x[0], x[1]), x[3]);
    to[1] = hn::Add(hn::Add(x[1], x[2]), x[4]);
  }
};

// Even pixels: points 0, 1, -1/2, -2 and infinity, whose rounding error is half that of the form
// of stride 1.
template <>
struct Map<WinogradForm{4, 2}> {
  static constexpr float kWeights[6][3] = {
      {1.0f, 0.0f, 0.0f},           {2.0f / 9, 0.0f, 2.0f / 9}, {8.0f / 9, 0.0f, -4.0f / 9},
      {1.0f / 18, 0.0f, -1.0f / 9}, {0.0f, 0.0f, 1.0f},         {0.0f, 1.0f, 0.0f}};
  template <class D, class V>
  static HWY_INLINE void Input(D d, const V* x, V* to) {
    const V two = hn::Set(d, 2.0f), half = hn::Set(d, 1.5f);
    to[0] = hn::MulAdd(half, hn::Sub(x[2], x[4]), hn::Sub(x[0], x[6]));
    to[1] = hn::MulAdd(hn::Set(d, 2.5f), x[4], hn::Add(x[2], x[6]));
    to[2] = hn::NegMulAdd(two, x[2], hn::Add(x[4], x[6]));
    to[3] = hn::NegMulAdd(two, x[6], hn::Add(x[2], x[4]));
    to[4] = hn::MulAdd(half, hn::Sub(x[6], x[4]), hn::Sub(x[8], x[2]));
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) to[5 + i] = x[1 + 2 * i];
  }
  template <class D, class V>
  static HWY_INLINE void Output(D d, const V* x, V* to) {
    const V p = x[1], q = x[2], r = x[3];
    to[0] = hn::Add(hn::Add(x[0], p), hn::Add(hn::Add(q, r), x[5]));
    to[1] =
        hn::NegMulAdd(hn::Set(d, 2.0f), r, hn::NegMulAdd(hn::Set(d, 0.5f), q, hn::Add(p, x[6])));
    to[2] = hn::MulAdd(hn::Set(d, 4.0f), r, hn::MulAdd(hn::Set(d, 0.25f), q, hn::Add(p, x[7])));
    to[3] = hn::NegMulAdd(hn::Set(d, 8.0f), r,
                          hn::NegMulAdd(hn::Set(d, 0.125f), q, hn::Add(hn::Add(p, x[4]), x[8])));
  }
};

// The maps of two phases of a few taps each, from those of the even and of the odd pixels. The
// second is a form of stride 2, whose own odd pixels' place the sums over the even ones take.
template <WinogradForm kForm, class Even, class Odd>
struct Phases {
  static constexpr int kEven = kForm.m + kForm.Taps() - 1, kOdd = kForm.Side() - kEven;
  template <class D, class V>
  static HWY_INLINE void Input(D d, const V* x, V* to) {
    V even[kEven], odd[kOdd + kForm.m];
#pragma GCC unroll 11
    for (int i = 0; i < kEven; ++i) even[i] = x[2 * i];
    Even::Input(d, even, to);
    Odd::Input(d, x + 1, odd);
#pragma GCC unroll 11
    for (int i = 0; i < kOdd; ++i) to[kEven + i] = odd[i];
  }
  template <class D, class V>
  static HWY_INLINE void Output(D d, const V* x, V* to) {
    V odd[kOdd + kForm.m];
#pragma GCC unroll 11
    for (int i = 0; i < kOdd; ++i) odd[i] = x[kEven + i];
    Even::Output(d, x, odd + kOdd);
    Odd::Output(d, odd, to);
  }
};

template <>
struct Map<WinogradForm{4, 2, 5}>
    : Phases<WinogradForm{4, 2, 5}, Map<WinogradForm{4, 1}>, Map<WinogradForm{4, 2}>> {
  static constexpr auto kWeights = [] {
    std::array<std::array<float, 5>, 11> weights{};
    for (int i = 0; i < 6; ++i) {
      for (int tap = 0; tap < 3; ++tap) {
        weights[i][2 * tap] = Map<WinogradForm{4, 1}>::kWeights[i][tap];
      }
    }
    for (int i = 0; i < 5; ++i) {
      for (int tap = 0; tap < 2; ++tap) {
        weights[6 + i][2 * tap + 1] = Map<WinogradForm{4, 2}>::kWeights[i][2 * tap];
      }
    }
    return weights;
  }();
};

// The maps for kCount < kForm.m pixels, from the points that the rows of kWeights tell, by
// Lagrange's formula.
template <WinogradForm kForm, int kCount>
struct EdgeCoefficients {
  static constexpr int kFinite = kCount + kForm.Taps() - 2;  // points, the last row is infinity
  float input[kFinite + 1][kFinite + 1] = {};
  float output[kFinite][kCount] = {};

  constexpr EdgeCoefficients() {
    const auto& weights = Map<kForm>::kWeights;
    double point[kFinite] = {};
    for (int p = 0; p < kFinite; ++p) {
      point[p] = static_cast<double>(weights[p][kForm.stride]) / static_cast<double>(weights[p][0]);
    }
    for (int p = 0; p <= kFinite; ++p) {
      double polynomial[kFinite + 1] = {1.0};
      double scale = p < kFinite ? static_cast<double>(weights[p][0]) : 1.0;
      int degree = 0;
      for (int q = 0; q < kFinite; ++q) {
        if (q == p) continue;
        ++degree;
        for (int k = degree; k >= 0; --k) {
          polynomial[k] = (k > 0 ? polynomial[k - 1] : 0.0) - point[q] * polynomial[k];
        }
        if (p < kFinite) scale *= point[p] - point[q];
      }
      for (int k = 0; k <= kFinite; ++k) input[p][k] = static_cast<float>(polynomial[k] / scale);
      if (p == kFinite) break;
      double power = 1.0;
      for (int i = 0; i < kCount; ++i, power *= point[p]) output[p][i] = static_cast<float>(power);
    }
  }
};

template <WinogradForm kForm, int kCount>
struct EdgeMap {
  static constexpr EdgeCoefficients<kForm, kCount> kMade{};
  static constexpr int kFinite = kMade.kFinite, kInfinity = kForm.m + kForm.Taps() - 2;

  template <class D, class V>
  static HWY_NOINLINE void Input(D d, const V* x, V* to) {
    for (int i = 0; i < kForm.Side(); ++i) to[i] = hn::Zero(d);
#pragma GCC unroll 11
    for (int p = 0; p <= kFinite; ++p) {
      V& sum = to[p < kFinite ? p : kInfinity];
#pragma GCC unroll 11
      for (int k = 0; k <= kFinite; ++k) {
        if (kMade.input[p][k] == 0.0f) continue;
        sum = hn::MulAdd(hn::Set(d, kMade.input[p][k]), x[kForm.stride * k], sum);
      }
    }
    if constexpr (kForm.stride == 2) {
#pragma GCC unroll 4
      for (int i = 0; i < kCount; ++i) to[kInfinity + 1 + i] = x[2 * i + 1];
    }
  }
  template <class D, class V>
  static HWY_NOINLINE void Output(D d, const V* x, V* to) {
#pragma GCC unroll 4
    for (int i = 0; i < kForm.m; ++i) {
      to[i] = i == kCount - 1 ? x[kInfinity] : hn::Zero(d);
      if (i >= kCount) continue;
#pragma GCC unroll 11
      for (int p = 0; p < kFinite; ++p) {
        if (kMade.output[p][i] == 0.0f) continue;
        to[i] = hn::MulAdd(hn::Set(d, kMade.output[p][i]), x[p], to[i]);
      }
      if constexpr (kForm.stride == 2) to[i] = hn::Add(to[i], x[kInfinity + 1 + i]);
    }
  }
};

template <int kCount>
struct EdgeMap<WinogradForm{4, 2, 5}, kCount>
    : Phases<WinogradForm{4, 2, 5}, EdgeMap<WinogradForm{4, 1}, kCount>,
             EdgeMap<WinogradForm{4, 2}, kCount>> {};

// Lines `stride` apart. Every third has a pointer: one for each are more than there are registers,
// and the compiler, left to itself, keeps them all on the stack.
template <int kCount, class T>
struct Lines {
  HWY_INLINE Lines(T* first, int64_t stride_in) : stride(stride_in) {
#pragma GCC unroll 4
    for (T*& third : at) {
      third = Kept(first);
      first += 3 * stride;
    }
  }
  HWY_INLINE T* operator[](int i) const { return at[i / 3] + i % 3 * stride; }
  HWY_INLINE void Advance(int64_t count) {
#pragma GCC unroll 4
    for (T*& third : at) third = Kept(third + count);
  }
  T* at[(kCount + 2) / 3];
  int64_t stride;
};

enum class Way { kInput, kOutput };

template <class Maps, Way kWay, class D, class V>
HWY_INLINE void Apply(D d, const V* x, V* to) {
  if constexpr (kWay == Way::kInput) {
    Maps::Input(d, x, to);
  } else {
    Maps::Output(d, x, to);
  }
}

// The map of an axis of which a tile has `count` pixels.
template <WinogradForm kForm, Way kWay, class D, class V>
HWY_INLINE void MapAxis(D d, int count, const V* x, V* to) {
  if (count == kForm.m) return Apply<Map<kForm>, kWay>(d, x, to);
  if constexpr (kForm.m == 4) {
    if (count == 3) return Apply<EdgeMap<kForm, 3>, kWay>(d, x, to);
    if (count == 2) return Apply<EdgeMap<kForm, 2>, kWay>(d, x, to);
  }
  Apply<EdgeMap<kForm, 1>, kWay>(d, x, to);
}

// What of a tile there is: all of its pixels and of the input under them, all of its pixels, or
// some.
enum class Extent { kWhole, kPadded, kCut };

// Channels [c0, c1) of one tile, of whose input lines [h0, h1) and pixels [w0, w1) exist.
template <WinogradForm kForm, Extent kExtent, class D>
HWY_INLINE int64_t InputChannels(D d, const float* x, int64_t line, int64_t pixel, int64_t c0,
                                 int64_t c1, int h0, int h1, int w0, int w1, int rows, int columns,
                                 float* to, int64_t t_stride) {
  using V = hn::Vec<D>;
  constexpr int kT = kForm.Side();
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(D()));
  int64_t c = c0;
  for (; c + kL <= c1; c += kL) {
    V half[kT][kT];
    Lines<kT, const float> lines(x + c, line);
#pragma GCC unroll 11
    for (int j = 0; j < kT; ++j, lines.Advance(pixel)) {
      V column[kT], mapped[kT];
#pragma GCC unroll 11
      for (int i = 0; i < kT; ++i) {
        if (kExtent == Extent::kWhole || (i >= h0 && i < h1 && j >= w0 && j < w1)) {
          column[i] = hn::LoadU(d, lines[i]);
        } else {
          column[i] = hn::Zero(d);
        }
      }
      MapAxis<kForm, Way::kInput>(d, kExtent == Extent::kCut ? rows : kForm.m, column, mapped);
#pragma GCC unroll 11
      for (int i = 0; i < kT; ++i) half[i][j] = mapped[i];
    }
    Lines<kT, float> values(to + c, t_stride);
#pragma GCC unroll 11
    for (int i = 0; i < kT; ++i, values.Advance(kT * t_stride)) {
      V mapped[kT];
      MapAxis<kForm, Way::kInput>(d, kExtent == Extent::kCut ? columns : kForm.m, half[i], mapped);
#pragma GCC unroll 11
      for (int j = 0; j < kT; ++j) hn::StoreU(mapped[j], d, values[j]);
    }
  }
  return c;
}

// Fetches what the next tile of the line reads, and the one at `from` does not.
template <WinogradForm kForm>
HWY_INLINE void FetchNext(const float* from, int64_t line, int64_t pixel) {
  constexpr int kT = kForm.Side();
  for (int i = 0; i < kT; ++i, from += line) {
    for (int64_t c = kT * pixel; c < (kT + kForm.m * kForm.stride) * pixel; c += 16) {
      __builtin_prefetch(from + c, 0, 2);
    }
  }
}

template <WinogradForm kForm>
HWY_NOINLINE void Input(const ConvShape& s, const float* x, int64_t first, int64_t count,
                        const WinogradValues& values) {
  constexpr int kT = kForm.Side();
  const WinogradTiles tiles(s, kForm);
  const int64_t line = s.in[2] * s.x_stride;
  for (int64_t r = 0; r < count; ++r) {
    const WinogradPlace place = tiles.At(first + r);
    const int64_t h = place.h * kForm.stride - s.pad_begin[1],
                  w = place.w * kForm.stride - s.pad_begin[2];
    const auto Clip = [](int64_t value) {
      return static_cast<int>(std::clamp<int64_t>(value, 0, kT));
    };
    const int h0 = Clip(-h), h1 = Clip(s.in[1] - h), w0 = Clip(-w), w1 = Clip(s.in[2] - w);
    const float* from = x + (place.item * s.in[1] + h) * line + w * s.x_stride;
    float* to = values.data + r * values.ld;
    FetchNext<kForm>(from, line, s.x_stride);
    const auto some = [&]<Extent kExtent>(auto d, int64_t c) HWY_ATTR {
      return InputChannels<kForm, kExtent>(d, from, line, s.x_stride, c, s.cin, h0, h1, w0, w1,
                                           place.rows, place.columns, to, values.t_stride);
    };
    int64_t c = 0;
    if (place.rows < kForm.m || place.columns < kForm.m) {
      c = some.template operator()<Extent::kCut>(Wide(), c);
    } else if (h0 > 0 || w0 > 0 || h1 < kT || w1 < kT) {
      c = some.template operator()<Extent::kPadded>(Wide(), c);
    } else {
      c = some.template operator()<Extent::kWhole>(Wide(), c);
    }
    c = some.template operator()<Extent::kCut>(Narrow(), c);
    some.template operator()<Extent::kCut>(One(), c);
  }
}

template <WinogradForm kForm, bool kCut, class D>
HWY_INLINE int64_t OutputChannels(D d, const float* from, int64_t t_stride, int64_t c0, int64_t c1,
                                  int rows, int columns, float* y, int64_t line, int64_t pixel,
                                  const float* bias, const float* residual, int64_t residual_line,
                                  int64_t residual_pixel, const TileEpilogue& e) {
  using V = hn::Vec<D>;
  constexpr int kT = kForm.Side();
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(D()));
  int64_t c = c0;
  for (; c + kL <= c1; c += kL) {
    V half[kForm.m][kT];
    Lines<kT, const float> values(from + c, kT * t_stride);
#pragma GCC unroll 11
    for (int j = 0; j < kT; ++j, values.Advance(t_stride)) {
      V column[kT], mapped[kForm.m];
#pragma GCC unroll 11
      for (int i = 0; i < kT; ++i) column[i] = hn::LoadU(d, values[i]);
      MapAxis<kForm, Way::kOutput>(d, kCut ? rows : kForm.m, column, mapped);
#pragma GCC unroll 11
      for (int i = 0; i < kForm.m; ++i) half[i][j] = mapped[i];
    }
    const V add = bias == nullptr ? hn::Zero(d) : hn::LoadU(d, bias + c);
    const V lo = hn::Set(d, e.lo), hi = hn::Set(d, e.hi);
    Lines<kForm.m, float> pixels(y + c, pixel);
#pragma GCC unroll 11
    for (int i = 0; i < kForm.m; ++i, pixels.Advance(line)) {
      if (kCut && i >= rows) break;
      V mapped[kForm.m];
      MapAxis<kForm, Way::kOutput>(d, kCut ? columns : kForm.m, half[i], mapped);
      const auto each = [&](const auto& finish) HWY_ATTR {
#pragma GCC unroll 11
        for (int j = 0; j < kForm.m; ++j) {
          if (kCut && j >= columns) break;
          finish(mapped[j], j);
        }
      };
      each([&](V& value, int) HWY_ATTR { value = hn::Add(value, add); });
      if (residual != nullptr) {
        const float* from_line = residual + i * residual_line + c;
        each([&](V& value, int j) HWY_ATTR {
          value = hn::Add(value, hn::LoadU(d, from_line + j * residual_pixel));
        });
      }
      if (e.clamp) {
        each([&](V& value, int) HWY_ATTR { value = AtMost(d, hi, AtLeast(d, lo, value)); });
      }
      if (e.rounding != DType::kFloat32) {
        each([&](V& value, int) HWY_ATTR { value = RoundTo(d, e.rounding, value); });
      }
      each([&](V& value, int j) HWY_ATTR { hn::StoreU(value, d, pixels[j]); });
    }
  }
  return c;
}

// Fetches the pixels of a tile, which is about to be stored or added.
HWY_INLINE void FetchPixels(const WinogradPlace& place, const float* from, int64_t line,
                            int64_t pixel, int64_t channels) {
  for (int i = 0; i < place.rows; ++i, from += line) {
    for (int64_t j = 0; j < place.columns; ++j) {
      for (int64_t c = 0; c < channels; c += 16) __builtin_prefetch(from + j * pixel + c, 0, 2);
    }
  }
}

template <WinogradForm kForm>
HWY_NOINLINE void Output(const ConvShape& s, const WinogradValues& values, int64_t first,
                         int64_t count, int64_t channels, float* y, const TileEpilogue& e) {
  const WinogradTiles tiles(s, kForm);
  const int64_t line = s.out[2] * s.y_stride, residual_line = s.out[2] * e.residual_ld;
  const auto PixelOf = [&](const WinogradPlace& place) {
    return (place.item * s.out[1] + place.h) * s.out[2] + place.w;
  };
  WinogradPlace next = tiles.At(first);
  for (int64_t r = 0; r < count; ++r) {
    const WinogradPlace place = next;
    if (r + 1 < count) {
      next = tiles.At(first + r + 1);
      FetchPixels(next, y + PixelOf(next) * s.y_stride, line, s.y_stride, channels);
      if (e.residual != nullptr) {
        FetchPixels(next, e.residual + PixelOf(next) * e.residual_ld, residual_line, e.residual_ld,
                    channels);
      }
    }
    const int rows = place.rows, columns = place.columns;
    const int64_t pixel = PixelOf(place);
    const float* from = values.data + r * values.ld;
    float* to = y + pixel * s.y_stride;
    const float* residual = e.residual == nullptr ? nullptr : e.residual + pixel * e.residual_ld;
    const auto some = [&]<bool kCut>(auto d, int64_t c) HWY_ATTR {
      return OutputChannels<kForm, kCut>(d, from, values.t_stride, c, channels, rows, columns, to,
                                         line, s.y_stride, e.bias, residual, residual_line,
                                         e.residual_ld, e);
    };
    int64_t c = rows < kForm.m || columns < kForm.m ? some.template operator()<true>(Wide(), 0)
                                                    : some.template operator()<false>(Wide(), 0);
    c = some.template operator()<true>(Narrow(), c);
    some.template operator()<true>(One(), c);
    if (e.activation.kind == Activation::Kind::kNone) continue;
    for (int i = 0; i < rows; ++i) {
      ApplyActivation(e.activation, to + i * line, s.y_stride, columns, channels);
    }
  }
}

// The map of the weights of an axis. Two points that are each other's negative share the sum over
// the even taps.
template <WinogradForm kForm, class D, class V>
HWY_INLINE void MapWeights(D d, const V* x, V* to) {
  constexpr const auto& kMap = Map<kForm>::kWeights;
  constexpr int kT = kForm.Weights(), kTaps = kForm.kernel;
  V even = x[0];
  bool has_even = false;
#pragma GCC unroll 11
  for (int i = 0; i < kT; ++i) {
    const auto add = [&](int first, V sum, bool& has_sum) HWY_ATTR {
#pragma GCC unroll 3
      for (int tap = first; tap < kTaps; tap += 2) {
        const float factor = kMap[i][tap];
        if (factor == 0.0f) continue;
        if (has_sum) {
          sum = hn::MulAdd(hn::Set(d, factor), x[tap], sum);
        } else {
          sum = factor == 1.0f ? x[tap] : hn::Mul(hn::Set(d, factor), x[tap]);
        }
        has_sum = true;
      }
      return sum;
    };
    const bool is_mirrored = i > 0 && kMap[i][1] != 0.0f && kMap[i][1] == -kMap[i - 1][1] &&
                             kMap[i][0] == kMap[i - 1][0];
    if (!is_mirrored) {
      has_even = false;
      even = add(0, even, has_even);
    }
    bool has_sum = has_even;
    to[i] = add(1, even, has_sum);
  }
}

template <WinogradForm kForm, class D>
HWY_INLINE int64_t WeightColumns(D d, const float* kernel, int64_t width, int64_t j, float* to,
                                 int64_t t_stride) {
  using V = hn::Vec<D>;
  constexpr int kT = kForm.Weights(), kTaps = kForm.kernel;
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(D()));
  for (; j + kL <= width; j += kL) {
    V half[kT][kTaps];
#pragma GCC unroll 5
    for (int k = 0; k < kTaps; ++k) {
      V column[kTaps], mapped[kT];
#pragma GCC unroll 5
      for (int tap = 0; tap < kTaps; ++tap) {
        column[tap] = hn::LoadU(d, kernel + (tap * kTaps + k) * width + j);
      }
      MapWeights<kForm>(d, column, mapped);
#pragma GCC unroll 11
      for (int i = 0; i < kT; ++i) half[i][k] = mapped[i];
    }
#pragma GCC unroll 11
    for (int i = 0; i < kT; ++i) {
      V mapped[kT];
      MapWeights<kForm>(d, half[i], mapped);
#pragma GCC unroll 11
      for (int k = 0; k < kT; ++k) hn::StoreU(mapped[k], d, to + (i * kT + k) * t_stride + j);
    }
  }
  return j;
}

// Floats ahead that are fetched from memory.
constexpr int64_t kAhead = 4096;

template <WinogradForm kForm>
HWY_NOINLINE void Weights(int64_t count, int64_t width, const float* kernels, float* to,
                          int64_t t_stride) {
  for (int64_t c = 0; c < count; ++c, to += width) {
    const int64_t area = kForm.kernel * kForm.kernel * width;
    const float* kernel = kernels + c * area;
    for (int64_t i = 0; i < area; i += 16) __builtin_prefetch(kernel + kAhead + i, 0, 2);
    const int64_t j = WeightColumns<kForm>(Wide(), kernel, width, 0, to, t_stride);
    WeightColumns<kForm>(hn::CappedTag<float, kPanelGranule>(), kernel, width, j, to, t_stride);
  }
}

WinogradTransforms Transforms(WinogradForm form) {
  WinogradTransforms found{};
  const auto offer = [&]<WinogradForm kForm>() {
    if (form == kForm) found = {Input<kForm>, Output<kForm>, Weights<kForm>};
  };
#define SARDONYX_OFFER(algorithm, name, m, stride, kernel) \
  offer.operator()<WinogradForm{m, stride, kernel}>();
  SARDONYX_WINOGRAD_FORMS(SARDONYX_OFFER)
#undef SARDONYX_OFFER
  return found;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Transforms);

WinogradTransforms TransformsOf(WinogradForm form) {
  return HWY_DYNAMIC_DISPATCH(Transforms)(form);
}

}  // namespace sardonyx
#endif  // HWY_ONCE
