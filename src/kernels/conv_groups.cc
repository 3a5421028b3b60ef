// Convolution of groups of few channels. A group alone makes a narrow matrix, whose rows would be
// gathered for each group anew: here vectors run over the output channels of a group, for some
// neighbouring pixels at a time, and values of the input are read where they lie.
//
// Where pixels lie so far apart that those of a tile drive each other out of the cache, and where
// they are planes, lines of a group are copied before.
//
// The columns of a group are cut into vectors. On targets of 16 lanes the last ones may be a half:
// then two products of each, of neighbouring input channels, fill the vector.

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/chains.h"
#include "kernels/conv_internal.h"
#include "kernels/scratch_slots.h"
#include "kernels/subnormals.h"
#include "kernels/targets.h"
#include "kernels/transpose.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv_groups.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"
#include "kernels/finish_pixels-inl.h"

#ifndef SARDONYX_CONV_GROUPS_ONCE
#define SARDONYX_CONV_GROUPS_ONCE
namespace sardonyx {
namespace {

constexpr int64_t kHalf = 8;      // columns of a group are multiples of it
constexpr int64_t kTogether = 4;  // lines of the output for which weights stay in the cache

// Neighbouring lines of the output, some groups of them.
struct GroupLines {
  const ConvShape& s;      // as lines are read
  const ConvShape& given;  // as they are copied from
  const float* x;          // of the item
  const float* packed;
  int64_t d0;                 // input position of the kernel's first plane
  int64_t begin, end;         // of the lines, at most kTogether
  int64_t group, last_group;  // and of the groups
  int tile;                   // pixels at a time
  float* y;                   // of the first line, channel 0
  TileEpilogue epilogue;      // from there
  float* copied;              // room for the input's lines of CopiedAtOnce groups, or null
};

// Whether lines of a group are copied before they are read. Pixels of a multiple of 512 bytes share
// few sets of the first-level cache; each is read for many positions of the kernel.
inline bool Copies(const ConvShape& s) {
  constexpr int64_t kFarApart = 128;
  if (s.in[0] != 1 || s.kernel[0] != 1 || s.groups == s.cin) return false;
  return s.x_planes || (s.x_stride % kFarApart == 0 && s.kernel[1] * s.kernel[2] > 1);
}

// Groups whose lines are copied at once, while they fit in the second-level cache: a line of the
// cache, and those beside it, hold channels of several and come from afar (ResNeXt, 256 channels in
// groups of 8 of 56x56, stride 2: 0.8 of the time of one by one; Zen 3).
inline int64_t CopiedAtOnce(const ConvShape& s) {
  constexpr int64_t kChannels = 64, kFloats = 32 << 10;
  const int64_t pixels = std::min(s.in[1], LinesSeen(s, kTogether)) * s.in[2];
  if (s.x_planes || pixels == 0) return 1;
  const int64_t most = std::min(kChannels, kFloats / pixels) / (s.cin / s.groups);
  return std::clamp<int64_t>(most, 1, s.groups);
}

// Lines [first, end) of the channels of some groups, from the first channel of all on: a group
// behind the other, and of each one pixel behind the other.
inline void CopyLines(const ConvShape& s, const float* x, int64_t group, int64_t groups,
                      int64_t first, int64_t end, float* to) {
  const int64_t channels = s.cin / s.groups, pixels = (end - first) * s.in[2];
  if (s.x_planes) {
    const int64_t plane = s.in[1] * s.in[2];
    return TransposeMatrix(x + group * channels * plane + first * s.in[2], plane, to, channels,
                           pixels, channels);
  }
  const float* from = x + first * s.in[2] * s.x_stride + group * channels;
  const int64_t even = channels % kHalf == 0 ? channels : 0;
  for (int64_t i = 0; i < pixels; ++i, from += s.x_stride, to += channels) {
    for (int64_t j = 0; j < groups; ++j) {
      const float* const some = from + j * channels;
      float* const there = to + j * pixels * channels;
      for (int64_t c = 0; c < even; c += kHalf) {
        std::memcpy(there + c, some + c, FloatBytes(kHalf));
      }
      if (even == 0) std::memcpy(there, some, FloatBytes(channels));
    }
  }
}

inline int64_t GroupFloats(const ConvShape& s) {
  return s.KernelSize() * (s.cin / s.groups) * (s.cout / s.groups);
}

}  // namespace
}  // namespace sardonyx
#endif

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Whole = hn::CappedTag<float, 2 * kHalf>;
using Half = hn::CappedTag<float, kHalf>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Whole()));

