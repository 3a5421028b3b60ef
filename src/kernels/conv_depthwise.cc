// Convolution of each channel by itself, or of groups of 2 or 4: vectors run over channels, a few
// output pixels at a time.

#include <algorithm>

#include "kernels/conv_internal.h"
#include "kernels/subnormals.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv_depthwise.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"
#include "kernels/chain_sums-inl.h"
#include "kernels/rounding-inl.h"
#include "kernels/vector_math-inl.h"

#ifndef SARDONYX_CONV_DEPTHWISE_ONCE
#define SARDONYX_CONV_DEPTHWISE_ONCE
namespace sardonyx {

// Output pixels first ... last - 1 of one line of the output, all channels.
struct DepthwiseLine {
  const ConvShape& s;
  const float* x;        // line (d, h) = (0, 0) of the item
  const float* weights;  // [input channel of the group, kernel position, output channel]
  float* y;              // pixel 0 of the line
  int64_t d0, h0;        // input position of kernel position 0
  int64_t first, last;
  TileEpilogue epilogue;  // from pixel 0 of the line
};

// Which columns of a tile lie outside of the input: the first, the last, both, or to be asked.
constexpr int kLeft = 1, kRight = 2, kBoth = kLeft | kRight, kAsk = 4;

// What pairs of lines do to their sums at once: others than HardSwish sweep over a line.
inline bool ActivatesInRegisters(const Activation& a) {
  return a.kind == Activation::Kind::kHardSwish && a.rounding == DType::kFloat32;
}

}  // namespace sardonyx
#endif

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Wide = hn::ScalableTag<float>;
using Eight = hn::CappedTag<float, 8>;
using Narrow = hn::CappedTag<float, 4>;
using One = hn::CappedTag<float, 1>;

// Range of kernel positions that lie inside of the input.
struct Range {
  int64_t begin, end;
};
HWY_INLINE Range Inside(int64_t position, int64_t kernel, int64_t dilation, int64_t size) {
  const int64_t begin = position >= 0 ? 0 : CeilDiv(-position, dilation);
  const int64_t end = position >= size ? 0 : CeilDiv(size - position, dilation);
  return {begin, std::max(begin, std::min(kernel, end))};
}

struct Window {
  Range depth, height, width;
};

// Finishes and stores the sums of kP neighbouring output pixels, the first of which is `pixel` of
// the line. The bias comes to the finished sum: were it where sums begin, each of their steps would
// be rounded to its size. kActivates: so does what ActivatesInRegisters.
template <bool kActivates, int kP, class D, class V = hn::Vec<D>>
HWY_INLINE void Finish(D d, V (&acc)[kP], const DepthwiseLine& line, int64_t pixel, int64_t c) {
  const TileEpilogue& e = line.epilogue;
  if (e.bias != nullptr) {
    const V bias = hn::LoadU(d, e.bias + c);
#pragma GCC unroll 8
    for (int p = 0; p < kP; ++p) acc[p] = hn::Add(acc[p], bias);
  }
  if (e.residual != nullptr) {
    const float* residual = e.residual + pixel * e.residual_ld + c;
#pragma GCC unroll 8
    for (int p = 0; p < kP; ++p, residual += e.residual_ld) {
      acc[p] = hn::Add(acc[p], hn::LoadU(d, residual));
    }
  }
  if (e.clamp) {
    const V lo = hn::Set(d, e.lo), hi = hn::Set(d, e.hi);
#pragma GCC unroll 8
    for (int p = 0; p < kP; ++p) acc[p] = AtMost(d, hi, AtLeast(d, lo, acc[p]));
  }
  if (e.rounding != DType::kFloat32) {
#pragma GCC unroll 8
    for (int p = 0; p < kP; ++p) acc[p] = RoundTo(d, e.rounding, acc[p]);
  }
  if (kActivates && ActivatesInRegisters(e.activation)) {
    const Activation& a = e.activation;
    const V slope = hn::Set(d, a.p[0]), offset = hn::Set(d, a.p[1]), lo = hn::Set(d, a.p[2]),
            hi = hn::Set(d, a.p[3]), scale = hn::Set(d, a.scale), shift = hn::Set(d, a.shift);
#pragma GCC unroll 8
    for (int p = 0; p < kP; ++p) {
      const V gate = AtMost(d, hi, AtLeast(d, lo, hn::MulAdd(acc[p], slope, offset)));
      acc[p] = hn::MulAdd(hn::Mul(acc[p], gate), scale, shift);
    }
  }
  float* y = line.y + pixel * line.s.y_stride + c;
#pragma GCC unroll 8
  for (int p = 0; p < kP; ++p, y += line.s.y_stride) hn::StoreU(acc[p], d, y);
}

