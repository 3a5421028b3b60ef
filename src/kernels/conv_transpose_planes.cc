// Output columns of the same remainder modulo the stride, a phase, see neighbouring columns of the
// input through the same taps: vectors sum a phase, and phases are then put between each other.

#include "kernels/conv_transpose_planes.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv_transpose_planes.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <numeric>

#include "base/round.h"
#include "kernels/chains.h"
#include "kernels/conv_internal.h"
#include "kernels/gemm_epilogue.h"
#include "kernels/line_copy-inl.h"
#include "kernels/slices.h"
#include "kernels/transpose.h"

namespace sardonyx {
#ifndef SARDONYX_KERNELS_CONV_TRANSPOSE_PLANES_ONCE
#define SARDONYX_KERNELS_CONV_TRANSPOSE_PLANES_ONCE
// Floats of the lines that a line of the output sees, and of its phases: in the first-level cache.
inline constexpr int64_t kSeenFloats = 8192, kPhaseFloats = 4096;
inline constexpr int64_t kMostTaps = 128, kMostPhases = 64, kMostLines = 64;
// Columns of a phase at least, for which a line is cut.
inline constexpr int64_t kLeastColumns = 64;

// The taps of an output line, ordered by their phases, and blocks of lines, whose input is copied
// with its padding. Made once a call.
struct PhaseTaps {
  PhaseTaps(const ConvShape& s, int64_t lanes) {
    const int64_t stride = s.stride[2];
    int64_t most = 0;
    for (int64_t phase = 0; phase < stride; ++phase) {
      begin[phase] = count;
      for (int64_t tap = 0; tap < s.kernel[2]; ++tap) {
        const int64_t scaled = phase + s.pad_begin[2] - tap * s.dilation[2];
        if (scaled % stride != 0) continue;
        taps[count] = tap;
        shifts[count] = scaled / stride;
        least = count == 0 ? shifts[0] : std::min(least, shifts[count]);
        most = count == 0 ? shifts[0] : std::max(most, shifts[count]);
        ++count;
      }
    }
    begin[stride] = count;
    span = most - least;
    // Of the first axis only the taps of one remainder are seen.
    const int64_t apart = s.stride[0] / std::gcd(s.stride[0], s.dilation[0]);
    const int64_t planes = s.cin / s.groups * CeilDiv(s.kernel[0], apart);
    const int64_t reach = (s.kernel[1] - 1) * s.dilation[1] / s.stride[1] + 1;
    lines = planes * reach;
    const int64_t all = CeilDiv(s.out[2], stride),
                  of_one = kSeenFloats / std::max<int64_t>(lines, 1);
    columns = std::min({of_one - span - lanes, kPhaseFloats / stride, RoundUp(all, lanes)});
    columns = std::max(columns / lanes * lanes, lanes);
    const int64_t fitting = kSeenFloats / (std::max<int64_t>(planes, 1) * (columns + span));
    rows = std::clamp<int64_t>((fitting - reach) * s.stride[1] + 1, 1, s.out[1]);
    rows = CeilDiv(s.out[1], CeilDiv(s.out[1], rows));
  }

  int64_t count = 0;
  int64_t begin[kMostPhases + 1], taps[kMostTaps];
  int64_t shifts[kMostTaps];    // from a column of a phase to that of the input
  int64_t least = 0, span = 0;  // of the shifts
  int64_t lines;                // of the input that one of the output spans, at most
  int64_t columns, rows;        // of a phase, and lines of the output, that are made together
};

// Lines [begin, end) of the planes that a group has at one depth.
struct TransposedLines {
  const float* x;  // of the group
  const float* w;
  float* y;  // of its first result, at this depth
  int64_t depth, begin, end;
};

// A plane of the input that these see, or a line of it, and where its weights begin in those of a
// result.
struct SeenInput {
  const float* x;
  int64_t w;
};
#endif
}  // namespace sardonyx

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Tag()));
constexpr int64_t kSlack = 4 * kLanes;

// The planes that `lines` see.
int64_t SeePlanes(const ConvShape& s, const TransposedLines& lines, SeenInput* planes) {
  const int64_t channels = s.cin / s.groups, taps = s.kernel[1] * s.kernel[2];
  int64_t count = 0;
  for (int64_t kd = 0; kd < s.kernel[0]; ++kd) {
    const int64_t depth = TransposedSource(s, 0, lines.depth, kd);
    for (int64_t c = 0; depth >= 0 && c < channels; ++c) {
      planes[count++] = {lines.x + (c * s.in[0] + depth) * s.in[1] * s.in[2],
                         c * (s.cout / s.groups) * s.KernelSize() + kd * taps};
    }
  }
  return count;
}