// Some columns of a group and their weights: [kernel position, input channel, column], of pairs
// [kernel position, two input channels, column, which of the two].
struct Columns {
  const float* x;  // of the item, from the group's first channel on
  const float* weights;
  int64_t first, count;  // in all of y
};

// One line of the output on its way to y, as FinishPixels takes it.
struct OutputLine {
  TileEpilogue epilogue;
  float* y;
  int64_t y_pixel;
};

// A value in all lanes, or that and the one behind it in all pairs of lanes.
template <bool kPairs, class D>
HWY_INLINE hn::Vec<D> Spread(D d, const float* x) {
  if constexpr (kPairs) {
    double both;
    std::memcpy(&both, x, sizeof(both));
    return hn::BitCast(d, hn::Set(hn::Repartition<double, D>(), both));
  } else {
    return hn::Set(d, *x);
  }
}

// acc += the products of one kernel position, which may lie outside for the first pixel or the
// last. Every third pixel has a pointer.
template <bool kPairs, bool kNoFirst, bool kNoLast, size_t kThirds, int kNV, int kP, class D,
          class V = hn::Vec<D>>
HWY_INLINE void AddPosition(D d, const float* const (&at)[kThirds], int64_t step, int64_t channels,
                            const float* HWY_RESTRICT w, V (&acc)[kNV][kP]) {
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(D()));
  for (int64_t c = 0; c < channels; c += kPairs ? 2 : 1, w += kNV * kL) {
    V wv[kNV];
#pragma GCC unroll 2
    for (int v = 0; v < kNV; ++v) wv[v] = hn::LoadU(d, w + v * kL);
#pragma GCC unroll 16
    for (int p = kNoFirst ? 1 : 0; p < (kNoLast ? kP - 1 : kP); ++p) {
      const V xv = Spread<kPairs>(d, at[p / 3] + p % 3 * step + c);
#pragma GCC unroll 2
      for (int v = 0; v < kNV; ++v) acc[v][p] = hn::MulAdd(xv, wv[v], acc[v][p]);
    }
  }
}

// acc += the products of the three positions of a line of the kernel, for pixels kStride apart: a
// value of the input, once spread, serves all outputs that see it. The first pixel of the input or
// the last may lie outside. Every third has a pointer.
template <int kStride, bool kPairs, bool kNoFirst, bool kNoLast, size_t kThirds, int kP, class D,
          class V = hn::Vec<D>>
HWY_INLINE void AddThree(D d, const float* const (&at)[kThirds], int64_t pixel, int64_t channels,
                         const float* HWY_RESTRICT w, V (&acc)[kP]) {
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(D())) / (kPairs ? 2 : 1);
  constexpr int kIn = (kP - 1) * kStride + 3;
  const int64_t position = channels * kL;
  for (int64_t c = 0; c < channels; c += kPairs ? 2 : 1) {
    const float* const wc = w + c * kL;
    const V wv[3] = {hn::LoadU(d, wc), hn::LoadU(d, wc + position),
                     hn::LoadU(d, wc + 2 * position)};
#pragma GCC unroll 32
    for (int q = kNoFirst ? 1 : 0; q < (kNoLast ? kIn - 1 : kIn); ++q) {
      const V xv = Spread<kPairs>(d, at[q / 3] + q % 3 * pixel + c);
#pragma GCC unroll 3
      for (int k = 2; k >= 0; --k) {
        if ((q - k) % kStride != 0 || q < k || q - k > (kP - 1) * kStride) continue;
        acc[(q - k) / kStride] = hn::MulAdd(xv, wv[k], acc[(q - k) / kStride]);
      }
    }
  }
}

// Sums of both products of each column.
template <int kP, class V, class H>
HWY_INLINE void AddPairs(const V (&acc)[kP], H (&sums)[kP]) {
  const Whole d;
  const Half half;
#pragma GCC unroll 16
  for (int p = 0; p < kP; p += 2) {
    const V next = acc[p + 1 < kP ? p + 1 : p];
    const V two = hn::Add(hn::ConcatEven(d, next, acc[p]), hn::ConcatOdd(d, next, acc[p]));
    sums[p] = hn::LowerHalf(half, two);
    if (p + 1 < kP) sums[p + 1] = hn::UpperHalf(half, two);
  }
}

