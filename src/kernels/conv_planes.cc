#include "kernels/conv_planes.h"

#include "kernels/conv_planes_blocks.h"
#include "kernels/conv_planes_pointwise.h"
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
                         const PlaneBlocks& blocks, float* to) {
  const int64_t stride = s.stride[2];
  if (x == nullptr) return ClearLine(to, to + blocks.line);
  const int64_t low = std::clamp<int64_t>(-start, 0, count);
  const int64_t high = std::clamp<int64_t>(s.in[2] - start, low, count);
  to += blocks.lead;
  x += start + low;
  if (stride == 2) return FillPhases<2>(x, low, high, blocks, to);
  if (stride == 3) return FillPhases<3>(x, low, high, blocks, to);
  if (stride == 4) return FillPhases<4>(x, low, high, blocks, to);
  HWY_ALIGN float straight[kLineFloats + 4 * kLanes];
  float* const line = stride == 1 ? to : straight;
  CopyPadded(x, low, high, line, line + blocks.line - blocks.lead * stride);
  if (stride == 1) return;
  for (int64_t phase = 0; phase < stride; ++phase, to += blocks.phase) {
    float* next = to;
    for (int64_t i = phase; i < count; i += stride) *next++ = line[i];
  }
}

// Where sums go: the `columns` first of lines that are `ld` floats apart, added to what is there if
// planes have been summed before. Behind the last planes `end` is what is left to do with them, its
// residual one value a result, else null.
struct SumLines {
  float* y;
  int64_t ld, columns;
  bool accumulate;
  const TileEpilogue* end;
  // Vectors are of one line, or, where a line is one, of lines below each other: these are so many
  // floats apart.
  int64_t below = 0;

  int64_t Next() const { return below > 0 ? below : kLanes; }
  int64_t Left(int64_t vector) const { return columns - (below > 0 ? 0 : vector * kLanes); }
};

// `step` is 1 if lines are of results one behind the other, 0 if they are of one.
template <int kR, int kV>
HWY_INLINE void Finish(hn::Vec<Tag> (&acc)[kR][kV], const TileEpilogue& end, int64_t step) {
  const Tag d;
  if (const float* addend = end.residual; addend != nullptr) {
#pragma GCC unroll 8
    for (int r = 0; r < kR; ++r, addend += step * end.residual_ld) {
      const auto value = hn::Set(d, *addend);
#pragma GCC unroll 4
      for (int v = 0; v < kV; ++v) acc[r][v] = hn::Add(acc[r][v], value);
    }
  }
  if (!end.clamp) return;
  const auto lo = hn::Set(d, end.lo), hi = hn::Set(d, end.hi);
#pragma GCC unroll 32
  for (int i = 0; i < kR * kV; ++i) {
    auto& value = acc[i / kV][i % kV];
    value = AtMost(d, hi, AtLeast(d, lo, value));
  }
}

// kPart: the last vector or more reach beyond the columns.
template <bool kPart, int kR, int kV>
HWY_INLINE void StoreLinesOf(hn::Vec<Tag> (&acc)[kR][kV], const SumLines& to, int64_t step) {
  const Tag d;
  if (to.accumulate) {
    const float* y = to.y;
#pragma GCC unroll 8
    for (int r = 0; r < kR; ++r, y += to.ld) {
#pragma GCC unroll 4
      for (int v = 0; v < kV; ++v) {
        const int64_t left = kPart ? to.Left(v) : kLanes;
        const float* const at = y + v * to.Next();
        if (left >= kLanes) {
          acc[r][v] = hn::Add(acc[r][v], hn::LoadU(d, at));
        } else if (left > 0) {
          acc[r][v] = hn::Add(acc[r][v], LoadPart(d, at, left));
        }
      }
    }
  }
  if (to.end != nullptr) Finish(acc, *to.end, step);
  float* y = to.y;
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r, y += to.ld) {
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) {
      const int64_t left = kPart ? to.Left(v) : kLanes;
      float* const at = y + v * to.Next();
      if (left >= kLanes) {
        hn::StoreU(acc[r][v], d, at);
      } else if (left > 0) {
        StorePart(acc[r][v], d, at, left);
      }
    }
  }
}

template <int kR, int kV>
HWY_INLINE void StoreLines(hn::Vec<Tag> (&acc)[kR][kV], const SumLines& to, int64_t step) {
  to.Left(kV - 1) >= kLanes ? StoreLinesOf<false>(acc, to, step)
                            : StoreLinesOf<true>(acc, to, step);
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
  StoreLines(acc, to, 0);
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
  StoreLines(acc, to, 0);
}
#endif

