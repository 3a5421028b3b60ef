#include "kernels/conv_planes.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv_planes.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>

#include "base/round.h"
#include "kernels/chain_sums-inl.h"
#include "kernels/chains.h"
#include "kernels/gemm_epilogue.h"
#include "kernels/line_copy-inl.h"
#include "kernels/slices.h"
#include "kernels/tile_store-inl.h"

namespace sardonyx {
#ifndef SARDONYX_KERNELS_CONV_PLANES_ONCE
#define SARDONYX_KERNELS_CONV_PLANES_ONCE
// Floats of the lines of a block, in the first-level cache beside what is made of them.
inline constexpr int64_t kLineFloats = 8192;
// Planes of the input in a block. Of 5 x 5 taps they are one chain of sums.
inline constexpr int64_t kMostPlanes = 16;
static_assert(kMostPlanes * 5 * 5 <= kOneChain);

// What a window spans along an axis.
inline int64_t WindowSpan(const ConvShape& s, int axis) {
  return (s.kernel[axis] - 1) * s.dilation[axis] + 1;
}

// A window of 3 x 3 or 5 x 5 at steps of 1.
inline bool IsSquare(const ConvShape& s) {
  const auto is_one = [&](int i) { return s.stride[i] == 1 && s.dilation[i] == 1; };
  return (s.kernel[1] == 3 || s.kernel[1] == 5) && s.kernel[2] == s.kernel[1] && is_one(1) &&
         is_one(2);
}

// How planes are cut into blocks, whose input is copied with its padding: each line as one behind
// the other of its phases, the columns that are a stride apart. A window sees planes of several
// channels and depths; those that do not fit beside the others are added later. Made once a call.
struct PlaneBlocks {
  PlaneBlocks(const ConvShape& s, int64_t lanes) {
    const int64_t span = WindowSpan(s, 1), stride = s.stride[2];
    const int64_t middle = s.kernel[2] / 2 * s.dilation[2] / stride;
    if (stride <= 2) lead = RoundUp(middle, lanes) - middle;
    columns = s.out[2];
    for (;; columns = RoundUp(CeilDiv(columns, 2), lanes)) {
      vectors = columns > 2 * lanes ? 4 : columns > lanes ? 2 : 1;
      phase = lead + RoundUp(columns, vectors * lanes) + (WindowSpan(s, 2) - 1) / stride;
      if (stride <= 2 || stride == 4) phase = RoundUp(phase, lanes);
      line = phase * stride;
      if (span * line <= kLineFloats || columns <= lanes) break;
    }
    constexpr int64_t kLeastRows = 8;
    const int64_t lines_of_few = (std::min(s.out[1], kLeastRows) - 1) * s.stride[1] + span;
    const int64_t all = s.cin / s.groups * s.kernel[0];
    planes =
        std::clamp<int64_t>(kLineFloats / (line * lines_of_few), 1, std::min(all, kMostPlanes));
    planes = CeilDiv(all, CeilDiv(all, planes));
    const int64_t fitting = kLineFloats / (line * planes);
    rows = std::clamp<int64_t>((fitting - span) / s.stride[1] + 1, 1, s.out[1]);
    // Of about one size.
    rows = CeilDiv(s.out[1], CeilDiv(s.out[1], rows));
    chain = std::max<int64_t>(1, kOneChain / s.kernel[2]);
    plane = ((rows - 1) * s.stride[1] + span) * line;
    step = s.stride[1] * line;
    down = s.dilation[1] * line;
    for (int64_t kx = 0; kx < s.kernel[2]; ++kx) {
      const int64_t column = kx * s.dilation[2];
      at[kx] = column % stride * phase + lead + column / stride;
    }
  }