// How the positions of a line of the kernel are taken: one by one, or the three of a kernel without
// dilation together, of pixels that many apart.
enum class Taken { kOneByOne = 0, kThreeAt1 = 1, kThreeAt2 = 2 };

// acc += the products of one line of the kernel. x: the first position that the first pixel sees.
template <Taken kTaken, bool kPairs, int kNV, int kP, class D, class V = hn::Vec<D>>
HWY_INLINE void AddLine(D d, const ConvShape& s, const float* x, const float* w, int64_t position,
                        int64_t first, V (&acc)[kNV][kP]) {
  const int64_t channels = s.cin / s.groups, dilation = s.dilation[2];
  const int64_t last = first + (kP - 1) * s.stride[2];
  if constexpr (kTaken == Taken::kOneByOne) {
    const int64_t step = s.stride[2] * s.x_stride;
    const float* at[(kP + 2) / 3];
#pragma GCC unroll 6
    for (int j = 0; j < (kP + 2) / 3; ++j) at[j] = x + 3 * j * step;
    for (int64_t k = 0; k < s.kernel[2] * dilation; k += dilation, w += position) {
      const bool no_first = first + k < 0, no_last = last + k >= s.in[2];
      if (!no_first && !no_last) {
        AddPosition<kPairs, false, false>(d, at, step, channels, w, acc);
      } else if (!no_last) {
        AddPosition<kPairs, true, false>(d, at, step, channels, w, acc);
      } else if (!no_first) {
        AddPosition<kPairs, false, true>(d, at, step, channels, w, acc);
      } else if constexpr (kP > 2) {
        AddPosition<kPairs, true, true>(d, at, step, channels, w, acc);
      }
#pragma GCC unroll 6
      for (const float*& third : at) third += dilation * s.x_stride;
    }
  } else {
    constexpr int kStride = static_cast<int>(kTaken), kThirds = ((kP - 1) * kStride + 5) / 3;
    const float* at[kThirds];
#pragma GCC unroll 6
    for (int j = 0; j < kThirds; ++j) at[j] = x + 3 * j * s.x_stride;
    const bool no_first = first < 0, no_last = last + 2 >= s.in[2];
    if (!no_first && !no_last) {
      AddThree<kStride, kPairs, false, false>(d, at, s.x_stride, channels, w, acc[0]);
    } else if (!no_last) {
      AddThree<kStride, kPairs, true, false>(d, at, s.x_stride, channels, w, acc[0]);
    } else if (!no_first) {
      AddThree<kStride, kPairs, false, true>(d, at, s.x_stride, channels, w, acc[0]);
    } else {
      AddThree<kStride, kPairs, true, true>(d, at, s.x_stride, channels, w, acc[0]);
    }
  }
}

// kP neighbouring pixels of a line from `ow` on, kNV vectors of columns.
template <Taken kTaken, int kP, int kNV, bool kPairs, class D>
HWY_INLINE void Pixels(D d, const ConvShape& s, const KernelLines& lines, const Columns& columns,
                       int64_t ow, const OutputLine& to) {
  using V = hn::Vec<D>;
  const int64_t position = s.cin / s.groups * columns.count;
  const int64_t first = ow * s.stride[2] - s.pad_begin[2];
  const float* const x = columns.x + first * s.x_stride;
  V acc[kNV][kP];
#pragma GCC unroll 32
  for (int i = 0; i < kNV * kP; ++i) acc[i / kP][i % kP] = hn::Zero(d);
  for (int i = 0; i < lines.count; ++i) {
    AddLine<kTaken, kPairs>(d, s, x + lines.x[i], columns.weights + lines.w[i] * position, position,
                            first, acc);
  }
#pragma GCC unroll 2
  for (int v = 0; v < kNV; ++v) {
    if constexpr (kPairs) {
      hn::Vec<Half> sums[kP];
      AddPairs(acc[v], sums);
      FinishPixels<false>(Half(), sums, to, ow, columns.first + v * kHalf);
    } else {
      FinishPixels<false>(d, acc[v], to, ow, columns.first + v * kLanes);
    }
  }
}