// As SumWindows, of a line of kR results: what is loaded of the input serves them all. Results of
// one alone take longer to load than to multiply, for most vectors begin within a line of the cache
// and end in the next. The products of a sum are one chain.
template <int kR, int kV>
HWY_NOINLINE void SumResults(const ConvShape& s, const PlaneBlocks& blocks, const SeenPlanes& seen,
                             const float* lines, const float* weights, int64_t weights_step,
                             const SumLines& to) {
  const Tag d;
  const int64_t next = to.below > 0 ? blocks.step : kLanes;
  hn::Vec<Tag> acc[kR][kV];
#pragma GCC unroll 32
  for (int i = 0; i < kR * kV; ++i) acc[i / kV][i % kV] = hn::Zero(d);
  for (int64_t plane = 0; plane < seen.count; ++plane) {
    const float* w = weights + seen.planes[plane].w;
    const float* line = lines + plane * blocks.plane;
    for (int64_t ky = 0; ky < s.kernel[1]; ++ky, line += blocks.down) {
      for (int64_t kx = 0; kx < s.kernel[2]; ++kx, ++w) {
        const float* const from = line + blocks.at[kx];
        hn::Vec<Tag> x[kV];
#pragma GCC unroll 4
        for (int v = 0; v < kV; ++v) x[v] = hn::LoadU(d, from + v * next);
#pragma GCC unroll 8
        for (int r = 0; r < kR; ++r) {
          const auto weight = hn::Set(d, w[r * weights_step]);
#pragma GCC unroll 4
          for (int v = 0; v < kV; ++v) acc[r][v] = hn::MulAdd(weight, x[v], acc[r][v]);
        }
      }
    }
  }
  StoreLines(acc, to, 1);
}

// `count` lines of kTogether results.
#if HWY_TARGET == HWY_AVX3
constexpr int kTogether = 8, kVectorsTogether = 3;
#else
constexpr int kTogether = 4, kVectorsTogether = 2;
#endif
void SumLinesOfResults(const ConvShape& s, const PlaneBlocks& blocks, const SeenPlanes& seen,
                       const float* lines, int64_t count, const float* weights,
                       int64_t weights_step, SumLines to) {
  using Sum = decltype(&SumResults<kTogether, 1>);
  static constexpr Sum kSums[] = {SumResults<kTogether, 1>, SumResults<kTogether, 2>,
                                  SumResults<kTogether, kVectorsTogether>};
  const auto vectors_of = [](int64_t left) {
    return left == 4 ? 2 : std::min<int64_t>(left, kVectorsTogether);
  };
  if (to.columns <= kLanes) {
    to.below = s.out[2];
    for (int64_t row = 0, rows; row < count; row += rows, to.y += rows * to.below) {
      rows = vectors_of(count - row);
      kSums[rows - 1](s, blocks, seen, lines + row * blocks.step, weights, weights_step, to);
    }
    return;
  }
  for (int64_t row = 0; row < count; ++row, lines += blocks.step, to.y += s.out[2]) {
    SumLines part = to;
    for (int64_t c = 0; c < to.columns;) {
      part.y = to.y + c;
      part.columns = to.columns - c;
      const int64_t vectors = vectors_of(CeilDiv(part.columns, kLanes));
      kSums[vectors - 1](s, blocks, seen, lines + c, weights, weights_step, part);
      c += vectors * kLanes;
    }
  }
}

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

// The lines that these rows see of the planes, from column `start` on, which may lie in the
// padding.
void FillPlanes(const ConvShape& s, const PlaneBlocks& blocks, const PlaneRows& rows,
                const SeenPlanes& seen, int64_t start, int64_t columns, float* lines) {
  const int64_t begin = rows.begin * s.stride[1] - s.pad_begin[1];
  const int64_t end = (rows.end - 1) * s.stride[1] - s.pad_begin[1] + WindowSpan(s, 1);
  for (int64_t plane = 0; plane < seen.count; ++plane, lines += blocks.plane) {
    float* to = lines;
    for (int64_t i = begin; i < end; ++i, to += blocks.line) {
      const bool inside = i >= 0 && i < s.in[1];
      FillLine(s, inside ? seen.planes[plane].x + i * s.in[2] : nullptr, start, columns, blocks,
               to);
    }
  }
}

