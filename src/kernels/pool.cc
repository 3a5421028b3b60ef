#include "kernels/pool.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pool.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <limits>

#include "kernels/chain_sums-inl.h"
#include "kernels/pool_typed.h"
#include "kernels/row_math-inl.h"
#include "kernels/slices.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

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
  const V start = kMax ? hn::Set(d, -std::numeric_limits<float>::infinity()) : hn::Zero(d);
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
            const V in = load(row + v * lanes);
            acc[v] = kMax ? hn::Max(acc[v], in) : hn::Add(acc[v], in);
          }
        }
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) {
          total[0][v] = kMax ? hn::Max(total[0][v], acc[v]) : hn::Add(total[0][v], acc[v]);
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

template <bool kMax>
HWY_INLINE void PoolRow(const PoolShape& shape, const float* x, float* y, int64_t row,
                        bool include_pad) {
  PoolRowWindows windows(shape, row);
  for (int64_t o = 0; o < shape.out[2]; ++o, y += shape.YStride()) {
    const PoolWindow& window = windows.At(o, include_pad);
    const float factor = window.counted == 0 ? 0.0f : 1.0f / static_cast<float>(window.counted);
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