// The last tile overlaps the one before.
template <Taken kTaken, int kP, int kNV, bool kPairs, class D>
HWY_NOINLINE void Tiles(D d, const ConvShape& s, const KernelLines& lines, const Columns& columns,
                        const OutputLine& to) {
  for (int64_t ow = 0; ow < s.out[2]; ow += kP) {
    Pixels<kTaken, kP, kNV, kPairs>(d, s, lines, columns, std::min(ow, s.out[2] - kP), to);
  }
}

// Three positions share what is spread where registers hold the weights of all.
Taken HowTaken(const ConvShape& s) {
  const int64_t stride = s.stride[2], last = (s.out[2] - 1) * stride - s.pad_begin[2];
  if (s.kernel[2] != 3 || s.dilation[2] != 1 || stride > 2) return Taken::kOneByOne;
  if (s.pad_begin[2] > 1 || last + 1 >= s.in[2]) return Taken::kOneByOne;
  return stride == 1 ? Taken::kThreeAt1 : Taken::kThreeAt2;
}

template <Taken kTaken, int kNV, bool kPairs, class D>
auto TilesOf(int pixels) {
  // What three positions need of registers for vectors and pointers.
  constexpr int kMost =
      kTaken == Taken::kOneByOne || (kTaken == Taken::kThreeAt1 && kLanes > kHalf) ? 14 : 8;
  switch (pixels) {
    case 14: return Tiles < kTaken, kMost < 14 ? 7 : 14, kNV, kPairs, D > ;
    case 8: return Tiles<kTaken, 8, kNV, kPairs, D>;
    case 7: return Tiles<kTaken, 7, kNV, kPairs, D>;
    case 4: return Tiles<kTaken, 4, kNV, kPairs, D>;
    default: return Tiles<kTaken, 1, kNV, kPairs, D>;
  }
}

template <int kNV, bool kPairs, class D>
void RunColumns(D d, const GroupLines& g, const KernelLines* seen, const Columns& columns) {
  const ConvShape& s = g.s;
  auto tiles = TilesOf<Taken::kOneByOne, kNV, kPairs, D>(g.tile);
  if constexpr (kNV == 1) {
    const Taken taken = HowTaken(s);
    if (taken == Taken::kThreeAt1) tiles = TilesOf<Taken::kThreeAt1, 1, kPairs, D>(g.tile);
    if (taken == Taken::kThreeAt2) tiles = TilesOf<Taken::kThreeAt2, 1, kPairs, D>(g.tile);
  }
  OutputLine to{g.epilogue, g.y, s.y_stride};
  for (int64_t oh = g.begin; oh < g.end; ++oh) {
    tiles(d, s, *seen++, columns, to);
    to.y += s.out[2] * s.y_stride;
    if (to.epilogue.residual != nullptr) {
      to.epilogue.residual += s.out[2] * to.epilogue.residual_ld;
    }
  }
}

// How many of a group's `left` columns are done at once. Two vectors, where there are registers for
// them, share what is spread.
int64_t ColumnsAtOnce(int64_t left) {
  if (kLanes > kHalf && left >= 2 * kLanes) return 2 * kLanes;
  return std::min(left, kLanes);
}
// Whether these are pairs: they are then twice as many vectors.
bool ArePairs(const ConvShape& s, int64_t columns) {
  return kLanes > kHalf && columns <= kLanes && s.cin / s.groups % 2 == 0;
}

void RunAtOnce(const GroupLines& g, const KernelLines* seen, const Columns& columns) {
  if constexpr (kLanes > kHalf) {
    const bool pairs = ArePairs(g.s, columns.count);
    if (columns.count > kLanes) return RunColumns<2, false>(Whole(), g, seen, columns);
    if (columns.count == kHalf) {
      return pairs ? RunColumns<1, true>(Whole(), g, seen, columns)
                   : RunColumns<1, false>(Half(), g, seen, columns);
    }
    if (pairs) return RunColumns<2, true>(Whole(), g, seen, columns);
  }
  RunColumns<1, false>(Whole(), g, seen, columns);
}

