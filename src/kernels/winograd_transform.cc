#include "kernels/winograd_transform.h"

#include <algorithm>

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/winograd_transform.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"
#include "kernels/rounding-inl.h"
#include "kernels/tile_store-inl.h"
#include "kernels/vector_math-inl.h"
#include "kernels/winograd_maps-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Wide = hn::ScalableTag<float>;
using Half = hn::CappedTag<float, 8>;
using Narrow = hn::CappedTag<float, 4>;
using One = hn::CappedTag<float, 1>;

// Channels from c on, of which there are `count`: by the narrowest vector that takes all that are
// left, which ends with the last one, so that some channels are done twice, if they may be.
// some(d, c) does what whole vectors take and returns where it ended.
template <class F>
HWY_INLINE void Rest(int64_t c, int64_t count, bool twice, const F& some) {
  const auto by = [&](auto d, int64_t narrower) HWY_ATTR {
    constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(decltype(d)()));
    if (count < kL || count - c <= (twice ? narrower : 0)) return;
    c = some(d, c);
    if (twice && count - c > narrower) c = some(d, count - kL);
  };
  by(Wide(), 8);
  by(Half(), 4);
  by(Narrow(), 0);
  if (c < count) some(One(), c);
}

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

// Calls f of the number of pixels of an axis.
template <WinogradForm kForm, class F>
HWY_INLINE void WithCount(int count, const F& f) {
  if (count == kForm.m) return f.template operator()<kForm.m>();
  if constexpr (kForm.m == 4) {
    if (count == 3) return f.template operator()<3>();
    if (count == 2) return f.template operator()<2>();
  }
  f.template operator()<1>();
}

// Channels [c0, c1) of one tile, of whose input lines [h0, h1) and pixels [w0, w1) exist.
template <WinogradForm kForm, bool kPadded, class D>
HWY_INLINE int64_t InputChannels(D d, const float* x, int64_t line, int64_t pixel, int64_t c0,
                                 int64_t c1, int h0, int h1, int w0, int w1, float* to,
                                 int64_t t_stride) {
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
        if (!kPadded || (i >= h0 && i < h1 && j >= w0 && j < w1)) {
          column[i] = hn::LoadU(d, lines[i]);
        } else {
          column[i] = hn::Zero(d);
        }
      }
      Map<kForm>::Input(d, column, mapped);
#pragma GCC unroll 11
      for (int i = 0; i < kT; ++i) half[i][j] = mapped[i];
    }
    Lines<kT, float> values(to + c, t_stride);
#pragma GCC unroll 11
    for (int i = 0; i < kT; ++i, values.Advance(kT * t_stride)) {
      V mapped[kT];
      Map<kForm>::Input(d, half[i], mapped);
#pragma GCC unroll 11
      for (int j = 0; j < kT; ++j) hn::StoreU(mapped[j], d, values[j]);
    }
  }
  return c;
}