  int64_t lead = 0;       // floats before a phase, so that loads of a window's middle are aligned
  int64_t columns, rows;  // of outputs, at most
  int64_t planes;         // of inputs, at most
  int64_t vectors;        // of a line that are summed at a time: 1, 2 or 4
  int64_t phase, line, plane;  // floats from one to the next
  int64_t chain;  // lines of a window in one chain of sums, as long as those of products
  // Floats from the lines of a window to those of the one below, from one of its lines to the next,
  // and where in a line each of its columns is.
  int64_t step, down, at[kWidestLineWindow];
};

// A plane of the input that windows see, and where its weights begin in those of a result.
struct SeenPlane {
  const float* x;
  int64_t w;
};
struct SeenPlanes {
  int64_t count = 0;
  SeenPlane planes[kMostPlanes];
};

// Some rows of the planes that a group has at one depth.
struct PlaneRows {
  const float* x;      // of the group
  const float* w;      // of its first result
  float* y;            // of that, at this depth
  int64_t depth;       // of the input, which the first taps see
  int64_t begin, end;  // of the rows
};
#endif
}  // namespace sardonyx

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Tag()));
// Sums at a time: as many as hide how long an addition takes.
constexpr int kSums = 8;

// `count` columns as kS phases, of which the first column is at phases[0], the next at phases[1].
template <int kS>
HWY_INLINE void Separate(const float* x, int64_t count, float* const (&phases)[kS]) {
  const Tag d;
  const int64_t whole = count / kS;
  int64_t i = 0;
  if (whole >= kLanes) {
    for (int64_t next = 0; next < whole; next += kLanes) {
      i = std::min(next, whole - kLanes);
      hn::Vec<Tag> of[kS];
      if constexpr (kS == 2) hn::LoadInterleaved2(d, x + kS * i, of[0], of[1]);
      if constexpr (kS == 3) hn::LoadInterleaved3(d, x + kS * i, of[0], of[1], of[2]);
      if constexpr (kS == 4) hn::LoadInterleaved4(d, x + kS * i, of[0], of[1], of[2], of[3]);
#pragma GCC unroll 4
      for (int p = 0; p < kS; ++p) hn::StoreU(of[p], d, phases[p] + i);
    }
    i = whole;
  }
  for (int64_t c = i * kS; c < count; ++c) phases[c % kS][c / kS] = x[c];
}

// As FillLine, of phases: columns [low, high) of the line are those at x. It goes from the input to
// the phases at once, for what has just been stored is slow to load.
template <int kS>
HWY_INLINE void FillPhases(const float* x, int64_t low, int64_t high, const PlaneBlocks& blocks,
                           float* to) {
  float* phases[kS];
#pragma GCC unroll 4
  for (int p = 0; p < kS; ++p) {  // the phase of the column that is p behind the first
    const int64_t column = low + p, phase = column % kS;
    phases[p] = to + phase * blocks.phase + column / kS;
  }
  for (int p = 0; p < kS; ++p) {
    float* const phase = to + p * blocks.phase;
    ClearLine(phase, phase + (low - p + kS - 1) / kS);
    ClearLine(phase + std::max<int64_t>(0, high - p + kS - 1) / kS,
              phase + blocks.phase - blocks.lead);
  }
  Separate<kS>(x, high - low, phases);
}

// One line of the input from column `start` on, which may lie in the padding: `count` columns as
// phases of the stride. Without `x` all are zeros.
HWY_INLINE void FillLine(const ConvShape& s, const float* x, int64_t start, int64_t count,
                         const PlaneBlocks& blocks, float* straight, float* to) {
  const int64_t stride = s.stride[2];
  if (x == nullptr) return ClearLine(to, to + blocks.line);
  const int64_t low = std::clamp<int64_t>(-start, 0, count);
  const int64_t high = std::clamp<int64_t>(s.in[2] - start, low, count);
  to += blocks.lead;
  x += start + low;
  if (stride == 2) return FillPhases<2>(x, low, high, blocks, to);
  if (stride == 3) return FillPhases<3>(x, low, high, blocks, to);
  if (stride == 4) return FillPhases<4>(x, low, high, blocks, to);
  float* const line = stride == 1 ? to : straight;
  CopyPadded(x, low, high, line, line + blocks.line - blocks.lead * stride);
  if (stride == 1) return;
  for (int64_t i = 0; i < count; ++i) to[i % stride * blocks.phase + i / stride] = line[i];
}

// Where sums go: the `columns` first of lines that are `ld` floats apart, added to what is there if
// planes have been summed before.
struct SumLines {
  float* y;
  int64_t ld, columns;
  bool accumulate;
};

