// The maps of Winograd convolution along one axis, of vectors. Included once a target, after
// hwy/highway.h.

#if defined(SARDONYX_WINOGRAD_MAPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SARDONYX_WINOGRAD_MAPS_INL_H_
#undef SARDONYX_WINOGRAD_MAPS_INL_H_
#else
#define SARDONYX_WINOGRAD_MAPS_INL_H_
#endif

#include <array>
#include <type_traits>

#include "hwy/highway.h"
#include "kernels/winograd_transform.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

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
  static constexpr float kPa = -2.0f / 3, kPb = 1.0f / 6;
  static constexpr float kWeights[6][3] = {{1.0f, 0.0f, 0.0f}, {1.0f, kA, 0.5f},
                                           {1.0f, -kA, 0.5f},  {1.0f, kB, 2.0f},
                                           {1.0f, -kB, 2.0f},  {0.0f, 0.0f, 1.0f}};
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
    const auto sum = [&](float a, V va, float b, V vb, V rest) HWY_ATTR {
      return hn::MulAdd(hn::Set(d, a), va, hn::MulAdd(hn::Set(d, b), vb, rest));
    };
    to[0] = sum(kPa, s1, kPb, s2, x[0]);
    to[1] = hn::MulAdd(hn::Set(d, kPa * kA), d1, hn::Mul(hn::Set(d, kPb * kB), d2));
    to[2] = hn::MulAdd(hn::Set(d, kPa * 0.5f), s1, hn::Mul(hn::Set(d, kPb * 2.0f), s2));
    to[3] = sum(kPa * 0.5f * kA, d1, kPb * 2.0f * kB, d2, x[5]);
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

// Likewise, with a tap less and a pixel more.
template <>
struct Map<WinogradForm{3, 1, 4}> : Map<WinogradForm{4, 1}> {
  static constexpr float kWeights[6][4] = {{1.0f, 0.0f, 0.0f, 0.0f},
                                           {-2.0f / 3, -kB / 3, -1.0f / 3, -kB / 6},
                                           {-2.0f / 3, kB / 3, -1.0f / 3, kB / 6},
                                           {1.0f / 6, kB / 6, 1.0f / 3, kB / 3},
                                           {1.0f / 6, -kB / 6, 1.0f / 3, -kB / 3},
                                           {0.0f, 0.0f, 0.0f, 1.0f}};
  template <class D, class V>
  static HWY_INLINE void Output(D d, const V* x, V* to) {
    const V s1 = hn::Add(x[1], x[2]), d1 = hn::Sub(x[1], x[2]);
    const V s2 = hn::Add(x[3], x[4]), d2 = hn::Sub(x[3], x[4]);
    to[0] = hn::Add(x[0], hn::Add(s1, s2));
    to[1] = hn::MulAdd(hn::Set(d, kA), d1, hn::Mul(hn::Set(d, kB), d2));
    to[2] = hn::MulAdd(hn::Set(d, 0.5f), s1, hn::MulAdd(hn::Set(d, 2.0f), s2, x[5]));
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
  static HWY_INLINE void Input(D d, const V* x, V* to) {
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
  static HWY_INLINE void Output(D d, const V* x, V* to) {
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

// The map of an axis of which a tile has kCount pixels.
template <WinogradForm kForm, int kCount>
using AxisMap = std::conditional_t<kCount == kForm.m, Map<kForm>, EdgeMap<kForm, kCount>>;

#define SARDONYX_INLINE HWY_ATTR __attribute__((always_inline))

// f of 0 ... kCount - 1 as constants: only what is indexed by constants from the start is kept in
// registers by GCC.
template <int kCount, class F>
HWY_INLINE void Unrolled(const F& f) {
  [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) SARDONYX_INLINE {
    (f(std::integral_constant<int, kIndex>()), ...);
  }(std::make_integer_sequence<int, kCount>());
}

// The sum over the even taps (kFirst = 0) or, added to `sum`, over the odd ones of a row of the map
// of the weights.
template <WinogradForm kForm, int kRow, int kFirst, class D, class V>
HWY_INLINE V MapTaps(D d, const V* x, V sum) {
  constexpr const auto& kMap = Map<kForm>::kWeights[kRow];
  Unrolled<(kForm.kernel + 1 - kFirst) / 2>([&](auto index) SARDONYX_INLINE {
    constexpr int kTap = kFirst + 2 * index;
    constexpr float kFactor = kMap[kTap];
    constexpr bool kIsFirst = [&] {
      for (int tap = kFirst; tap < kTap; tap += 2) {
        if (kMap[tap] != 0.0f) return false;
      }
      for (int tap = 0; kFirst == 1 && tap < kForm.kernel; tap += 2) {
        if (kMap[tap] != 0.0f) return false;
      }
      return true;
    }();
    if constexpr (kFactor == 0.0f) return;
    if constexpr (kIsFirst && kFactor == 1.0f) sum = x[kTap];
    if constexpr (kIsFirst && kFactor != 1.0f) sum = hn::Mul(hn::Set(d, kFactor), x[kTap]);
    if constexpr (!kIsFirst) sum = hn::MulAdd(hn::Set(d, kFactor), x[kTap], sum);
  });
  return sum;
}

// The map of the weights of an axis. Two points that are each other's negative share the sum over
// the even taps.
template <WinogradForm kForm, class D, class V>
HWY_INLINE void MapWeights(D d, const V* x, V* to) {
  constexpr const auto& kMap = Map<kForm>::kWeights;
  V even = hn::Zero(d);
  Unrolled<kForm.Weights()>([&](auto i) SARDONYX_INLINE {
    constexpr int kBefore = std::max<int>(i, 1) - 1;
    constexpr bool kIsMirrored =
        kMap[i][1] != 0.0f && kMap[i][1] == -kMap[kBefore][1] && kMap[i][0] == kMap[kBefore][0];
    if constexpr (!kIsMirrored) even = MapTaps<kForm, i, 0>(d, x, hn::Zero(d));
    to[i] = MapTaps<kForm, i, 1>(d, x, even);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#endif
