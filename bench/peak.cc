#include "peak.h"

#include <benchmark/benchmark.h>

// Processors that have matrix tiles are of this target.
#define HWY_WANT_AVX3_DL
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/peak.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"
#include "kernels/amx-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Of 16 registers, or of 32: processors take 4 cycles for a product and begin up to 4 in each.
constexpr int kSums = HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_NEON ? 24 : 12;

double Rounds(int64_t rounds) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  // Not by DoNotOptimize, behind which GCC 12 reads what it has not stored: numbers as small as
  // memory may hold then take some processors 100 times as long.
  const volatile float given = 0.5f;
  const float half = given;
  const V factor = hn::Set(d, half);
  V sums[kSums];
#pragma GCC unroll 24
  for (int i = 0; i < kSums; ++i) sums[i] = hn::Set(d, half * static_cast<float>(i));
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 24
    for (int i = 0; i < kSums; ++i) sums[i] = hn::MulAdd(sums[i], factor, factor);
  }
  V sum = hn::Zero(d);
#pragma GCC unroll 24
  for (int i = 0; i < kSums; ++i) sum = hn::Add(sum, sums[i]);
  benchmark::DoNotOptimize(hn::GetLane(hn::SumOfLanes(d, sum)));
  return 2.0 * kSums * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
}

#if HWY_TARGET == HWY_AVX3_DL
double TileRounds(int64_t rounds) {
  HWY_ALIGN static constexpr uint8_t kZeros[kTileRows * kTileBytes] = {};
  const Tiles tiles(TileShapes(kTileRows, kTileBytes / 4));
  LoadTile<0>(kZeros, kTileBytes);
  LoadTile<1>(kZeros, kTileBytes);
  LoadTile<2>(kZeros, kTileBytes);
  LoadTile<3>(kZeros, kTileBytes);
  LoadTile<4>(kZeros, kTileBytes);
  LoadTile<6>(kZeros, kTileBytes);
  for (int64_t round = 0; round < rounds; ++round) {
    AddTileProducts<0, 4, 6, false>();
    AddTileProducts<1, 4, 6, false>();
    AddTileProducts<2, 4, 6, false>();
    AddTileProducts<3, 4, 6, false>();
  }
  return 4 * 2.0 * kTileRows * (kTileBytes / 4) * kTileBytes * static_cast<double>(rounds);
}
#else
double TileRounds(int64_t) { return 0; }
#endif

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Rounds);
HWY_EXPORT(TileRounds);

double MultiplyAndAdd(int64_t rounds) { return HWY_DYNAMIC_DISPATCH(Rounds)(rounds); }
double MultiplyTiles(int64_t rounds) { return HWY_DYNAMIC_DISPATCH(TileRounds)(rounds); }

}  // namespace sardonyx
#endif  // HWY_ONCE