template <int kR, int kV>
HWY_INLINE void StoreLines(const hn::Vec<Tag> (&acc)[kR][kV], const SumLines& to) {
  const Tag d;
  float* y = to.y;
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r, y += to.ld) {
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) {
      const int64_t left = to.columns - v * kLanes;
      float* const at = y + v * kLanes;
      if (left >= kLanes) {
        hn::StoreU(to.accumulate ? hn::Add(hn::LoadU(d, at), acc[r][v]) : acc[r][v], d, at);
      } else if (left > 0 && kPartialStores) {
        const auto part = hn::FirstN(d, static_cast<size_t>(left));
        const auto before = hn::MaskedLoad(part, d, at);
        hn::BlendedStore(to.accumulate ? hn::Add(before, acc[r][v]) : acc[r][v], part, d, at);
      } else if (left > 0) {
        HWY_ALIGN float part[kLanes];
        hn::Store(acc[r][v], d, part);
        for (int64_t i = 0; i < left; ++i) at[i] = to.accumulate ? at[i] + part[i] : part[i];
      }
    }
  }
}

// kR lines of kV vectors: the sums of windows over the planes seen, whose first lines begin at
// `lines` in the first plane.
template <int kR, int kV>
HWY_NOINLINE void SumWindows(const ConvShape& s, const PlaneBlocks& blocks, const SeenPlanes& seen,
                             const float* lines, const float* weights, const SumLines& to) {
  const Tag d;
  const int64_t width = s.kernel[2], step = blocks.step;
  hn::Vec<Tag> acc[kR][kV];
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) acc[r][v] = hn::Zero(d);
  }
  ChainSums<kR, kV, Tag> chains;
  int64_t left = blocks.chain;
  for (int64_t plane = 0; plane < seen.count; ++plane, lines += blocks.plane) {
    const float* w = weights + seen.planes[plane].w;
    const float* line = lines;
    for (int64_t ky = 0; ky < s.kernel[1]; ++ky, line += blocks.down, w += width) {
      if (left-- == 0) {
        chains.End(d, acc);
        left = blocks.chain - 1;
      }
      int64_t piece = kOneChain;  // of a line that is longer
      for (int64_t kx = 0; kx < width; ++kx) {
        if (kx == piece) {
          chains.End(d, acc);
          piece += kOneChain;
        }
        const float* from = line + blocks.at[kx];
        const auto weight = hn::Set(d, w[kx]);
#pragma GCC unroll 8
        for (int r = 0; r < kR; ++r, from += step) {
#pragma GCC unroll 4
          for (int v = 0; v < kV; ++v) {
            acc[r][v] = hn::MulAdd(weight, hn::LoadU(d, from + v * kLanes), acc[r][v]);
          }
        }
      }
    }
  }
  chains.AddTo(d, acc);
  StoreLines(acc, to);
}

#if HWY_TARGET == HWY_AVX3
// As SumWindows, of a window of kK x kK steps of 1: what is loaded of a line serves all windows
// that it lies in. To load it for each takes longer than the products, for most vectors begin
// within a line of the cache and end in the next. (Of 16 registers there are too few for it: with
// AVX2 1.1 of the time of some.)
template <int kR, int kV, int kK>
HWY_NOINLINE void SumSquares(const ConvShape&, const PlaneBlocks& blocks, const SeenPlanes& seen,
                             const float* lines, const float* weights, const SumLines& to) {
  const Tag d;
  hn::Vec<Tag> acc[kR][kV];
#pragma GCC unroll 8
  for (int i = 0; i < kR * kV; ++i) acc[i / kV][i % kV] = hn::Zero(d);
  lines += blocks.at[0];
  for (int64_t plane = 0; plane < seen.count; ++plane, lines += blocks.plane) {
    const float* const w = weights + seen.planes[plane].w;
    const float* from = lines;
#pragma GCC unroll 12
    for (int line = 0; line < kR + kK - 1; ++line, from = Kept(from + blocks.line)) {
#pragma GCC unroll 5
      for (int kx = 0; kx < kK; ++kx) {
#pragma GCC unroll 2
        for (int v = 0; v < kV; ++v) {
          auto values = hn::LoadU(d, from + kx + v * kLanes);
          asm("" : "+v"(values.raw));  // the compiler would load it for each product again
#pragma GCC unroll 8
          for (int r = 0; r < kR; ++r) {
            const int ky = line - r;
            if (ky < 0 || ky >= kK) continue;
            acc[r][v] = hn::MulAdd(hn::Set(d, w[ky * kK + kx]), values, acc[r][v]);
          }
        }
      }
    }
  }
  StoreLines(acc, to);
}
#endif