// The lines of the kernel that lie inside of the input, for one output line.
struct KernelLines {
  static constexpr int kMost = 64;
  int count = 0;
  const float* x[kMost];  // input position 0 of the line, channel 0
  const float* w[kMost];
};

// kP neighbouring output pixels from `ow` on for a kernel of width kW and stride kS without
// dilation: each input value of a line is loaded once. kWhole: all of them are inside of the input.
template <int kP, int kW, int kS, bool kWhole, class D>
HWY_INLINE void FixedPixels(D d, const DepthwiseLine& line, const KernelLines& lines, int64_t ow,
                            int64_t c) {
  using V = hn::Vec<D>;
  constexpr int kColumns = (kP - 1) * kS + kW;
  const ConvShape& s = line.s;
  const int64_t pixel = s.x_stride, channels = s.cin;
  const int64_t w0 = ow * kS - s.pad_begin[2];
  const int64_t j0 = std::max<int64_t>(0, -w0), j1 = std::min<int64_t>(kColumns, s.in[2] - w0);
  const int64_t offset = w0 * pixel + c;
  V acc[kP];
#pragma GCC unroll 8
  for (int p = 0; p < kP; ++p) acc[p] = hn::Zero(d);
  for (int i = 0; i < lines.count; ++i) {
    const float* HWY_RESTRICT x = lines.x[i] + offset;
    const float* HWY_RESTRICT w = lines.w[i] + c;
    V wv[kW];
#pragma GCC unroll 8
    for (int k = 0; k < kW; ++k) wv[k] = hn::LoadU(d, w + k * channels);
#pragma GCC unroll 32
    for (int j = 0; j < kColumns; ++j) {
      if (!kWhole && (j < j0 || j >= j1)) continue;
      const V value = hn::LoadU(d, x + j * pixel);
      if (kS == 2 && i >= lines.count - 2 && j >= kW - kS) {
        __builtin_prefetch(x + (j + kP * kS) * pixel, 0, 2);
      }
#pragma GCC unroll 8
      for (int k = 0; k < kW; ++k) {
        if (j >= k && (j - k) % kS == 0 && (j - k) / kS < kP) {
          acc[(j - k) / kS] = hn::MulAdd(wv[k], value, acc[(j - k) / kS]);
        }
      }
    }
  }
  Finish<false>(d, acc, line, ow, c);
}

template <int kP, int kW, int kS, class D>
HWY_NOINLINE void FixedTile(D d, const DepthwiseLine& line, const KernelLines& lines, int64_t ow,
                            int64_t c) {
  const int64_t w0 = ow * kS - line.s.pad_begin[2];
  if (w0 >= 0 && w0 + (kP - 1) * kS + kW <= line.s.in[2]) {
    FixedPixels<kP, kW, kS, true>(d, line, lines, ow, c);
  } else {
    FixedPixels<kP, kW, kS, false>(d, line, lines, ow, c);
  }
}

// Channels of which a tile of pixels is done before the next tile: many, for memory gives whole
// pixels faster than parts; of a large kernel no more than the first-level cache keeps until then.
constexpr int64_t ChannelsTogether(int64_t kernel, int64_t lanes, int64_t channels) {
  return kernel == 3 ? channels : 4 * lanes;
}