// to[0:count] = the line from column `start` on, zeros beyond its ends and perhaps a vector
// further.
HWY_INLINE void Fill(const float* x, int64_t in, int64_t start, int64_t count, float* to) {
  const int64_t low = std::clamp<int64_t>(-start, 0, count);
  const int64_t high = std::clamp<int64_t>(in - start, low, count);
  CopyPadded(x + start + low, low, high, to, to + count);
}

// kV vectors of each of kP phases of as many taps, `ld` floats apart, from `column` on.
template <int kP, int kV>
HWY_INLINE void SumPhases(const PhaseTaps& taps, int64_t phase, const SeenInput* seen,
                          int64_t lines, int64_t column, const float* w, float* to, int64_t ld) {
  const Tag d;
  hn::Vec<Tag> acc[kP][kV];
#pragma GCC unroll 4
  for (int i = 0; i < kP * kV; ++i) acc[i / kV][i % kV] = hn::Zero(d);
  const int64_t begin = taps.begin[phase], count = taps.begin[phase + 1] - begin;
  for (int64_t line = 0; line < lines; ++line) {
    const float* const of_line = w + seen[line].w;
    const float* const from = seen[line].x + column - taps.least;
    for (int64_t i = begin; i < begin + count; ++i) {
#pragma GCC unroll 4
      for (int p = 0; p < kP; ++p) {
        const auto weight = hn::Set(d, of_line[taps.taps[i + p * count]]);
        const float* const x = from + taps.shifts[i + p * count];
#pragma GCC unroll 4
        for (int v = 0; v < kV; ++v) {
          acc[p][v] = hn::MulAdd(weight, hn::LoadU(d, x + v * kLanes), acc[p][v]);
        }
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kP * kV; ++i) {
    hn::StoreU(acc[i / kV][i % kV], d, to + i / kV * ld + i % kV * kLanes);
  }
}

// Of so many phases from `phase` on; four sums at a time hide how long an addition takes.
template <int kP>
HWY_NOINLINE void SumLines(const PhaseTaps& taps, int64_t phase, const SeenInput* seen,
                           int64_t lines, const float* w, float* to, int64_t ld) {
  constexpr int kV = 4 / kP;
  int64_t j = 0;
  for (; j + kV * kLanes <= ld; j += kV * kLanes) {
    SumPhases<kP, kV>(taps, phase, seen, lines, j, w, to + j, ld);
  }
  for (; j < ld; j += kLanes) SumPhases<kP, 1>(taps, phase, seen, lines, j, w, to + j, ld);
}

// How many phases from `phase` on, 4 or 2 or 1, are summed at a time: of as many taps each, where
// lines are short.
int64_t PhasesTogether(const PhaseTaps& taps, int64_t phase, int64_t stride, int64_t ld) {
  const auto of = [&](int64_t p) { return taps.begin[p + 1] - taps.begin[p]; };
  int64_t together = ld < 2 * kLanes ? 4 : ld < 4 * kLanes ? 2 : 1;
  for (; together > 1; together /= 2) {
    bool same = phase + together <= stride;
    for (int64_t p = 1; same && p < together; ++p) same = of(phase + p) == of(phase);
    if (same) break;
  }
  return together;
}

// to[j * stride + p] = phases[p * ld + j], whole vectors of j.
void Interleave(const float* phases, int64_t ld, int64_t stride, int64_t columns, float* to) {
  const Tag d;
  if (stride > 4) return TransposeMatrix(phases, ld, to, stride, columns, stride, sizeof(float));
  for (int64_t j = 0; j < columns; j += kLanes, phases += kLanes, to += stride * kLanes) {
    const auto of = [&](int64_t p) HWY_ATTR { return hn::LoadU(d, phases + p * ld); };
    if (stride == 2) hn::StoreInterleaved2(of(0), of(1), d, to);
    if (stride == 3) hn::StoreInterleaved3(of(0), of(1), of(2), d, to);
    if (stride == 4) hn::StoreInterleaved4(of(0), of(1), of(2), of(3), d, to);
  }
}

void Lines(const ConvShape& s, const PhaseTaps& taps, const TransposedLines& lines) {
  HWY_ALIGN float copied[kSeenFloats + kSlack], phases[kPhaseFloats + kSlack];
  HWY_ALIGN float made[kPhaseFloats + kMostPhases * kLanes];
  SeenInput planes[kMostLines], seen[kMostLines];
  const int64_t plane_count = SeePlanes(s, lines, planes), stride = s.stride[2];
  // The lines of the input, [top, bottom).
  const int64_t first_reach = lines.begin + s.pad_begin[1] - (s.kernel[1] - 1) * s.dilation[1];
  const int64_t top = first_reach <= 0 ? 0 : CeilDiv(first_reach, s.stride[1]);
  const int64_t last_reach = lines.end - 1 + s.pad_begin[1];
  const int64_t bottom = last_reach < 0 ? 0 : std::min(s.in[1], last_reach / s.stride[1] + 1);
  const int64_t all = CeilDiv(s.out[2], stride);
  for (int64_t first = 0; first < all; first += taps.columns) {
    const int64_t count = std::min(taps.columns, all - first), ld = RoundUp(count, kLanes);
    const int64_t needed = ld + taps.span;
    float* to = copied;
    for (int64_t i = 0; i < plane_count; ++i) {
      for (int64_t h = top; h < bottom; ++h, to += needed) {
        Fill(planes[i].x + h * s.in[2], s.in[2], first + taps.least, needed, to);
      }
    }
    const int64_t outputs = std::min(count * stride, s.out[2] - first * stride);
    for (int64_t row = lines.begin; row < lines.end; ++row) {
      int64_t seen_count = 0;
      for (int64_t kh = 0; kh < s.kernel[1]; ++kh) {
        const int64_t h = TransposedSource(s, 1, row, kh);
        for (int64_t i = 0; h >= 0 && i < plane_count; ++i) {
          seen[seen_count++] = {copied + (i * (bottom - top) + h - top) * needed,
                                planes[i].w + kh * s.kernel[2]};
        }
      }
      for (int64_t result = 0; result < s.cout / s.groups; ++result) {
        const float* const w = lines.w + result * s.KernelSize();
        for (int64_t phase = 0; phase < stride;) {
          const int64_t of = PhasesTogether(taps, phase, stride, ld);
          (of == 4   ? SumLines<4>
           : of == 2 ? SumLines<2>
                     : SumLines<1>)(taps, phase, seen, seen_count, w, phases + phase * ld, ld);
          phase += of;
        }
        if (stride > 1) Interleave(phases, ld, stride, count, made);
        const int64_t line = result * s.out[0] * s.out[1] + row;
        CopyLine(stride > 1 ? made : phases, outputs, lines.y + line * s.out[2] + first * stride);
      }
    }
  }
}

int64_t LanesOf() { return kLanes; }

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Lines);
HWY_EXPORT(LanesOf);

std::string_view ConvTransposePlanesRefusal(const ConvShape& s) {
  if (s.kernel[2] > kMostTaps) return "its window is wide";
  if (s.stride[2] > kMostPhases) return "its stride is long";
  const PhaseTaps taps(s, HWY_DYNAMIC_DISPATCH(LanesOf)());
  if (taps.lines > kMostLines) return "windows see many lines";
  if (kSeenFloats / std::max<int64_t>(taps.lines, 1) < taps.span + 2 * kLeastColumns) {
    return "its window is wide";
  }
  if (taps.lines * CeilDiv(s.kernel[2], s.stride[2]) > kOneChain) return "sums are long";
  return "";
}

void ConvTransposePlanes(const ConvShape& s, const float* x, const float* weights, float* y,
                         const Epilogue& epilogue, const Parallel& par) {
  const PreparedEpilogue prepared(epilogue, PreparedEpilogue::Tiles::kNone);
  const PhaseTaps taps(s, HWY_DYNAMIC_DISPATCH(LanesOf)());
  const int64_t channels = s.cin / s.groups, results = s.cout / s.groups;
  const int64_t in = s.in[0] * s.in[1] * s.in[2], line = s.out[2], plane = s.out[1] * line;
  const int64_t out = s.out[0] * plane, parts = CeilDiv(s.out[1], taps.rows);
  const int64_t count = s.batch * s.groups * s.out[0] * parts;
  const int64_t products = taps.lines * CeilDiv(s.kernel[2], s.stride[2]);
  const Slices slices = Slice(count, taps.rows * line * results * (products / 8 + 2) + 50);
  par.For(slices.tasks, [&](int64_t task) {
    for (int64_t i = slices.Begin(task); i < slices.End(task, count); ++i) {
      const int64_t begin = i % parts * taps.rows, end = std::min(s.out[1], begin + taps.rows);
      const int64_t depth = i / parts % s.out[0], group = i / parts / s.out[0];  // of all items
      const int64_t channel = group % s.groups * results, first = depth * plane + begin * line;
      float* const to = y + group * results * out;
      HWY_DYNAMIC_DISPATCH(Lines)
      (s, taps,
       {x + group * channels * in, weights + channel * channels * s.KernelSize(),
        to + depth * plane, depth, begin, end});
      prepared.Apply(to + first, out, channel, results, first, (end - begin) * line,
                     group / s.groups);
    }
  });
}

}  // namespace sardonyx
#endif  // HWY_ONCE