#if HWY_TARGET != HWY_AVX3
// As SumWindows, a line of kR results: what is loaded of the input serves them all. Results of one
// alone take longer to load than to multiply, for most vectors begin within a line of the cache and
// end in the next. The products of a sum are one chain.
template <int kR, int kV>
HWY_NOINLINE void SumResults(const ConvShape& s, const PlaneBlocks& blocks, const SeenPlanes& seen,
                             const float* lines, const float* weights, int64_t weights_step,
                             const SumLines& to) {
  const Tag d;
  constexpr int64_t kWidth = kV * kLanes;
  for (int64_t c = 0; c < to.columns; c += kWidth) {
    hn::Vec<Tag> acc[kR][kV];
#pragma GCC unroll 8
    for (int i = 0; i < kR * kV; ++i) acc[i / kV][i % kV] = hn::Zero(d);
    for (int64_t plane = 0; plane < seen.count; ++plane) {
      const float* w = weights + seen.planes[plane].w;
      const float* line = lines + plane * blocks.plane + c;
      for (int64_t ky = 0; ky < s.kernel[1]; ++ky, line += blocks.down) {
        for (int64_t kx = 0; kx < s.kernel[2]; ++kx, ++w) {
          const float* const from = line + blocks.at[kx];
          hn::Vec<Tag> x[kV];
#pragma GCC unroll 4
          for (int v = 0; v < kV; ++v) x[v] = hn::LoadU(d, from + v * kLanes);
#pragma GCC unroll 8
          for (int r = 0; r < kR; ++r) {
            const auto weight = hn::Set(d, w[r * weights_step]);
#pragma GCC unroll 4
            for (int v = 0; v < kV; ++v) acc[r][v] = hn::MulAdd(weight, x[v], acc[r][v]);
          }
        }
      }
    }
    StoreLines(acc, {to.y + c, to.ld, to.columns - c, to.accumulate});
  }
}
#endif

using Summing = void (*)(const ConvShape&, const PlaneBlocks&, const SeenPlanes&, const float*,
                         const float*, const SumLines&);

// The sums of a block's windows: by vectors of a line and lines, both as powers of 2.
struct Summings {
  explicit Summings(const ConvShape& s, const PlaneBlocks& blocks) : vectors(blocks.vectors) {
    static constexpr Summing kSummings[3][4] = {
        {SumWindows<1, 1>, SumWindows<2, 1>, SumWindows<4, 1>, SumWindows<8, 1>},
        {SumWindows<1, 2>, SumWindows<2, 2>, SumWindows<4, 2>},
        {SumWindows<1, 4>, SumWindows<2, 4>}};
#if HWY_TARGET == HWY_AVX3
    if (IsSquare(s)) {
      static constexpr Summing kSquares[2][2] = {{SumSquares<8, 1, 3>, SumSquares<4, 2, 3>},
                                                 {SumSquares<8, 1, 5>, SumSquares<4, 2, 5>}};
      vectors = std::min<int64_t>(vectors, 2);
      full = kSquares[s.kernel[1] / 4][vectors - 1];
    }
#else
    static_cast<void>(s);
#endif
    of_lines = kSummings[vectors / 2];
  }
  Summing Of(int64_t power) const {
    return full != nullptr && (vectors << power) == kSums ? full : of_lines[power];
  }

  int64_t vectors;
  const Summing* of_lines;
  Summing full = nullptr;  // makes kSums sums at a time, if windows are such
};