void Lines(const GroupLines& g) {
  const ConvShape& s = g.s;
  const int64_t channels = s.cin / s.groups, n = s.cout / s.groups, k = s.KernelSize() * channels;
  const int64_t above = g.begin * s.stride[1] - s.pad_begin[1];
  const int64_t first = std::clamp<int64_t>(above, 0, s.in[1]);
  const int64_t last = std::clamp(above + LinesSeen(s, g.end - g.begin), first, s.in[1]);
  KernelLines seen[kTogether];
  for (int64_t oh = g.begin; oh < g.end; ++oh) {
    KernelLines& lines = seen[oh - g.begin];
    lines.Find(s, g.d0, oh * s.stride[1] - s.pad_begin[1]);
    for (int i = 0; g.copied != nullptr && i < lines.count; ++i) {
      lines.x[i] -= first * s.in[2] * channels;
    }
  }
  const int64_t at_once = CopiedAtOnce(g.given), floats = (last - first) * s.in[2] * channels;
  for (int64_t group = g.group; group < g.last_group; ++group) {
    const int64_t copy = (group - g.group) % at_once;
    if (g.copied != nullptr && copy == 0) {
      const int64_t groups = std::min(at_once, g.last_group - group);
      CopyLines(g.given, g.x, group, groups, first, last, g.copied);
    }
    Columns columns{g.copied != nullptr ? g.copied + copy * floats : g.x + group * channels,
                    g.packed + group * GroupFloats(s), group * n, 0};
    for (const int64_t end = columns.first + n; columns.first < end;) {
      columns.count = ColumnsAtOnce(end - columns.first);
      RunAtOnce(g, seen, columns);
      columns.first += columns.count;
      columns.weights += columns.count * k;
    }
  }
}

