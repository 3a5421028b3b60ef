#include "kernels/conv_planes_pointwise.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv_planes_pointwise.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>

#include "base/round.h"
#include "kernels/chains.h"
#include "kernels/gemm_block.h"
#include "kernels/row_math-inl.h"
#include "kernels/slices.h"

namespace sardonyx {
#ifndef SARDONYX_KERNELS_CONV_PLANES_POINTWISE_ONCE
#define SARDONYX_KERNELS_CONV_PLANES_POINTWISE_ONCE
// Some pixels of the planes of a group, `ld` floats apart, and of some results.
struct PixelsOfGroup {
  const float* x = nullptr;
  const float* w = nullptr;  // [results, channels]
  float* y = nullptr;
  int64_t x_ld = 0, y_ld = 0, channels = 0, pixels = 0;
};
#endif
}  // namespace sardonyx

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
using V = hn::Vec<Tag>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Tag()));

// kR results of kV vectors of pixels from p on; `part`: lanes of the only vector, 0 for all. What
// is left to do behind the sums is `end`'s: a value of each result that is added, and bounds.
template <int kR, int kV>
HWY_INLINE void SumPixels(const PixelsOfGroup& g, int64_t p, int64_t part,
                          const TileEpilogue& end) {
  const Tag d;
  V acc[kR][kV];
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r) {
    const V start = hn::Set(d, end.residual != nullptr ? end.residual[r * end.residual_ld] : 0.0f);
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) acc[r][v] = start;
  }
  const float* x = g.x + p;
  for (int64_t c = 0; c < g.channels; ++c, x += g.x_ld) {
    V of[kV];
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) {
      of[v] = part == 0 ? hn::LoadU(d, x + v * kLanes) : LoadPart(d, x, part);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kR; ++r) {
      const V weight = hn::Set(d, g.w[r * g.channels + c]);
#pragma GCC unroll 4
      for (int v = 0; v < kV; ++v) acc[r][v] = hn::MulAdd(weight, of[v], acc[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) {
      V value = acc[r][v];
      if (end.clamp) value = AtMost(d, hn::Set(d, end.hi), AtLeast(d, hn::Set(d, end.lo), value));
      float* const to = g.y + r * g.y_ld + p + v * kLanes;
      part == 0 ? hn::StoreU(value, d, to) : StorePart(value, d, to, part);
    }
  }
}

template <int kR, int kV>
void Results(const PixelsOfGroup& g, const TileEpilogue& end) {
  int64_t p = 0;
  for (; p + kV * kLanes <= g.pixels; p += kV * kLanes) SumPixels<kR, kV>(g, p, 0, end);
  for (; p + kLanes <= g.pixels; p += kLanes) SumPixels<kR, 1>(g, p, 0, end);
  if (p == g.pixels) return;
  if (g.pixels >= kLanes) {  // some of them again
    SumPixels<kR, 1>(g, g.pixels - kLanes, 0, end);
  } else {
    SumPixels<kR, 1>(g, 0, g.pixels, end);
  }
}

// The first 8, 4, 2 or 1 of so many results; returns how many.
int64_t SomeResults(const PixelsOfGroup& g, int64_t results, const TileEpilogue& end) {
  constexpr int kMost = HWY_TARGET <= HWY_AVX3 ? 8 : 4;
  if (results >= kMost) return Results<kMost, 2>(g, end), kMost;
  if (results >= 4) return Results<4, 2>(g, end), 4;
  if (results >= 2) return Results<2, 4>(g, end), 2;
  return Results<1, 4>(g, end), 1;
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(SomeResults);

bool IsPointwisePlanes(const ConvShape& s) {
  for (int i = 0; i < 3; ++i) {
    if (s.kernel[i] != 1 || s.stride[i] != 1 || s.pad_begin[i] != 0 || s.in[i] != s.out[i]) {
      return false;
    }
  }
  return s.cin / s.groups <= kOneChain;
}

void PointwisePlanes(const ConvShape& s, const float* x, const float* weights, float* y,
                     const PreparedEpilogue& epilogue, const Parallel& par) {
  const int64_t pixels = s.in[0] * s.in[1] * s.in[2];
  const int64_t channels = s.cin / s.groups, results = s.cout / s.groups;
  // What is read for some results is in the first-level cache, or nearly, for the next.
  constexpr int64_t kFloats = 6144, kLeastPixels = 256, kVectors = 64, kSomeResults = 32;
  const int64_t fitting = std::max(kLeastPixels, kFloats / std::max<int64_t>(channels, 1));
  const int64_t blocks = CeilDiv(pixels, fitting);
  const int64_t most = RoundUp(CeilDiv(pixels, blocks), kVectors);
  // Of few blocks some results at a time, that more threads have work.
  constexpr int64_t kManyBlocks = 16;
  const int64_t places = s.batch * s.groups * blocks;
  const int64_t range = places < kManyBlocks ? std::min(kSomeResults, results) : results;
  const int64_t ranges = CeilDiv(results, range), count = places * ranges;
  const Slices slices = Slice(count, most * channels * (range / 8 + 1) / 2);
  par.For(slices.tasks, [&](int64_t task) {
    for (int64_t i = slices.Begin(task); i < slices.End(task, count); ++i) {
      const int64_t all = i / ranges / blocks, item = all / s.groups, group = all % s.groups;
      const int64_t first = i / ranges % blocks * most,
                    pixel_count = std::min(most, pixels - first);
      const int64_t begin = i % ranges * range, end = std::min(results, begin + range);
      const int64_t row = group * results;
      if (pixel_count <= 0) continue;  // blocks are of whole vectors
      float* const to = y + all * results * pixels + first;
      PixelsOfGroup some = {.x = x + all * channels * pixels + first,
                            .x_ld = pixels,
                            .y_ld = pixels,
                            .channels = channels,
                            .pixels = pixel_count};
      for (int64_t r = begin, done; r < end; r += done) {
        some.w = weights + (row + r) * channels;
        some.y = to + r * pixels;
        const TileEpilogue last =
            epilogue.InRegisters() ? epilogue.Tile(row + r, 0, item) : TileEpilogue{};
        done = HWY_DYNAMIC_DISPATCH(SomeResults)(some, end - r, last);
      }
      if (epilogue.InRegisters()) continue;
      epilogue.Apply(to + begin * pixels, pixels, row + begin, end - begin, first, pixel_count,
                     item);
    }
  });
}

}  // namespace sardonyx
#endif  // HWY_ONCE
