#include "kernels/winograd_few.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/winograd_few.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"
#include "kernels/tile_store-inl.h"
#include "kernels/winograd_maps-inl.h"

#ifndef SARDONYX_WINOGRAD_FEW_ONCE
#define SARDONYX_WINOGRAD_FEW_ONCE
namespace sardonyx {
namespace {

// Whether tiles that are cut at the right are multiplied as whole ones are: a single pass is
// shorter, and the tiles of the first are whole.
bool AllAreWide(const WinogradTiles& tiles) {
  if (tiles.count() <= kFewTogether) return true;
  for (int64_t i = 0; i < tiles.count(); ++i) {
    if (tiles.At(i).columns == kFewForm.m) return false;
  }
  return true;
}

}  // namespace
}  // namespace sardonyx
#endif

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
using V = hn::Vec<Tag>;

constexpr WinogradForm kForm = kFewForm;
constexpr int kSide = kForm.Side(), kTaps = kForm.kernel, kArea = kTaps * kTaps;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Tag()));
constexpr int64_t kWidth = std::max(kLanes, kPanelGranule);
// Tiles at a time: as many as leave registers for the weights beside six sums each.
constexpr int kTogether = kFewTogether;
// Floats of the next weights that a row fetches with each channel, and what of it is the part of
// tiles that are not its first.
constexpr int64_t kShare = kArea * kLanes / kSide, kOtherShare = 8;
// Tiles in all.
constexpr size_t kCapacity = 16;
#if HWY_TARGET == HWY_AVX3
constexpr int kMostTiles = 16;
#elif HWY_TARGET == HWY_NEON
constexpr int kMostTiles = 4;  // additions take the place of products
#else
constexpr int kMostTiles = 0;
#endif

// A row of positions of some tiles and one vector of columns.
struct RowArgs {
  int64_t channels;
  const float* kernels;                    // from the first row that is used
  float* half;                             // [channels, 3, kLanes], the sums over the rows
  int64_t half_step;                       // to the next channel, or none if no others use them
  const float* next;                       // to fetch, from memory
  int64_t share;                           // by the first tiles with each channel
  std::array<const float*, kTogether> in;  // of each tile, at the row's first position
  std::array<float*, kTogether> out;       // likewise
  int64_t in_stride, out_stride;
  float scale;
  bool accumulate;
};

// The point of a row of positions: rows of a kernel are summed with its powers. Of one row alone
// they are taken as they are, and all but the first tiles take the sums that are already there.
enum class Point { kSummed, kOneRow, kOne, kMinusOne, kTwo, kMinusTwo };