// Covers [first, last) with tiles of kP pixels, the last of which overlaps the one before, and
// channels [c0, c1) with whole vectors.
template <int kP, int kW, int kS, class D>
HWY_INLINE void FixedTiles(D d, const DepthwiseLine& line, const KernelLines& lines, int64_t c0,
                           int64_t c1) {
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(D()));
  const int64_t block = ChannelsTogether(kW, kL, c1 - c0);
  for (; c0 < c1; c0 += block) {
    const int64_t end = std::min(c1, c0 + block);
    for (int64_t i = line.first; i < line.last; i += kP) {
      const int64_t ow = std::min(i, line.last - kP);
      for (int64_t c = c0; c < end; c += kL) FixedTile<kP, kW, kS>(d, line, lines, ow, c);
    }
  }
}

// All pixels of the line, channels [c0, c1) in whole vectors; returns where these end.
template <int kW, int kS, class D>
HWY_NOINLINE int64_t FixedLine(D d, const DepthwiseLine& line, const KernelLines& lines, int64_t c0,
                               int64_t c1) {
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(D()));
  const int64_t count = line.last - line.first, end = c0 + (c1 - c0) / kL * kL;
  if (count % 7 == 0 && count % 8 != 0) {
    FixedTiles<7, kW, kS>(d, line, lines, c0, end);
  } else if (count >= 8) {
    FixedTiles<8, kW, kS>(d, line, lines, c0, end);
  } else if (count >= 4) {
    FixedTiles<4, kW, kS>(d, line, lines, c0, end);
  } else {
    FixedTiles<1, kW, kS>(d, line, lines, c0, end);
  }
  return end;
}

template <int kW, int kS>
int64_t FixedChannels(const DepthwiseLine& line, const KernelLines& lines) {
  const int64_t c = FixedLine<kW, kS>(Wide(), line, lines, 0, line.s.cin);
  if constexpr (hn::MaxLanes(Eight()) < hn::MaxLanes(Wide())) {
    return FixedLine<kW, kS>(Eight(), line, lines, c, line.s.cin);
  }
  return c;
}

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
  Finish<true>(d, acc[0], line, ow, c);
  Finish<true>(d, acc[1], line, ow + s.out[2], c);
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

