#include "kernels/sample.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sample.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/row_math-inl.h"
#include "kernels/slices.h"
#include "kernels/transpose.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

struct Sum {
  static V Start(D d, float) { return hn::Zero(d); }
  static V Step(V weight, V x, V sum) { return hn::MulAdd(weight, x, sum); }
  static V End(D d, V sum, float scale) { return hn::Mul(sum, hn::Set(d, scale)); }
};

struct Most {
  static V Start(D d, float least) { return hn::Set(d, least); }
  static V Step(V weight, V x, V most) { return hn::Max(hn::Mul(weight, x), most); }
  static V End(D, V most, float) { return most; }
};

// Calls for_each_tap(f) with f(offset of the pixel, weight), once for each four vectors of
// channels.
template <class Fold, typename ForEachTap>
HWY_INLINE void OverChannels(const float* image, int64_t channels, float parameter, float* out,
                             ForEachTap&& for_each_tap) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + 4 * lanes <= channels; c += 4 * lanes) {
    V s0 = Fold::Start(d, parameter), s1 = s0, s2 = s0, s3 = s0;
    const float* from = image + c;
    for_each_tap([&](int64_t offset, float weight) HWY_ATTR {
      const V w = hn::Set(d, weight);
      const float* x = from + offset;
      s0 = Fold::Step(w, hn::LoadU(d, x), s0);
      s1 = Fold::Step(w, hn::LoadU(d, x + lanes), s1);
      s2 = Fold::Step(w, hn::LoadU(d, x + 2 * lanes), s2);
      s3 = Fold::Step(w, hn::LoadU(d, x + 3 * lanes), s3);
    });
    hn::StoreU(Fold::End(d, s0, parameter), d, out + c);
    hn::StoreU(Fold::End(d, s1, parameter), d, out + c + lanes);
    hn::StoreU(Fold::End(d, s2, parameter), d, out + c + 2 * lanes);
    hn::StoreU(Fold::End(d, s3, parameter), d, out + c + 3 * lanes);
  }
  for (; c < channels; c += lanes) {
    const int64_t count = std::min(lanes, channels - c);
    V s = Fold::Start(d, parameter);
    for_each_tap([&](int64_t offset, float weight) HWY_ATTR {
      const float* x = image + c + offset;
      s = Fold::Step(hn::Set(d, weight), count == lanes ? hn::LoadU(d, x) : LoadPart(d, x, count),
                     s);
    });
    StorePart(Fold::End(d, s, parameter), d, out + c, count);
  }
}

void SumTapsImpl(const float* image, int64_t stride, int64_t channels, const Tap* taps,
                 const int32_t* counts, int64_t most, int64_t points, float* out) {
  for (int64_t p = 0; p < points; ++p) {
    const Tap *first = taps + p * most, *last = first + counts[p];
    OverChannels<Sum>(image, channels, 1.0f, out + p * channels, [&](auto&& use) HWY_ATTR {
      for (const Tap* tap = first; tap != last; ++tap) use(tap->pixel * stride, tap->weight);
    });
  }
}

template <class Fold>
void FoldWindow(const float* image, int64_t width, int64_t channels, const TapWindow& window,
                float parameter, float* out) {
  OverChannels<Fold>(image, channels, parameter, out, [&](auto&& use) HWY_ATTR {
    for (int32_t r = 0; r < window.row_count; ++r) {
      const int64_t row = window.rows[r].pixel * width;
      const float weight = window.rows[r].weight;
      for (int32_t k = 0; k < window.column_count; ++k) {
        const Tap& column = window.columns[k];
        use((row + column.pixel) * channels, weight * column.weight);
      }
    }
  });
}

void SumWindowImpl(const float* image, int64_t width, int64_t channels, const TapWindow& window,
                   float scale, float* out) {
  FoldWindow<Sum>(image, width, channels, window, scale, out);
}
void MaxWindowImpl(const float* image, int64_t width, int64_t channels, const TapWindow& window,
                   float least, float* out) {
  FoldWindow<Most>(image, width, channels, window, least, out);
}

}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(SumTapsImpl);
HWY_EXPORT(SumWindowImpl);
HWY_EXPORT(MaxWindowImpl);

void SumTaps(const float* image, int64_t stride, int64_t channels, const Tap* taps,
             const int32_t* counts, int64_t most, int64_t points, float* out) {
  HWY_DYNAMIC_DISPATCH(SumTapsImpl)(image, stride, channels, taps, counts, most, points, out);
}

void SumWindow(const float* image, int64_t width, int64_t channels, const TapWindow& window,
               float scale, float* out) {
  HWY_DYNAMIC_DISPATCH(SumWindowImpl)(image, width, channels, window, scale, out);
}

void MaxWindow(const float* image, int64_t width, int64_t channels, const TapWindow& window,
               float least, float* out) {
  HWY_DYNAMIC_DISPATCH(MaxWindowImpl)(image, width, channels, window, least, out);
}

void ToChannelsLast(const float* images, int64_t n, int64_t channels, int64_t pixels, float* out,
                    const Parallel& par) {
  const Slices slices = Slice(pixels, channels / 2 + 1, 64);
  par.For(n * slices.tasks, [&](int64_t task) {
    const int64_t image = task / slices.tasks * channels * pixels;
    const int64_t first = slices.Begin(task % slices.tasks);
    const int64_t last = slices.End(task % slices.tasks, pixels);
    TransposeMatrix(images + image + first, pixels, out + image + first * channels, channels,
                    last - first, channels);
  });
}

}  // namespace sardonyx
#endif
