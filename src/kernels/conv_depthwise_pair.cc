// Convolution of each channel by itself, two neighbouring lines of the output at a time.

#include <algorithm>

#include "kernels/conv_depthwise_line.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv_depthwise_pair.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"
#include "kernels/conv_depthwise_line-inl.h"

#ifndef SARDONYX_CONV_DEPTHWISE_PAIR_ONCE
#define SARDONYX_CONV_DEPTHWISE_PAIR_ONCE
namespace sardonyx {

// Which columns of a tile lie outside of the input: the first, the last, both, or to be asked.
constexpr int kLeft = 1, kRight = 2, kBoth = kLeft | kRight, kAsk = 4;

}  // namespace sardonyx
#endif

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Whether there are registers for two lines and the weights that they share, of 7x7 taps two rows:
// 32 of them, or 16 for 3x3 taps and fewer pixels.
#if HWY_TARGET <= HWY_AVX3
constexpr bool kPairs = true, kManyRegisters = true;
#elif HWY_TARGET == HWY_AVX2
constexpr bool kPairs = true, kManyRegisters = false;
#else
constexpr bool kPairs = false, kManyRegisters = false;
#endif
constexpr int kPairPixels = kManyRegisters ? 6 : 4;  // of 3x3 taps

// kP neighbouring output pixels of two neighbouring lines for a kernel of kW x kW and
// strides of kH lines and kS pixels: the input lines that both read are loaded once. kWhole: all
// lines are inside of the input. kSides: which columns are not.
template <int kP, int kW, int kH, int kS, bool kWhole, int kSides, class D>
HWY_NOINLINE void PairPixels(D d, const DepthwiseLine& line, int64_t ow, int64_t c) {
  using V = hn::Vec<D>;
  constexpr int kColumns = (kP - 1) * kS + kW, kRows = kH + kW;
  const ConvShape& s = line.s;
  const int64_t pixel = s.x_stride, channels = s.cin, x_step = s.in[2] * pixel;
  const int64_t w0 = ow * kS - s.pad_begin[2];
  // Only the first and the last positions can lie outside.
  constexpr int kReach = kW / 2;
  const int64_t j0 = -w0, j1 = s.in[2] - w0, row0 = -line.h0, row1 = s.in[1] - line.h0;
  const float* HWY_RESTRICT x = line.x + (line.h0 * s.in[2] + w0) * pixel + c;
  const float* HWY_RESTRICT w = line.weights + c;
  V wv[kW][kW];
  V acc[2][kP];
#pragma GCC unroll 16
  for (int i = 0; i < 2 * kP; ++i) acc[i / kP][i % kP] = hn::Zero(d);
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row, x += x_step) {
#pragma GCC unroll 7
    for (int k = 0; k < kW && row < kW; ++k, w += channels) wv[row][k] = hn::LoadU(d, w);
    if (!kWhole && row < kReach && row < row0) continue;
    if (!kWhole && row >= kRows - kReach && row >= row1) continue;
    const float* HWY_RESTRICT from = x;
#pragma GCC unroll 16
    for (int j = 0; j < kColumns; ++j, from += pixel) {
      if (kSides == kAsk && j < kReach && j < j0) continue;
      if (kSides == kAsk && j >= kColumns - kReach && j >= j1) continue;
      if ((kSides & kLeft) != 0 && j == 0) continue;
      if ((kSides & kRight) != 0 && j == kColumns - 1) continue;
      const V value = hn::LoadU(d, from);
      // What the next tile reads first: strides of pixels are too far for the processor to foresee.
      if (kS == 2 && row >= kRows - 2 * kH && j >= kW - kS) {
        __builtin_prefetch(from + kP * kS * pixel, 0, 2);
      }
#pragma GCC unroll 7
      for (int k = 0; k < kW; ++k) {
        if (j < k || (j - k) % kS != 0 || (j - k) / kS >= kP) continue;
        V* const sum = &acc[0][(j - k) / kS];
        if (row < kW) sum[0] = hn::MulAdd(wv[row][k], value, sum[0]);
        if (row >= kH) sum[kP] = hn::MulAdd(wv[row - kH][k], value, sum[kP]);
      }
    }
  }
  FinishPixels<true>(d, acc[0], line, ow, c);
  FinishPixels<true>(d, acc[1], line, ow + s.out[2], c);
}