void Rows(const ConvShape& s, const PlaneBlocks& blocks, const PlaneRows& rows,
          const PreparedEpilogue& epilogue) {
  const Summings summings(s, blocks);
  HWY_ALIGN float lines[kLineFloats + 4 * kLanes];
  const int64_t width = summings.vectors * kLanes, count = rows.end - rows.begin;
  // Kernel positions [kd, kd + depths) lie inside.
  int64_t kd = 0, depths = 0;
  for (int64_t tap = s.kernel[0] - 1; tap >= 0; --tap) {
    const int64_t depth = rows.depth + tap * s.dilation[0];
    if (depth >= 0 && depth < s.in[0]) kd = tap, ++depths;
  }
  const int64_t planes = s.cin / s.groups * depths;
  const int64_t weights_step = s.cin / s.groups * s.KernelSize();
  const int64_t result_step = s.out[0] * s.out[1] * s.out[2];
  const int64_t taps = s.kernel[1] * s.kernel[2];
  for (int64_t column = 0; column < s.out[2]; column += blocks.columns) {
    const int64_t columns = std::min(blocks.columns, s.out[2] - column);
    const int64_t needed = (columns - 1) * s.stride[2] + WindowSpan(s, 2);
    for (int64_t first = 0; first == 0 || first < planes; first += blocks.planes) {
      const SeenPlanes seen = See(s, blocks, rows, kd, depths, first);
      FillPlanes(s, blocks, rows, seen, column * s.stride[2] - s.pad_begin[2], needed, lines);
      const auto weights_of = [&](int64_t result) { return rows.w + result * weights_step; };
      const auto result_at = [&](int64_t result) {
        return rows.y + result * result_step + rows.begin * s.out[2] + column;
      };
      const bool is_last = first + blocks.planes >= planes && epilogue.InRegisters();
      TileEpilogue end;
      const auto end_of = [&](int64_t result) -> const TileEpilogue* {
        end = epilogue.Tile(rows.result + result, 0, rows.item);
        return is_last ? &end : nullptr;
      };
      const bool in_squares =  // which take whole pairs of vectors in 0.9 of the time
          summings.full != nullptr && columns > kLanes &&
          CeilDiv(columns, kLanes) % summings.vectors == 0;
      const bool together = !in_squares && seen.count * taps <= kOneChain;
      int64_t result = 0;
      for (; together && result + kTogether <= rows.results; result += kTogether) {
        SumLinesOfResults(s, blocks, seen, lines, count, weights_of(result), weights_step,
                          {result_at(result), result_step, columns, first > 0, end_of(result)});
      }
      for (; result < rows.results; ++result) {
        const TileEpilogue* const last = end_of(result);
        const float* const w = weights_of(result);
        float* y = result_at(result);
        int64_t power = 3;
        for (int64_t row = 0; row < count;) {
          while ((int64_t{1} << power) > std::min(count - row, kSums / summings.vectors)) --power;
          const float* const from = lines + row * blocks.step;
          for (int64_t c = 0; c < columns; c += width) {
            summings.Of(power)(s, blocks, seen, from + c, w,
                               {y + c, s.out[2], columns - c, first > 0, last});
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
  if (s.batch * s.cout * s.out[0] * s.out[1] * s.out[2] == 0) return;
  const PreparedEpilogue prepared(epilogue, PreparedEpilogue::Tiles::kPlanes);
  if (IsPointwisePlanes(s)) return PointwisePlanes(s, x, weights, y, prepared, par);
  const PlaneBlocks blocks(s, HWY_DYNAMIC_DISPATCH(LanesOf)());
  const int64_t line = s.out[2], plane = s.out[1] * line, out = s.out[0] * plane;
  const int64_t channels = s.cin / s.groups, all = s.cout / s.groups;
  const int64_t in = channels * s.in[0] * s.in[1] * s.in[2], taps = channels * s.KernelSize();
  // So many results at a time that the second-level cache holds what is swept, and few copies of
  // the input are made.
  constexpr int64_t kMultiple = 8;
  const int64_t floats = prepared.InRegisters() ? 1 << 17 : 1 << 16;
  const int64_t fitting = RoundUp(CeilDiv(floats, blocks.rows * line), kMultiple);
  const int64_t results = std::min(all, RoundUp(CeilDiv(all, CeilDiv(all, fitting)), kMultiple));
  const int64_t ranges = CeilDiv(all, results), parts = CeilDiv(s.out[1], blocks.rows);
  const int64_t count = s.batch * s.groups * s.out[0] * parts * ranges;
  const int64_t vectors = (results * taps + channels * s.kernel[0] + 7 * results) / 8 + 1;
  const Slices slices = Slice(count, blocks.rows * line * vectors + 50);
  par.For(slices.tasks, [&](int64_t task) {
    for (int64_t i = slices.Begin(task); i < slices.End(task, count); ++i) {
      const int64_t range = i % ranges * results, begin = i / ranges % parts * blocks.rows;
      const int64_t plane_of_all = i / ranges / parts;
      const int64_t depth = plane_of_all % s.out[0], group = plane_of_all / s.out[0];
      const int64_t result = group % s.groups * all + range;
      float* const to = y + (group * all + range) * out;
      const PlaneRows rows = {.x = x + group * in,
                              .w = weights + result * taps,
                              .y = to + depth * plane,
                              .depth = depth * s.stride[0] - s.pad_begin[0],
                              .begin = begin,
                              .end = std::min(s.out[1], begin + blocks.rows),
                              .result = result,
                              .results = std::min(results, all - range),
                              .item = group / s.groups};
      HWY_DYNAMIC_DISPATCH(Rows)(s, blocks, rows, prepared);
      if (prepared.InRegisters()) continue;
      const int64_t pixel = depth * plane + begin * line;
      prepared.Apply(to + pixel, out, result, rows.results, pixel, (rows.end - begin) * line,
                     rows.item);
    }
  });
}

}  // namespace sardonyx
#endif  // HWY_ONCE