// `line` and the one behind it; false if that has to be done one by one.
bool LinePair(const DepthwiseLine& line) {
  if constexpr (kPairs) {
    const Wide d;
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

// Channels that a kernel of fixed size has done, 0 if there is none for this shape.
int64_t RunFixed(const DepthwiseLine& line, Range depth, Range height) {
  const ConvShape& s = line.s;
  if (s.dilation[2] != 1 || s.kernel[0] * s.kernel[1] > KernelLines::kMost) return 0;
  KernelLines lines;
  for (int64_t kd = depth.begin; kd < depth.end; ++kd) {
    for (int64_t kh = height.begin; kh < height.end; ++kh, ++lines.count) {
      const int64_t d = line.d0 + kd * s.dilation[0], h = line.h0 + kh * s.dilation[1];
      lines.x[lines.count] = line.x + (d * s.in[1] + h) * s.in[2] * s.x_stride;
      lines.w[lines.count] = line.weights + (kd * s.kernel[1] + kh) * s.kernel[2] * s.cin;
    }
  }
  if (s.stride[2] == 1) {
    if (s.kernel[2] == 3) return FixedChannels<3, 1>(line, lines);
    if (s.kernel[2] == 5) return FixedChannels<5, 1>(line, lines);
    if (s.kernel[2] == 7) return FixedChannels<7, 1>(line, lines);
  } else if (s.stride[2] == 2) {
    if (s.kernel[2] == 3) return FixedChannels<3, 2>(line, lines);
    if (s.kernel[2] == 5) return FixedChannels<5, 2>(line, lines);
  }
  return 0;
}

// What input channel kJ of each group of kGroup channels has, in the lanes of all the group.
template <int kGroup, int kJ, class V>
HWY_INLINE V OfGroup(V v) {
  if constexpr (kGroup == 4) return hn::Broadcast<kJ>(v);
  if constexpr (kGroup == 2) return kJ == 0 ? hn::DupEven(v) : hn::DupOdd(v);
  return v;
}

// acc[p] += the products of input channel kJ, kJ + 1, ... of each group.
template <int kGroup, int kJ, int kP, class D, class V = hn::Vec<D>>
HWY_INLINE void AddGroup(D d, const V (&x)[kP], const float* w, int64_t plane, V (&acc)[kP]) {
  if constexpr (kJ < kGroup) {
    const V wv = hn::LoadU(d, w);
#pragma GCC unroll 8
    for (int p = 0; p < kP; ++p) acc[p] = hn::MulAdd(wv, OfGroup<kGroup, kJ>(x[p]), acc[p]);
    AddGroup<kGroup, kJ + 1>(d, x, w + plane, plane, acc);
  }
}

// kP neighbouring output pixels from `ow` on, kNV vectors of channels from c on; kLong: in chains.
template <int kGroup, bool kLong, int kP, int kNV, class D>
HWY_INLINE void Pixels(D d, const DepthwiseLine& line, Window window, int64_t ow, int64_t c) {
  using V = hn::Vec<D>;
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(D()));
  constexpr int64_t kChain = kOneChain / kGroup;  // taps
  const ConvShape& s = line.s;
  const auto [depth, height, width] = window;
  const int64_t step = s.stride[2] * s.x_stride, tap = s.dilation[2] * s.x_stride;
  const int64_t w0 = ow * s.stride[2] - s.pad_begin[2], plane = s.KernelSize() * s.cin;
  V acc[kNV][kP];
#pragma GCC unroll 16
  for (int i = 0; i < kNV * kP; ++i) acc[i / kP][i % kP] = hn::Zero(d);
  ChainSums<kNV, kP, D> chains;
  int64_t left = kChain;
  for (int64_t kd = depth.begin; kd < depth.end; ++kd) {
    for (int64_t kh = height.begin; kh < height.end; ++kh) {
      const int64_t in =
          ((line.d0 + kd * s.dilation[0]) * s.in[1] + line.h0 + kh * s.dilation[1]) * s.in[2] + w0;
      const float* x = line.x + in * s.x_stride + width.begin * tap + c;
      const float* w =
          line.weights + ((kd * s.kernel[1] + kh) * s.kernel[2] + width.begin) * s.cin + c;
      for (int64_t kw = width.begin; kw < width.end;) {
        const int64_t end = kLong ? std::min(width.end, kw + left) : width.end;
        left -= end - kw;
        for (; kw < end; ++kw, x += tap, w += s.cin) {
#pragma GCC unroll 4
          for (int v = 0; v < kNV; ++v) {
            V xv[kP];
#pragma GCC unroll 8
            for (int p = 0; p < kP; ++p) xv[p] = hn::LoadU(d, x + p * step + v * kL);
            AddGroup<kGroup, 0>(d, xv, w + v * kL, plane, acc[v]);
          }
        }
        if (!kLong || left > 0) continue;
        chains.End(d, acc);
        left = kChain;
      }
    }
  }
  if (kLong) chains.AddTo(d, acc);
#pragma GCC unroll 4
  for (int v = 0; v < kNV; ++v) Finish<false>(d, acc[v], line, ow, c + v * kL);
}

// Pixels first ... last - 1 that see the same range of the kernel's width, channels from c on in
// blocks of kNV vectors; returns where the last whole block ends.
template <int kGroup, bool kLong, int kP, int kNV, class D>
HWY_NOINLINE int64_t Block(D d, const DepthwiseLine& line, const Window& window, int64_t first,
                           int64_t last, int64_t c) {
  constexpr int64_t kStep = kNV * static_cast<int64_t>(hn::MaxLanes(D()));
  for (; c + kStep <= line.s.cin; c += kStep) {
    int64_t ow = first;
    for (; ow + kP <= last; ow += kP) Pixels<kGroup, kLong, kP, kNV>(d, line, window, ow, c);
    if constexpr (kP > 2) {
      for (; ow + 2 <= last; ow += 2) Pixels<kGroup, kLong, 2, kNV>(d, line, window, ow, c);
    }
    for (; ow < last; ++ow) Pixels<kGroup, kLong, 1, kNV>(d, line, window, ow, c);
  }
  return c;
}

// All channels of pixels first ... last - 1 from c on.
template <int kGroup, bool kLong, int kP, int kNV>
void Blocks(const DepthwiseLine& line, Window window, int64_t first, int64_t last, int64_t c) {
  c = Block<kGroup, kLong, kP, kNV>(Wide(), line, window, first, last, c);
  c = Block<kGroup, kLong, kP, 1>(Wide(), line, window, first, last, c);
  c = Block<kGroup, kLong, kP, 1>(Narrow(), line, window, first, last, c);
  if constexpr (kGroup == 1) Block<1, kLong, 1, 1>(One(), line, window, first, last, c);
}

template <int kGroup, bool kLong>
void LineOf(const DepthwiseLine& line) {
  const ConvShape& s = line.s;
  const Range depth = Inside(line.d0, s.kernel[0], s.dilation[0], s.in[0]);
  const Range height = Inside(line.h0, s.kernel[1], s.dilation[1], s.in[1]);
  // Pixels that see the whole width of the kernel.
  const int64_t reach = (s.kernel[2] - 1) * s.dilation[2];
  const int64_t inner0 = std::clamp(CeilDiv(s.pad_begin[2], s.stride[2]), line.first, line.last);
  const int64_t room = s.in[2] - 1 - reach + s.pad_begin[2];
  const int64_t inner1 =
      std::clamp(room < 0 ? int64_t{0} : room / s.stride[2] + 1, inner0, line.last);
  const int64_t fixed = kGroup == 1 ? RunFixed(line, depth, height) : 0;
  if (fixed == s.cin) return;
  Blocks<kGroup, kLong, 4, 2>(line, {depth, height, {0, s.kernel[2]}}, inner0, inner1, fixed);
  for (int64_t ow = line.first; ow < line.last; ++ow) {
    if (ow == inner0) ow = inner1;
    if (ow >= line.last) break;
    const Range width =
        Inside(ow * s.stride[2] - s.pad_begin[2], s.kernel[2], s.dilation[2], s.in[2]);
    Blocks<kGroup, kLong, 1, 4>(line, {depth, height, width}, ow, ow + 1, fixed);
  }
}

void Line(const DepthwiseLine& line) {
  const int64_t group = line.s.cin / line.s.groups;
  const bool is_long = group * line.s.KernelSize() > kOneChain;
  if (group == 4) return is_long ? LineOf<4, true>(line) : LineOf<4, false>(line);
  if (group == 2) return is_long ? LineOf<2, true>(line) : LineOf<2, false>(line);
  return is_long ? LineOf<1, true>(line) : LineOf<1, false>(line);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Line);
HWY_EXPORT(LinePair);

namespace {

std::string_view Refusal(const ConvShape& s) {
  if (s.cout != s.cin) return "a group has more channels in than out, or fewer";
  const int64_t group = s.cin / s.groups;
  if (group == 1) return {};
  if (s.cin % 4 != 0 || (group != 2 && group != 4)) return "a group has not 1, 2 or 4 channels";
  return {};
}

size_t PackedBytes(const ConvShape& s) {
  return AlignBytes(FloatBytes(s.cin / s.groups * s.KernelSize() * s.cout));
}

void Pack(const ConvShape& s, const float* weights, float* packed, const Parallel&) {
  const int64_t row = s.cin / s.groups * s.KernelSize();
  TransposeCopy(weights, row, row, s.cout, packed, s.cout);
  ZeroSubnormals(packed, row * s.cout);
}

// Single channels, 3 x 3 with strides of 1 or 2, 5 x 5 with such a stride of lines and 7 x 7 of
// stride 1, whose windows reach at most half of a kernel beyond the input: two lines at a time,
// where there are registers for them.
bool SuitsPairs(const ConvShape& s) {
  if (s.groups != s.cin) return false;
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

void Run(const ConvShape& s, const float* x, const float* packed, float* y,
         const Epilogue& epilogue, void*, const Parallel& par) {
  const PreparedEpilogue prepared(epilogue);
  // An image is cut into steps of one or two lines; these where there are too few of them, or
  // threads share lines.
  const int64_t step = SuitsPairs(s) ? 2 : 1, steps = CeilDiv(s.out[1], step);
  const int64_t all = s.batch * s.out[0] * steps;
  const double bytes = 4.0 * static_cast<double>((s.InPixels() + s.OutPixels()) * s.cin);
  const int64_t wanted = WantedTasks(static_cast<double>(s.Flops()), 0.5 * bytes);
  const bool shares = SharesLines(s) && par.threads > 1 && wanted > 1;
  const int64_t segments =
      std::clamp<int64_t>(CeilDiv(wanted, all), shares ? 2 : 1, CeilDiv(s.out[2], 12));
  // Segments are whole tiles: where a tile overlaps the one before, pixels are summed twice.
  const int64_t tile = s.out[2] % 7 == 0 ? 7 : 8, tiles = CeilDiv(s.out[2], tile);
  const int64_t units = all * segments, tasks = std::min(wanted, units);
  par.For(tasks, [&](int64_t task) {
    for (int64_t i = units * task / tasks; i < units * (task + 1) / tasks; ++i) {
      const int64_t segment = shares ? i / all : i % segments;
      const int64_t place = shares ? i % all : i / segments, image = place / steps;
      const int64_t first = place % steps * step;
      const int64_t lines = std::min(step, s.out[1] - first);
      const auto line_at = [&](int64_t oh) {
        const int64_t pixel = (image * s.out[1] + oh) * s.out[2];
        return DepthwiseLine{s,
                             x + image / s.out[0] * s.in[0] * s.in[1] * s.in[2] * s.x_stride,
                             packed,
                             y + pixel * s.y_stride,
                             image % s.out[0] * s.stride[0] - s.pad_begin[0],
                             oh * s.stride[1] - s.pad_begin[1],
                             std::min(s.out[2], tiles * segment / segments * tile),
                             std::min(s.out[2], tiles * (segment + 1) / segments * tile),
                             prepared.InRegisters() ? prepared.Tile(pixel, 0) : TileEpilogue()};
      };
      const bool paired = lines == 2 && HWY_DYNAMIC_DISPATCH(LinePair)(line_at(first));
      for (int64_t oh = first; oh < first + lines; ++oh) {
        const DepthwiseLine line = line_at(oh);
        if (!paired) HWY_DYNAMIC_DISPATCH(Line)(line);
        float* const from = line.y + line.first * s.y_stride;
        const int64_t count = line.last - line.first;
        if (!paired || !ActivatesInRegisters(line.epilogue.activation)) {
          ApplyActivation(line.epilogue.activation, from, s.y_stride, count, s.cout);
        }
        if (!prepared.InRegisters()) {
          prepared.Apply(from, s.y_stride, (image * s.out[1] + oh) * s.out[2] + line.first, count,
                         0, s.cout);
        }
      }
    }
  });
}

}  // namespace

const ConvMethod kConvDepthwise = {
    .refusal = Refusal,
    .cost = [](const ConvShape&) { return 0.0; },  // whatever it takes
    .packed_bytes = PackedBytes,
    .pack = Pack,
    .scratch_bytes = [](const ConvShape&, int) { return size_t{0}; },
    .in_place = [](const ConvShape&) { return false; },
    .by_lines = [](const ConvShape&) { return true; },
    .run = Run};

}  // namespace sardonyx
#endif  // HWY_ONCE
