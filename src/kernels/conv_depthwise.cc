// Convolution of each channel by itself, to one or to 2 or 4 of the output, or of groups of 2 or 4:
// vectors run over the output's channels, a few output pixels at a time.

#include <algorithm>
#include <numeric>

#include "kernels/conv_depthwise_line.h"
#include "kernels/conv_internal.h"
#include "kernels/subnormals.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv_depthwise.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"
#include "kernels/chain_sums-inl.h"
#include "kernels/conv_depthwise_line-inl.h"

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

// acc[p] += the products of kT neighbouring taps, at stride kS: each value at x is loaded once.
// kWhole: columns 0 ... of x are all inside of the input, else j0 ... j1 - 1. kNext: the next
// tile's are fetched.
template <int kT, int kS, bool kWhole, bool kNext, int kP, class D, class V = hn::Vec<D>>
HWY_INLINE void AddTaps(D d, const float* HWY_RESTRICT x, int64_t pixel,
                        const float* HWY_RESTRICT w, int64_t channels, int64_t j0, int64_t j1,
                        V (&acc)[kP]) {
  V wv[kT];
#pragma GCC unroll 8
  for (int k = 0; k < kT; ++k) wv[k] = hn::LoadU(d, w + k * channels);
#pragma GCC unroll 32
  for (int j = 0; j < (kP - 1) * kS + kT; ++j) {
    if (!kWhole && (j < j0 || j >= j1)) continue;
    const V value = hn::LoadU(d, x + j * pixel);
    if (kNext && j >= kT - kS) __builtin_prefetch(x + (j + kP * kS) * pixel, 0, 2);
#pragma GCC unroll 8
    for (int k = 0; k < kT; ++k) {
      if (j >= k && (j - k) % kS == 0 && (j - k) / kS < kP) {
        acc[(j - k) / kS] = hn::MulAdd(wv[k], value, acc[(j - k) / kS]);
      }
    }
  }
}

constexpr int kAnyWidth = 0;

// kP neighbouring output pixels from `ow` on for a kernel of width kW and stride kS without
// dilation. kAnyWidth: as wide as the shape says, four taps at a time and in chains. kWhole: all
// columns are inside of the input.
template <int kP, int kW, int kS, bool kWhole, class D>
HWY_INLINE void FixedPixels(D d, const DepthwiseLine& line, const KernelLines& lines, int64_t ow,
                            int64_t c) {
  const ConvShape& s = line.s;
  const int64_t pixel = line.x_pixel, channels = s.cin;
  const int64_t w0 = ow * kS - line.pad, j0 = -w0, j1 = line.width - w0;
  const int64_t offset = line.x_first + w0 * pixel + c;
  hn::Vec<D> sums[1][kP];
  auto& acc = sums[0];
#pragma GCC unroll 8
  for (int p = 0; p < kP; ++p) acc[p] = hn::Zero(d);
  ChainSums<1, kP, D> chains;
  int64_t left = kOneChain;
  for (int i = 0; i < lines.count; ++i) {
    const float* x = line.x + lines.x[i] + offset;
    const float* w = line.weights + lines.w[i] * channels + c;
    if constexpr (kW != kAnyWidth) {
      if (kS == 2 && i >= lines.count - 2) {
        AddTaps<kW, kS, kWhole, true>(d, x, pixel, w, channels, j0, j1, acc);
      } else {
        AddTaps<kW, kS, kWhole, false>(d, x, pixel, w, channels, j0, j1, acc);
      }
      continue;
    }
    int64_t t = 0;
    for (; t + 4 <= s.kernel[2]; t += 4) {
      AddTaps<4, kS, kWhole, false>(d, x + t * pixel, pixel, w + t * channels, channels, j0 - t,
                                    j1 - t, acc);
      if ((left -= 4) > 0) continue;
      chains.End(d, sums);
      left = kOneChain;
    }
    for (; t < s.kernel[2]; ++t, --left) {
      AddTaps<1, kS, kWhole, false>(d, x + t * pixel, pixel, w + t * channels, channels, j0 - t,
                                    j1 - t, acc);
    }
  }
  if (kW == kAnyWidth) chains.AddTo(d, sums);
  FinishPixels<false>(d, acc, line, ow, c);
}