// Of one group.
void PackGroup(const ConvShape& s, const float* weights, float* packed) {
  const int64_t n = s.cout / s.groups, channels = s.cin / s.groups, taps = s.KernelSize();
  for (int64_t first = 0, count; first < n; first += count) {
    count = ColumnsAtOnce(n - first);
    const int64_t together = ArePairs(s, count) ? 2 : 1;
    for (int64_t tap = 0; tap < taps; ++tap) {
      for (int64_t c = 0; c < channels; c += together) {
        for (int64_t j = first; j < first + count; ++j) {
          for (int64_t i = c; i < c + together; ++i) {
            *packed++ = weights[(j * channels + i) * taps + tap];
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Lines);
HWY_EXPORT(PackGroup);

namespace {

std::string_view Refusal(const ConvShape& s) {
  const int64_t n = s.cout / s.groups, k = s.KernelSize() * (s.cin / s.groups);
  if (s.groups == 1) return "has no groups";
  if (n % kHalf != 0) return "the channels of a group are no multiple of 8";
  if (k > kOneChain) return "sums are long";
  if (!KernelLines::Fit(s)) return "the kernel has many lines";
  const int64_t reach = (s.kernel[2] - 1) * s.dilation[2];
  const int64_t second_last = (s.out[2] - 2) * s.stride[2] - s.pad_begin[2];
  if (s.pad_begin[2] > s.stride[2] || second_last + reach >= s.in[2]) {
    return "the kernel reaches far beyond lines";
  }
  return {};
}

double Cost(const ConvShape& s) {
  const double weights = static_cast<double>(s.KernelSize() * s.cin / s.groups * s.cout) * 4;
  return ProductCost(static_cast<double>(s.Flops()) / 2, weights);
}

size_t PackedBytes(const ConvShape& s) { return AlignBytes(FloatBytes(s.groups * GroupFloats(s))); }

void Pack(const ConvShape& s, const ConvWeightRows& rows, float* packed, const Parallel& par) {
  const int64_t n = s.cout / s.groups, first = rows.first / n;
  par.For((rows.end - rows.first) / n, [&](int64_t i) {
    float* const to = packed + (first + i) * GroupFloats(s);
    HWY_DYNAMIC_DISPATCH(PackGroup)(s, rows.data + i * GroupFloats(s), to);
    ZeroSubnormals(to, GroupFloats(s));
  });
}

// Pixels of a tile with which a line takes the least time: of few each waits for its sums, of many
// that lie pages apart each drives another out of the cache, whose lines have 8 places or some more
// (ResNeXt-50, 1,024 channels with stride 2, Zen 3: 5.4 ms by tiles of 14, 2.8 by those of 7).
int TilePixels(const ConvShape& s) {
  constexpr int64_t kPage = 1024;
  const bool collide = !Copies(s) && s.stride[2] * s.x_stride % kPage == 0;
  int best = 1;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const int size : {14, 8, 7, 4, 1}) {
    if (size > s.out[2] || (collide && size > 8)) continue;
    const int64_t cost = CeilDiv(s.out[2], size) * (std::max(size, 8) + 1);
    if (cost < least) best = size, least = cost;
  }
  return best;
}

size_t CopiedBytes(const ConvShape& s) {
  if (!Copies(s)) return 0;
  const int64_t lines = std::min(s.in[1], LinesSeen(s, kTogether));
  return AlignBytes(FloatBytes(CopiedAtOnce(s) * lines * s.in[2] * (s.cin / s.groups)));
}

size_t ScratchBytes(const ConvShape& s, int threads) {
  return CopiedBytes(s) * static_cast<size_t>(ScratchSlots::CountFor(threads));
}

void Run(const ConvShape& s, const float* x, const float* packed, float* y,
         const Epilogue& epilogue, void* scratch, const Parallel& par) {
  const PreparedEpilogue prepared(epilogue);
  const double bytes = 4.0 * static_cast<double>(s.InPixels() * s.cin + s.OutPixels() * s.cout);
  const int64_t wanted = WantedTasks(static_cast<double>(s.Flops()), 0.5 * bytes);
  // Some lines of all groups, or of some where there are few lines.
  const int64_t blocks = CeilDiv(s.out[1], kTogether), all = s.batch * s.out[0] * blocks;
  const int64_t parts = std::clamp<int64_t>(CeilDiv(wanted, all), 1, s.groups);
  const int64_t tasks = std::min(wanted, all * parts), n = s.cout / s.groups;
  const int tile_pixels = TilePixels(s);
  const bool copies = Copies(s);
  ConvShape read = s;
  if (copies) read.x_stride = s.cin / s.groups;
  ScratchSlots slots(scratch, CopiedBytes(s), ScratchSlots::CountFor(par.threads));
  par.For(tasks, [&](int64_t task) {
    const ScratchSlots::Lease lease(slots);
    for (int64_t i = all * parts * task / tasks; i < all * parts * (task + 1) / tasks; ++i) {
      const int64_t part = i % parts, block = i / parts % blocks, plane = i / parts / blocks;
      const int64_t item = plane / s.out[0], od = plane % s.out[0];
      const int64_t begin = s.out[1] * block / blocks, end = s.out[1] * (block + 1) / blocks;
      const int64_t g0 = s.groups * part / parts, g1 = s.groups * (part + 1) / parts;
      const int64_t row = (plane * s.out[1] + begin) * s.out[2], rows = (end - begin) * s.out[2];
      const TileEpilogue tile = prepared.InRegisters() ? prepared.Tile(row, 0) : TileEpilogue();
      float* const first = y + row * s.y_stride;
      HWY_DYNAMIC_DISPATCH(Lines)
      ({read, s, x + item * s.in[0] * s.in[1] * s.in[2] * s.x_stride, packed,
        od * s.stride[0] - s.pad_begin[0], begin, end, g0, g1, tile_pixels, first, tile,
        copies ? lease.floats() : nullptr});
      ApplyActivation(tile.activation, first + g0 * n, s.y_stride, rows, (g1 - g0) * n);
      if (!prepared.InRegisters()) {
        prepared.Apply(first + g0 * n, s.y_stride, row, rows, g0 * n, (g1 - g0) * n);
      }
    }
  });
}

}  // namespace

const ConvMethod kConvGroups = {
    .refusal = Refusal,
    .cost = Cost,
    .packed_bytes = PackedBytes,
    .pack = Pack,
    .pack_step = [](const ConvShape& s) { return s.cout / s.groups; },
    .scratch_bytes = ScratchBytes,
    .in_place = [](const ConvShape&) { return false; },  // tiles overlap
    .by_lines = [](const ConvShape& s) { return !Copies(s); },
    .collides = Copies,
    .takes_planes = Copies,
    .run = Run};

}  // namespace sardonyx
#endif  // HWY_ONCE