// Of tiles of kCount columns.
template <int kTiles, int kCount, Point kPoint>
void Row(const RowArgs& args) {
  constexpr bool kIsFirst = kPoint != Point::kSummed;
  constexpr int64_t kHalfStep = kTaps * kLanes;
  const Tag d;
  V sums[kTiles][kSide];
  const float* at[kTiles][2];  // every third position
  const int64_t stride = args.in_stride;
  Unrolled<kTiles>([&](auto r) SARDONYX_INLINE {
    Unrolled<kSide>([&](auto j) SARDONYX_INLINE { sums[r][j] = hn::Zero(d); });
    at[r][0] = Kept(args.in[r]);
    at[r][1] = Kept(at[r][0] + 3 * stride);
  });
  const float *kernels = args.kernels, *next = args.next;
  float* half = args.half;
  for (int64_t c = args.channels; c > 0; --c) {
    const auto column = [&](auto k) SARDONYX_INLINE {
      if constexpr (!kIsFirst) return hn::LoadU(d, half + k * kLanes);
      const float* const tap = kernels + k * kWidth;
      V sum = hn::LoadU(d, tap);
      if constexpr (kPoint > Point::kOneRow) {
        constexpr bool kIsTwo = kPoint == Point::kTwo || kPoint == Point::kMinusTwo;
        V odd = hn::LoadU(d, tap + kTaps * kWidth);
        const V last = hn::LoadU(d, tap + 2 * kTaps * kWidth);
        sum = kIsTwo ? hn::MulAdd(hn::Set(d, 4.0f), last, sum) : hn::Add(sum, last);
        if (kIsTwo) odd = hn::Add(odd, odd);
        sum =
            kPoint == Point::kOne || kPoint == Point::kTwo ? hn::Add(sum, odd) : hn::Sub(sum, odd);
      }
      hn::StoreU(sum, d, half + k * kLanes);
      return sum;
    };
    const auto add = [&](auto j, V weights) SARDONYX_INLINE {
      if constexpr (!kForm.Takes(kCount, j)) return;
      Unrolled<kTiles>([&](auto r) SARDONYX_INLINE {
        const V value = hn::Set(d, at[r][j / 3][j % 3 * stride]);
        sums[r][j] = hn::MulAdd(value, weights, sums[r][j]);
      });
    };
    const V first = column(std::integral_constant<int, 0>());
    const V last = column(std::integral_constant<int, 2>());
    V odd = column(std::integral_constant<int, 1>()), even = hn::Add(first, last);
    half += kIsFirst ? args.half_step : kHalfStep;
    if constexpr (kIsFirst) {
      kernels += kArea * kWidth;
      __builtin_prefetch(next, 0, 2);
      __builtin_prefetch(next + 16, 0, 2);
      next += args.share;
    } else if (c % 4 == 0) {
      __builtin_prefetch(next, 0, 2);
      __builtin_prefetch(next + 16, 0, 2);
      next += 4 * kOtherShare;
    }
    add(std::integral_constant<int, 0>(), first);
    add(std::integral_constant<int, 1>(), hn::Add(even, odd));
    add(std::integral_constant<int, 2>(), hn::Sub(even, odd));
    if constexpr (kForm.Takes(kCount, 3)) {
      const V twice = hn::Add(last, last);
      even = hn::Add(first, hn::Add(twice, twice));
      odd = hn::Add(odd, odd);
      add(std::integral_constant<int, 3>(), hn::Add(even, odd));
      add(std::integral_constant<int, 4>(), hn::Sub(even, odd));
    }
    add(std::integral_constant<int, 5>(), last);
    Unrolled<kTiles>([&](auto r) SARDONYX_INLINE {
      at[r][0] = Kept(at[r][0] + 1);
      at[r][1] = Kept(at[r][1] + 1);
    });
  }
  Unrolled<kTiles>([&](auto r) SARDONYX_INLINE {
    Unrolled<kSide>([&](auto j) SARDONYX_INLINE {
      if constexpr (!kForm.Takes(kCount, j)) return;
      float* const to = args.out[r] + j * args.out_stride;
      const V scale = hn::Set(d, j == kSide - 1 ? 2.0f * args.scale : args.scale);
      const V before = args.accumulate ? hn::LoadU(d, to) : hn::Zero(d);
      hn::StoreU(hn::MulAdd(scale, sums[r][j], before), d, to);
    });
  });
}

using RowFunctions = std::array<void (*)(const RowArgs&), kTogether>;

template <int kCount, Point kPoint, int... kTilesMinusOne>
constexpr RowFunctions RowsOf(std::integer_sequence<int, kTilesMinusOne...>) {
  return {&Row<kTilesMinusOne + 1, kCount, kPoint>...};
}

// Tiles that are multiplied together.
struct Pass {
  int columns = 0;
  size_t count = 0;
  std::array<int64_t, kTogether> tiles{};
};

// All that take a row of positions, those of most columns first.
struct Passes {
  Passes(const std::array<WinogradPlace, kCapacity>& places, int64_t tiles, int row) {
    for (int columns = kForm.m; columns > 0; --columns) {
      std::array<int64_t, kCapacity> chosen{};
      size_t left = 0;
      for (int64_t i = 0; i < tiles; ++i) {
        const WinogradPlace& place = places[static_cast<size_t>(i)];
        if (place.columns != columns || !kForm.Takes(place.rows, row)) continue;
        chosen[left++] = i;
      }
      while (left > 0) {
        Pass& pass = all[count++];
        pass.columns = columns;
        pass.count = CeilDiv(left, CeilDiv(left, size_t{kTogether}));
        left -= pass.count;
        std::copy_n(chosen.begin() + left, pass.count, pass.tiles.begin());
      }
    }
  }
  std::array<Pass, kCapacity> all;
  size_t count = 0;
};