// Planes [first, ...) of those that windows see, as many as a block holds: of channel after channel
// the depths that lie inside of the input, `count` from kernel position `kd` on.
SeenPlanes See(const ConvShape& s, const PlaneBlocks& blocks, const PlaneRows& rows, int64_t kd,
               int64_t count, int64_t first) {
  const int64_t plane = s.in[1] * s.in[2], taps = s.kernel[1] * s.kernel[2];
  const int64_t end = std::min(first + blocks.planes, s.cin / s.groups * count);
  SeenPlanes seen;
  for (int64_t i = first; i < end; ++i) {
    const int64_t channel = i / count, tap = kd + i % count;
    const int64_t depth = rows.depth + tap * s.dilation[0];
    seen.planes[seen.count++] = {rows.x + (channel * s.in[0] + depth) * plane,
                                 (channel * s.kernel[0] + tap) * taps};
  }
  return seen;
}

void Rows(const ConvShape& s, const PlaneBlocks& blocks, const PlaneRows& rows) {
  const Summings summings(s, blocks);
  constexpr int64_t kSlack = 4 * kLanes;
  HWY_ALIGN float lines[kLineFloats + kSlack], straight[kLineFloats + kSlack];
  const int64_t width = summings.vectors * kLanes, count = rows.end - rows.begin;
  const int64_t first_line = rows.begin * s.stride[1] - s.pad_begin[1];
  const int64_t line_count = (count - 1) * s.stride[1] + WindowSpan(s, 1);
  // Kernel positions [kd, kd + depths) lie inside.
  int64_t kd = 0, depths = 0;
  for (int64_t tap = s.kernel[0] - 1; tap >= 0; --tap) {
    const int64_t depth = rows.depth + tap * s.dilation[0];
    if (depth >= 0 && depth < s.in[0]) kd = tap, ++depths;
  }
  const int64_t planes = s.cin / s.groups * depths, results = s.cout / s.groups;
  const int64_t weights_step = s.cin / s.groups * s.KernelSize();
  const int64_t result_step = s.out[0] * s.out[1] * s.out[2];
  [[maybe_unused]] const int64_t taps = s.kernel[1] * s.kernel[2];
  for (int64_t column = 0; column < s.out[2]; column += blocks.columns) {
    const int64_t columns = std::min(blocks.columns, s.out[2] - column);
    const int64_t start = column * s.stride[2] - s.pad_begin[2];
    const int64_t needed = (columns - 1) * s.stride[2] + WindowSpan(s, 2);
    for (int64_t first = 0; first == 0 || first < planes; first += blocks.planes) {
      const SeenPlanes seen = See(s, blocks, rows, kd, depths, first);
      for (int64_t plane = 0; plane < seen.count; ++plane) {
        float* const to = lines + plane * blocks.plane;
        for (int64_t i = 0; i < line_count; ++i) {
          const int64_t at = first_line + i;
          const bool inside = at >= 0 && at < s.in[1];
          FillLine(s, inside ? seen.planes[plane].x + at * s.in[2] : nullptr, start, needed, blocks,
                   straight, to + i * blocks.line);
        }
      }
      const auto weights_of = [&](int64_t result) { return rows.w + result * weights_step; };
      const auto result_at = [&](int64_t result) {
        return rows.y + result * result_step + rows.begin * s.out[2] + column;
      };
      int64_t result = 0;
#if HWY_TARGET != HWY_AVX3
      constexpr int64_t kTogether = 4;
      const bool together = blocks.vectors > 1 && seen.count * taps <= kOneChain;
      for (; together && result + kTogether <= results; result += kTogether) {
        for (int64_t row = 0; row < count; ++row) {
          SumResults<kTogether, 2>(
              s, blocks, seen, lines + row * blocks.step, weights_of(result), weights_step,
              {result_at(result) + row * s.out[2], result_step, columns, first > 0});
        }
      }
#endif
      for (; result < results; ++result) {
        const float* const w = weights_of(result);
        float* y = result_at(result);
        int64_t power = 3;
        for (int64_t row = 0; row < count;) {
          while ((int64_t{1} << power) > std::min(count - row, kSums / summings.vectors)) --power;
          const float* const from = lines + row * blocks.step;
          for (int64_t c = 0; c < columns; c += width) {
            summings.Of(power)(s, blocks, seen, from + c, w,
                               {y + c, s.out[2], columns - c, first > 0});
          }
          row += int64_t{1} << power;
          y += s.out[2] << power;
        }
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

HWY_EXPORT(Rows);
HWY_EXPORT(LanesOf);

namespace {

// One axis has a window alone, so the two behind it are one.
ConvShape Flattened(ConvShape s) {
  const auto is_whole = [&](int i) {
    return s.kernel[i] == 1 && s.stride[i] == 1 && s.pad_begin[i] == 0 && s.in[i] == s.out[i];
  };
  if (!is_whole(1) || !is_whole(2) || s.kernel[0] == 1) return s;
  const int64_t in = s.in[1] * s.in[2], out = s.out[1] * s.out[2];
  for (auto* field : {s.in, s.out, s.kernel, s.stride, s.dilation, s.pad_begin}) {
    field[2] = field[1];  // both 1, but for sizes
    field[1] = field[0];
  }
  s.in[0] = s.out[0] = s.kernel[0] = s.stride[0] = s.dilation[0] = 1;
  s.pad_begin[0] = 0;
  s.in[2] = in;
  s.out[2] = out;
  return s;
}

std::string_view RefusalOf(const ConvShape& s) {
  for (int i = 1; i < 3; ++i) {
    const bool of_line = i == 2 && s.kernel[1] == 1;
    const bool of_column = i == 1 && s.kernel[2] == 1;
    const int64_t widest = of_line     ? kWidestLineWindow
                           : of_column ? kTallestColumnWindow
                                       : kWidestPlaneWindow;
    const bool is_wide = s.kernel[i] > 1 && s.dilation[i] > widest;
    if (is_wide || s.kernel[i] > widest || WindowSpan(s, i) > widest) return "its window is wide";
    if (s.stride[i] > (of_line ? kLongestLineStride : kLongestPlaneStride)) {
      return "its stride is long";
    }
  }
  return "";
}

}  // namespace

std::string_view ConvPlanesRefusal(const ConvShape& s) { return RefusalOf(Flattened(s)); }

void ConvPlanes(const ConvShape& shape, const float* x, const float* weights, float* y,
                const Epilogue& epilogue, const Parallel& par) {
  const ConvShape s = Flattened(shape);
  const PreparedEpilogue prepared(epilogue, PreparedEpilogue::Tiles::kNone);
  const PlaneBlocks blocks(s, HWY_DYNAMIC_DISPATCH(LanesOf)());
  const int64_t line = s.out[2], plane = s.out[1] * line, out = s.out[0] * plane;
  const int64_t channels = s.cin / s.groups, results = s.cout / s.groups;
  const int64_t in = channels * s.in[0] * s.in[1] * s.in[2], taps = channels * s.KernelSize();
  const int64_t parts = CeilDiv(s.out[1], blocks.rows);
  const int64_t count = s.batch * s.groups * s.out[0] * parts;
  const int64_t vectors = (results * taps + channels * s.kernel[0] + 7 * results) / 8 + 1;
  const Slices slices = Slice(count, blocks.rows * line * vectors + 50);
  par.For(slices.tasks, [&](int64_t task) {
    for (int64_t i = slices.Begin(task); i < slices.End(task, count); ++i) {
      const int64_t begin = i % parts * blocks.rows, end = std::min(s.out[1], begin + blocks.rows);
      const int64_t depth = i / parts % s.out[0], group = i / parts / s.out[0];  // of all items
      const int64_t channel = group % s.groups * results, row = depth * plane + begin * line;
      float* const to = y + group * results * out;
      HWY_DYNAMIC_DISPATCH(Rows)
      (s, blocks,
       {x + group * in, weights + channel * taps, to + depth * plane,
        depth * s.stride[0] - s.pad_begin[0], begin, end});
      prepared.Apply(to + row, out, channel, results, row, (end - begin) * line, group / s.groups);
    }
  });
}

}  // namespace sardonyx
#endif  // HWY_ONCE