template <int kP, int kW, int kH, int kS, class D>
HWY_INLINE void PairTiles(D d, const DepthwiseLine& line) {
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(D())), kColumns = (kP - 1) * kS + kW;
  const ConvShape& s = line.s;
  const bool whole = line.h0 >= 0 && line.h0 + kH + kW <= s.in[1];
  const int64_t block = ChannelsTogether(kW, kL, s.cin);
  for (int64_t c0 = 0; c0 < s.cin; c0 += block) {
    for (int64_t i = line.first; i < line.last; i += kP) {
      const int64_t ow = std::min(i, line.last - kP), w0 = ow * kS - s.pad_begin[2];
      const int sides = (w0 < 0 ? kLeft : 0) | (w0 + kColumns > s.in[2] ? kRight : 0);
      auto* tile = &PairPixels<kP, kW, kH, kS, true, 0, D>;
      if constexpr (kW == 3) {
        constexpr decltype(tile) kTiles[] = {
            PairPixels<kP, kW, kH, kS, false, 0, D>,
            PairPixels<kP, kW, kH, kS, false, kLeft, D>,
            PairPixels<kP, kW, kH, kS, false, kRight, D>,
            PairPixels<kP, kW, kH, kS, false, kBoth, D>,
        };
        if (!whole || sides != 0) tile = kTiles[sides];
      } else if (!whole || sides != 0) {
        tile = &PairPixels<kP, kW, kH, kS, false, kAsk, D>;
      }
      for (int64_t next = c0; next < std::min(s.cin, c0 + block); next += kL) {
        tile(d, line, ow, std::min(next, s.cin - kL));  // the last vector overlaps the one before
      }
    }
  }
}

// `line` and the one behind it in tiles of kP pixels, or of 7 where that fits and registers allow;
// false if it is shorter than that.
template <int kP, int kW, int kH, int kS, class D>
HWY_INLINE bool PairLine(D d, const DepthwiseLine& line) {
  const int64_t count = line.last - line.first;
  if constexpr (kManyRegisters) {
    if (count % 7 == 0) {
      PairTiles<7, kW, kH, kS>(d, line);
      return true;
    }
  }
  if (count < kP) return false;
  PairTiles<kP, kW, kH, kS>(d, line);
  return true;
}

bool LinePair(const DepthwiseLine& line) {
  if constexpr (kPairs) {
    const hn::ScalableTag<float> d;
    if (line.s.cin < static_cast<int64_t>(hn::Lanes(d))) return false;
    const bool dense = line.s.stride[2] == 1, next = line.s.stride[1] == 1;
    if (line.s.kernel[2] > 3) {
      if constexpr (kManyRegisters) {
        if (line.s.kernel[2] == 7) return PairLine<8, 7, 1, 1>(d, line);
        return next ? PairLine<8, 5, 1, 1>(d, line) : PairLine<8, 5, 2, 1>(d, line);
      }
      return false;
    }
    constexpr int kP = kPairPixels;
    if (next) return dense ? PairLine<kP, 3, 1, 1>(d, line) : PairLine<kP, 3, 1, 2>(d, line);
    return dense ? PairLine<kP, 3, 2, 1>(d, line) : PairLine<kP, 3, 2, 2>(d, line);
  }
  return false;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(LinePair);

bool SuitsLinePairs(const ConvShape& s) {
  if (s.groups != s.cin || s.cout != s.cin) return false;
  if (s.kernel[0] != 1 || s.in[0] != 1 || s.out[0] != 1 || s.pad_begin[0] != 0) return false;
  const int64_t kernel = s.kernel[2], reach = kernel / 2;
  for (int i = 1; i < 3; ++i) {
    const int64_t behind = (s.out[i] - 1) * s.stride[i] + kernel - s.pad_begin[i] - s.in[i];
    if (s.kernel[i] != kernel || s.stride[i] > 2 || s.dilation[i] != 1) return false;
    if (s.pad_begin[i] > reach || behind > reach) return false;
  }
  return kernel == 3 || (kernel == 5 && s.stride[2] == 1) ||
         (kernel == 7 && s.stride[1] == 1 && s.stride[2] == 1);
}

bool DepthwiseLinePair(const DepthwiseLine& line) { return HWY_DYNAMIC_DISPATCH(LinePair)(line); }

}  // namespace sardonyx
#endif  // HWY_ONCE