void Few(const FewTilesArgs& args) {
  using Tiles = std::make_integer_sequence<int, kTogether>;
  static constexpr std::array<RowFunctions, kForm.m> kOthers = {
      RowsOf<1, Point::kSummed>(Tiles()), RowsOf<2, Point::kSummed>(Tiles()),
      RowsOf<3, Point::kSummed>(Tiles()), RowsOf<4, Point::kSummed>(Tiles())};
  static constexpr std::array<RowFunctions, kSide> kFirst = {
      RowsOf<4, Point::kOneRow>(Tiles()),   RowsOf<4, Point::kOne>(Tiles()),
      RowsOf<4, Point::kMinusOne>(Tiles()), RowsOf<4, Point::kTwo>(Tiles()),
      RowsOf<4, Point::kMinusTwo>(Tiles()), RowsOf<4, Point::kOneRow>(Tiles())};
  const int64_t count = args.tiles->count();
  std::array<WinogradPlace, kCapacity> places{};
  const bool all_are_wide = AllAreWide(*args.tiles);
  for (int64_t i = 0; i < count; ++i) {
    WinogradPlace& place = places[static_cast<size_t>(i)];
    place = args.tiles->At(i);
    if (all_are_wide) place.columns = kForm.m;
  }
  const Passes all(places, count, 0), whole(places, count, kForm.m);
  const float* next = args.kernels + args.channels * kArea * kWidth;
  for (int64_t n = 0; n < kWidth; n += kLanes) {
    for (int row = 0; row < kSide; ++row) {
      const Passes& passes = args.tiles->Taking(row, 0).second == count ? all : whole;
      RowArgs r{};
      r.channels = args.channels;
      r.kernels = args.kernels + (row == kSide - 1 ? 2 * kTaps * kWidth : 0) + n;
      r.half = args.half;
      r.half_step = passes.count > 1 ? kTaps * kLanes : 0;
      const auto others = static_cast<int64_t>(passes.count) - 1;
      r.share = std::max<int64_t>(0, kShare - others * kOtherShare);
      r.in_stride = args.in.t_stride;
      r.out_stride = args.out.t_stride;
      r.scale = row == kSide - 1 ? 2.0f : 1.0f;
      r.accumulate = args.accumulate;
      for (size_t p = 0; p < passes.count; ++p) {
        const Pass& pass = passes.all[p];
        for (size_t k = 0; k < pass.count; ++k) {
          const int64_t t = row * kSide, tile = pass.tiles[k];
          r.in[k] = args.in.data + t * args.in.t_stride + tile * args.in.ld;
          r.out[k] = args.out.data + t * args.out.t_stride + tile * args.out.ld + n;
        }
        const RowFunctions& functions = p == 0 ? kFirst[static_cast<size_t>(row)]
                                               : kOthers[static_cast<size_t>(pass.columns - 1)];
        r.next = next;
        next += (p == 0 ? r.share : kOtherShare) * args.channels;
        functions[pass.count - 1](r);
      }
    }
  }
}

int64_t MostTiles() { return kMostTiles; }
int64_t Columns() { return kWidth; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Few);
HWY_EXPORT(MostTiles);
HWY_EXPORT(Columns);

int64_t WinogradFewTiles() { return HWY_DYNAMIC_DISPATCH(MostTiles)(); }
int64_t WinogradFewColumns() { return HWY_DYNAMIC_DISPATCH(Columns)(); }
void WinogradFew(const FewTilesArgs& args) { HWY_DYNAMIC_DISPATCH(Few)(args); }

void ClearForWinogradFew(const WinogradTiles& tiles, int64_t channels, int64_t first, int64_t count,
                         const WinogradValues& in) {
  if (!AllAreWide(tiles)) return;
  for (int64_t tile = 0; tile < count; ++tile) {
    const WinogradPlace place = tiles.At(first + tile);
    for (int t = 0; t < kFewForm.Positions(); ++t) {
      if (kFewForm.Takes(place.columns, t % kFewForm.Side())) continue;
      std::fill_n(in.data + t * in.t_stride + tile * in.ld, channels, 0.0f);
    }
  }
}

}  // namespace sardonyx
#endif  // HWY_ONCE