template <int kP, int kW, int kS, class D>
HWY_NOINLINE void FixedTile(D d, const DepthwiseLine& line, const KernelLines& lines, int64_t ow,
                            int64_t c) {
  const int64_t w0 = ow * kS - line.pad, width = kW == kAnyWidth ? line.s.kernel[2] : kW;
  if (w0 >= 0 && w0 + (kP - 1) * kS + width <= line.width) {
    FixedPixels<kP, kW, kS, true>(d, line, lines, ow, c);
  } else {
    FixedPixels<kP, kW, kS, false>(d, line, lines, ow, c);
  }
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

// The last channels, fewer than a vector, are in one with some of those before, which are summed
// again.
template <int kW, int kS>
int64_t FixedChannels(const DepthwiseLine& line, const KernelLines& lines) {
  constexpr int64_t kWide = static_cast<int64_t>(hn::MaxLanes(Wide()));
  constexpr int64_t kEight = static_cast<int64_t>(hn::MaxLanes(Eight()));
  const int64_t channels = line.s.cin;
  int64_t c = FixedLine<kW, kS>(Wide(), line, lines, 0, channels);
  if (channels >= kWide && channels - c > kEight) {
    return FixedLine<kW, kS>(Wide(), line, lines, channels - kWide, channels);
  }
  if constexpr (kEight < kWide) c = FixedLine<kW, kS>(Eight(), line, lines, c, channels);
  if (c < channels && channels >= kEight) {
    c = FixedLine<kW, kS>(Eight(), line, lines, channels - kEight, channels);
  }
  return c;
}

// Channels that a kernel of this width has done, 0 if there is none of it.
int64_t RunWidth(const DepthwiseLine& line, const KernelLines& lines) {
  const ConvShape& s = line.s;
  if (s.stride[2] == 1) {
    if (s.kernel[2] == 3) return FixedChannels<3, 1>(line, lines);
    if (s.kernel[2] == 4) return FixedChannels<4, 1>(line, lines);
    if (s.kernel[2] == 5) return FixedChannels<5, 1>(line, lines);
    if (s.kernel[2] == 7) return FixedChannels<7, 1>(line, lines);
    return FixedChannels<kAnyWidth, 1>(line, lines);
  } else if (s.stride[2] == 2) {
    if (s.kernel[2] == 3) return FixedChannels<3, 2>(line, lines);
    if (s.kernel[2] == 5) return FixedChannels<5, 2>(line, lines);
    return FixedChannels<kAnyWidth, 2>(line, lines);
  }
  return 0;
}

// A dilated kernel sees every so manieth pixel of a line, and so does that of the pixel as far
// behind: each of these phases is a line of its own, without dilation. Returns as RunWidth.
int64_t RunPhases(const DepthwiseLine& line, const KernelLines& lines) {
  const ConvShape& s = line.s;
  const int64_t step = s.dilation[2];
  int64_t channels = 0;
  for (int64_t i = 0; i < std::min(step, s.out[2]); ++i) {
    DepthwiseLine phase = line;
    phase.first = CeilDiv(std::max<int64_t>(line.first - i, 0), step);
    phase.last = CeilDiv(std::max<int64_t>(line.last - i, 0), step);
    if (phase.first == phase.last) continue;
    // Where pixel i sees the first position of the kernel: the padding, and a pixel of this phase.
    phase.pad = CeilDiv(std::max<int64_t>(s.pad_begin[2] - i, 0), step);
    const int64_t from = i - s.pad_begin[2] + phase.pad * step;
    phase.width = CeilDiv(std::max<int64_t>(s.in[2] - from, 0), step);
    phase.x_first = from * phase.x_pixel;
    phase.x_pixel *= step;
    phase.y += i * phase.y_pixel;
    phase.y_pixel *= step;
    if (phase.epilogue.residual != nullptr) {
      phase.epilogue.residual += i * phase.epilogue.residual_ld;
    }
    phase.epilogue.residual_ld *= step;
    channels = RunWidth(phase, lines);
    if (channels == 0) return 0;
  }
  return channels;
}

// Channels that a kernel of fixed size has done, 0 if there is none for this shape.
int64_t RunFixed(const DepthwiseLine& line) {
  const ConvShape& s = line.s;
  if (s.dilation[2] != 1 && s.stride[2] != 1) return 0;
  if (!KernelLines::Fit(s)) return 0;
  KernelLines lines;
  lines.Find(s, line.d0, line.h0);
  return s.dilation[2] == 1 ? RunWidth(line, lines) : RunPhases(line, lines);
}

// What input channel kJ of each group of kGroup channels has, in the lanes of all the group.
template <int kGroup, int kJ, class V>
HWY_INLINE V OfGroup(V v) {
  if constexpr (kGroup == 4) return hn::Broadcast<kJ>(v);
  if constexpr (kGroup == 2) return kJ == 0 ? hn::DupEven(v) : hn::DupOdd(v);
  return v;
}

// The first lanes of a vector, of so many parts one.
template <int kParts, class D>
HWY_INLINE hn::Vec<D> LoadPart(D d, const float* x) {
  if constexpr (kParts == 1) {
    return hn::LoadU(d, x);
  } else {
    return hn::ZeroExtendVector(d, LoadPart<kParts / 2>(hn::Half<D>(), x));
  }
}

// A vector in which each value at x stands kTimes in a row.
template <int kTimes, class D>
HWY_INLINE hn::Vec<D> LoadRepeated(D d, const float* x) {
  constexpr int kL = static_cast<int>(hn::MaxLanes(D()));
  if constexpr (kTimes == 1 || kL == 1) {
    return hn::LoadU(d, x);
  } else {
    alignas(64) int32_t from[kL];
#pragma GCC unroll 16
    for (int i = 0; i < kL; ++i) from[i] = i / kTimes;
    return hn::TableLookupLanes(LoadPart<kTimes>(d, x), hn::SetTableIndices(d, from));
  }
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

// kP neighbouring output pixels from `ow` on, kNV vectors of channels from c on; kTimes: so many of
// them are of one input channel; kLong: in chains.
template <int kGroup, int kTimes, bool kLong, int kP, int kNV, class D>
HWY_INLINE void Pixels(D d, const DepthwiseLine& line, Window window, int64_t ow, int64_t c) {
  using V = hn::Vec<D>;
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(D()));
  constexpr int64_t kChain = kOneChain / kGroup;  // taps
  const ConvShape& s = line.s;
  const auto [depth, height, width] = window;
  const int64_t step = s.stride[2] * s.x_stride, tap = s.dilation[2] * s.x_stride;
  const int64_t w0 = ow * s.stride[2] - s.pad_begin[2], plane = s.KernelSize() * s.cout;
  V acc[kNV][kP];
#pragma GCC unroll 16
  for (int i = 0; i < kNV * kP; ++i) acc[i / kP][i % kP] = hn::Zero(d);
  ChainSums<kNV, kP, D> chains;
  int64_t left = kChain;
  for (int64_t kd = depth.begin; kd < depth.end; ++kd) {
    for (int64_t kh = height.begin; kh < height.end; ++kh) {
      const int64_t in =
          ((line.d0 + kd * s.dilation[0]) * s.in[1] + line.h0 + kh * s.dilation[1]) * s.in[2] + w0;
      const float* x = line.x + in * s.x_stride + width.begin * tap + c / kTimes;
      const float* w =
          line.weights + ((kd * s.kernel[1] + kh) * s.kernel[2] + width.begin) * s.cout + c;
      for (int64_t kw = width.begin; kw < width.end;) {
        const int64_t end = kLong ? std::min(width.end, kw + left) : width.end;
        left -= end - kw;
        for (; kw < end; ++kw, x += tap, w += s.cout) {
#pragma GCC unroll 4
          for (int v = 0; v < kNV; ++v) {
            V xv[kP];
#pragma GCC unroll 8
            for (int p = 0; p < kP; ++p) {
              xv[p] = LoadRepeated<kTimes>(d, x + p * step + v * kL / kTimes);
            }
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
  for (int v = 0; v < kNV; ++v) FinishPixels<false>(d, acc[v], line, ow, c + v * kL);
}

// Pixels first ... last - 1 that see the same range of the kernel's width, channels from c on in
// blocks of kNV vectors; returns where the last whole block ends.
template <int kGroup, int kTimes, bool kLong, int kP, int kNV, class D>
HWY_NOINLINE int64_t Block(D d, const DepthwiseLine& line, const Window& window, int64_t first,
                           int64_t last, int64_t c) {
  constexpr int64_t kStep = kNV * static_cast<int64_t>(hn::MaxLanes(D()));
  for (; c + kStep <= line.s.cout; c += kStep) {
    int64_t ow = first;
    for (; ow + kP <= last; ow += kP)
      Pixels<kGroup, kTimes, kLong, kP, kNV>(d, line, window, ow, c);
    if constexpr (kP > 2) {
      for (; ow + 2 <= last; ow += 2) Pixels<kGroup, kTimes, kLong, 2, kNV>(d, line, window, ow, c);
    }
    for (; ow < last; ++ow) Pixels<kGroup, kTimes, kLong, 1, kNV>(d, line, window, ow, c);
  }
  return c;
}

// All channels of pixels first ... last - 1 from c on.
template <int kGroup, int kTimes, bool kLong, int kP, int kNV>
void Blocks(const DepthwiseLine& line, Window window, int64_t first, int64_t last, int64_t c) {
  c = Block<kGroup, kTimes, kLong, kP, kNV>(Wide(), line, window, first, last, c);
  c = Block<kGroup, kTimes, kLong, kP, 1>(Wide(), line, window, first, last, c);
  c = Block<kGroup, kTimes, kLong, kP, 1>(Narrow(), line, window, first, last, c);
  if constexpr (kGroup == 1) Block<1, kTimes, kLong, 1, 1>(One(), line, window, first, last, c);
}

template <int kGroup, int kTimes, bool kLong>
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
  const int64_t fixed = kGroup == 1 && kTimes == 1 ? RunFixed(line) : 0;
  if (fixed == s.cout) return;
  Blocks<kGroup, kTimes, kLong, 4, 2>(line, {depth, height, {0, s.kernel[2]}}, inner0, inner1,
                                      fixed);
  for (int64_t ow = line.first; ow < line.last; ++ow) {
    if (ow == inner0) ow = inner1;
    if (ow >= line.last) break;
    const Range width =
        Inside(ow * s.stride[2] - s.pad_begin[2], s.kernel[2], s.dilation[2], s.in[2]);
    Blocks<kGroup, kTimes, kLong, 1, 4>(line, {depth, height, width}, ow, ow + 1, fixed);
  }
}

template <int kGroup, int kTimes = 1>
void LineOf(const DepthwiseLine& line) {
  const bool is_long = kGroup * line.s.KernelSize() > kOneChain;
  return is_long ? LineOf<kGroup, kTimes, true>(line) : LineOf<kGroup, kTimes, false>(line);
}

void Line(const DepthwiseLine& line) {
  const int64_t group = line.s.cin / line.s.groups, times = line.s.cout / line.s.cin;
  if (group == 4) return LineOf<4>(line);
  if (group == 2) return LineOf<2>(line);
  if (times == 4) return LineOf<1, 4>(line);
  if (times == 2) return LineOf<1, 2>(line);
  LineOf<1>(line);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Line);

namespace {

std::string_view Refusal(const ConvShape& s) {
  const int64_t group = s.cin / s.groups;
  const bool is_alone = group == 1 && s.groups > 1;
  if (is_alone && (s.cout == 2 * s.cin || s.cout == 4 * s.cin)) return {};
  if (s.cout != s.cin) return "a group has other channels in than out";
  if (group == 1) return {};
  if (s.cin % 4 != 0 || (group != 2 && group != 4)) return "a group has not 1, 2 or 4 channels";
  return {};
}

// Of values that lie so many floats apart, how many the first-level cache holds: 64 sets of 8
// lines, of which they share some.
int64_t LinesHeld(int64_t floats_apart) {
  constexpr int64_t kSets = 64, kWays = 8, kLine = 16;
  return kWays * kSets / std::gcd(kSets, std::max<int64_t>(floats_apart / kLine, 1));
}

// A line of the cache holds several vectors, which tiles read one after the other, and neighbouring
// tiles read the same columns (Zen 3, of x 64 bytes further apart: 512 channels of 14x14 pixels
// 0.47 of the time, 256 at stride 2 0.65; 7x7 taps 0.55 of 384 channels, 0.85 of 192).
bool Collides(const ConvShape& s) {
  if (s.KernelSize() == 1) return false;
  const int64_t lines = s.kernel[1] + (s.kernel[2] > 3 ? 0 : 1);
  const int64_t columns = s.kernel[2] + s.stride[2] * (s.kernel[2] > 3 ? 7 : 3);
  return 2 * s.kernel[0] * lines * columns > LinesHeld(s.x_stride);
}

size_t PackedBytes(const ConvShape& s) {
  return AlignBytes(FloatBytes(s.cin / s.groups * s.KernelSize() * s.cout));
}

void Pack(const ConvShape& s, const ConvWeightRows& rows, float* packed, const Parallel&) {
  const int64_t row = s.cin / s.groups * s.KernelSize();
  TransposeCopy(rows.data, row, row, s.cout, packed, s.cout);
  ZeroSubnormals(packed, row * s.cout);
}

void Run(const ConvShape& s, const float* x, const float* packed, float* y,
         const Epilogue& epilogue, void*, const Parallel& par) {
  const PreparedEpilogue prepared(epilogue);
  // An image is cut into steps of one or two lines; these where there are too few of them, or
  // threads share lines.
  const int64_t step = SuitsLinePairs(s) ? 2 : 1, steps = CeilDiv(s.out[1], step);
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
                             prepared.InRegisters() ? prepared.Tile(pixel, 0) : TileEpilogue(),
                             s.x_stride,
                             s.y_stride,
                             0,
                             s.pad_begin[2],
                             s.in[2]};
      };
      const bool paired = lines == 2 && DepthwiseLinePair(line_at(first));
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
    .collides = Collides,
    .run = Run};

}  // namespace sardonyx
#endif  // HWY_ONCE