// Likewise of a tile of any number of rows and columns: the positions that it takes.
template <WinogradForm kForm, class D>
HWY_INLINE int64_t CutInputChannels(D d, const float* x, int64_t line, int64_t pixel, int64_t c0,
                                    int64_t c1, int h0, int h1, int w0, int w1, int rows,
                                    int columns, float* to, int64_t t_stride) {
  using V = hn::Vec<D>;
  constexpr int kT = kForm.Side();
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(D()));
  int64_t c = c0;
  for (; c + kL <= c1; c += kL) {
    V half[kT][kT];
    WithCount<kForm>(rows, [&]<int kCount>() HWY_ATTR {
      for (int j = 0; j < kForm.Products(columns); ++j) {
        V column[kT], mapped[kT];
#pragma GCC unroll 11
        for (int i = 0; i < kT; ++i) {
          if (i < kForm.Products(kCount) && i >= h0 && i < h1 && j >= w0 && j < w1) {
            column[i] = hn::LoadU(d, x + i * line + j * pixel + c);
          } else {
            column[i] = hn::Zero(d);
          }
        }
        AxisMap<kForm, kCount>::Input(d, column, mapped);
#pragma GCC unroll 11
        for (int i = 0; i < kT; ++i) {
          if (kForm.Takes(kCount, i)) half[i][j] = mapped[i];
        }
      }
    });
    WithCount<kForm>(columns, [&]<int kCount>() HWY_ATTR {
      for (int i = 0; i < kT; ++i) {
        if (!kForm.Takes(rows, i)) continue;
        V mapped[kT];
        AxisMap<kForm, kCount>::Input(d, half[i], mapped);
#pragma GCC unroll 11
        for (int j = 0; j < kT; ++j) {
          if (kForm.Takes(kCount, j)) hn::StoreU(mapped[j], d, to + (i * kT + j) * t_stride + c);
        }
      }
    });
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

// The values of one tile of which the pixel at its beginning is `from`, of a slice that `exists`.
template <WinogradForm kForm>
HWY_INLINE void InputTile(const ConvShape& s, const WinogradPlace& place, bool exists,
                          const float* from, int64_t h, int64_t w, float* to, int64_t t_stride) {
  constexpr int kT = kForm.Side();
  const auto Clip = [](int64_t value) {
    return static_cast<int>(std::clamp<int64_t>(value, 0, kT));
  };
  const int64_t line = s.in[2] * s.x_stride;
  const int h0 = Clip(-h), h1 = exists ? Clip(s.in[1] - h) : 0, w0 = Clip(-w),
            w1 = Clip(s.in[2] - w);
  const auto all = [&]<bool kPadded>() HWY_ATTR {
    return InputChannels<kForm, kPadded>(Wide(), from, line, s.x_stride, 0, s.cin, h0, h1, w0, w1,
                                         to, t_stride);
  };
  const auto some = [&](auto d, int64_t c) HWY_ATTR {
    return CutInputChannels<kForm>(d, from, line, s.x_stride, c, s.cin, h0, h1, w0, w1, place.rows,
                                   place.columns, to, t_stride);
  };
  int64_t c = 0;
  if (place.rows < kForm.m || place.columns < kForm.m) {
    c = some(Wide(), c);
  } else if (h0 > 0 || w0 > 0 || h1 < kT || w1 < kT) {
    c = all.template operator()<true>();
  } else {
    c = all.template operator()<false>();
  }
  Rest(c, s.cin, true, some);
}

template <WinogradForm kForm>
HWY_NOINLINE void Input(const ConvShape& s, const float* x, int64_t first, int64_t count,
                        const WinogradValues& values) {
  const WinogradTiles tiles(s, kForm);
  const int64_t line = s.in[2] * s.x_stride;
  // Divisions take as long as a tile of few channels.
  const bool is_flat = s.in[0] == 1 && s.out[0] == 1 && s.kernel[0] == 1 && s.pad_begin[0] == 0;
  for (int64_t r = 0; r < count; ++r) {
    const WinogradPlace place = tiles.At(first + r);
    const int64_t item = is_flat ? place.slice : place.slice / s.out[0];
    const int64_t out_d = is_flat ? 0 : place.slice % s.out[0];
    const int64_t h = place.h * kForm.stride - s.pad_begin[1],
                  w = place.w * kForm.stride - s.pad_begin[2];
    float* to = values.data + r * values.ld;
    for (int64_t k = 0; k < s.kernel[0]; ++k, to += s.cin) {
      const int64_t d = out_d * s.stride[0] + k * s.dilation[0] - s.pad_begin[0];
      const bool exists = d >= 0 && d < s.in[0];
      const float* from = x + ((item * s.in[0] + d) * s.in[1] + h) * line + w * s.x_stride;
      if (exists) FetchNext<kForm>(from, line, s.x_stride);
      InputTile<kForm>(s, place, exists, from, h, w, to, values.t_stride);
    }
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
    if constexpr (kCut) {
      WithCount<kForm>(rows, [&]<int kCount>() HWY_ATTR {
        for (int j = 0; j < kT; ++j) {
          if (!kForm.Takes(columns, j)) continue;
          V column[kT], mapped[kForm.m];
#pragma GCC unroll 11
          for (int i = 0; i < kT; ++i) {
            column[i] = kForm.Takes(kCount, i) ? hn::LoadU(d, from + (i * kT + j) * t_stride + c)
                                               : hn::Zero(d);
          }
          AxisMap<kForm, kCount>::Output(d, column, mapped);
#pragma GCC unroll 4
          for (int i = 0; i < kCount; ++i) half[i][j] = mapped[i];
        }
      });
    } else {
      Lines<kT, const float> values(from + c, kT * t_stride);
#pragma GCC unroll 11
      for (int j = 0; j < kT; ++j, values.Advance(t_stride)) {
        V column[kT], mapped[kForm.m];
#pragma GCC unroll 11
        for (int i = 0; i < kT; ++i) column[i] = hn::LoadU(d, values[i]);
        Map<kForm>::Output(d, column, mapped);
#pragma GCC unroll 4
        for (int i = 0; i < kForm.m; ++i) half[i][j] = mapped[i];
      }
    }
    const V add = bias == nullptr ? hn::Zero(d) : hn::LoadU(d, bias + c);
    const V lo = hn::Set(d, e.lo), hi = hn::Set(d, e.hi);
    Lines<kForm.m, float> pixels(y + c, pixel);
#pragma GCC unroll 11
    for (int i = 0; i < kForm.m; ++i, pixels.Advance(line)) {
      if (kCut && i >= rows) break;
      V mapped[kForm.m];
      WithCount<kForm>(kCut ? columns : kForm.m, [&]<int kCount>() HWY_ATTR {
        AxisMap<kForm, kCount>::Output(d, half[i], mapped);
      });
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
    return (place.slice * s.out[1] + place.h) * s.out[2] + place.w;
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
    const bool in_place = residual == to;  // what is stored would be added again
    Rest(c, channels, !in_place, [&](auto d, int64_t from_c) HWY_ATTR {
      return some.template operator()<true>(d, from_c);
    });
    if (e.activation.kind == Activation::Kind::kNone) continue;
    for (int i = 0; i < rows; ++i) {
      ApplyActivation(e.activation, to + i * line, s.y_stride, columns, channels);
    }
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
    Unrolled<kTaps>([&](auto k) SARDONYX_INLINE {
      V column[kTaps], mapped[kT];
      Unrolled<kTaps>([&](auto tap) SARDONYX_INLINE {
        column[tap] = hn::LoadU(d, kernel + (tap * kTaps + k) * width + j);
      });
      MapWeights<kForm>(d, column, mapped);
      Unrolled<kT>([&](auto i) SARDONYX_INLINE { half[i][k] = mapped[i]; });
    });
    Lines<kT, float> matrices(to + j, t_stride);
    Unrolled<kT>([&](auto i) SARDONYX_INLINE {
      V mapped[kT];
      MapWeights<kForm>(d, half[i], mapped);
      Unrolled<kT>([&](auto k) SARDONYX_INLINE { hn::StoreU(mapped[k], d, matrices[k]); });
      matrices.Advance(kT * t_stride);
    });
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
