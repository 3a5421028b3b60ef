#include "kernels/winograd_few.h"

#include <array>
#include <utility>

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/winograd_few.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"
#include "kernels/tile_store-inl.h"
#include "kernels/winograd_maps-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
using V = hn::Vec<Tag>;

constexpr WinogradForm kForm{4, 1};
constexpr int kSide = kForm.Side(), kTaps = kForm.kernel;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Tag()));
constexpr int64_t kWidth = 2 * kLanes;
// What a row fetches with each channel and vector.
constexpr int64_t kShare = kTaps * kTaps * kLanes / kSide;
// As many as leave registers for the weights beside six sums each.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr int kMostTiles = 4;
#else
constexpr int kMostTiles = 0;
#endif

// Of one vector of columns.
template <int kRow, int kTiles>
void Row(const FewTilesArgs& args, const float* kernels, const float* next, float* out) {
  const Tag d;
  V sums[kTiles][kSide];
  const float* at[kTiles][2];  // every third position
  Unrolled<kTiles>([&](auto r) SARDONYX_INLINE {
    Unrolled<kSide>([&](auto j) SARDONYX_INLINE { sums[r][j] = hn::Zero(d); });
    at[r][0] = Kept(args.in.data + r * args.in.ld);
    at[r][1] = Kept(at[r][0] + 3 * args.in.t_stride);
  });
  for (int64_t c = 0; c < args.channels; ++c) {
    V half[kTaps], weights[kSide];
    Unrolled<kTaps>([&](auto k) SARDONYX_INLINE {
      V column[kTaps];
      Unrolled<kTaps>([&](auto tap) SARDONYX_INLINE {
        column[tap] = hn::LoadU(d, kernels + (tap * kTaps + k) * kWidth);
      });
      half[k] = MapTaps<kForm, kRow, 1>(d, column, MapTaps<kForm, kRow, 0>(d, column, hn::Zero(d)));
    });
    kernels += kTaps * kTaps * kWidth;
    __builtin_prefetch(next, 0, 2);
    __builtin_prefetch(next + 16, 0, 2);
    next += kShare;
    MapWeights<kForm>(d, half, weights);
    Unrolled<kSide>([&](auto j) SARDONYX_INLINE {
      Unrolled<kTiles>([&](auto r) SARDONYX_INLINE {
        const V value = hn::Set(d, at[r][j / 3][j % 3 * args.in.t_stride]);
        sums[r][j] = hn::MulAdd(value, weights[j], sums[r][j]);
      });
    });
    Unrolled<kTiles>([&](auto r) SARDONYX_INLINE {
      at[r][0] = Kept(at[r][0] + 1);
      at[r][1] = Kept(at[r][1] + 1);
    });
  }
  Unrolled<kTiles>([&](auto r) SARDONYX_INLINE {
    Unrolled<kSide>([&](auto j) SARDONYX_INLINE {
      float* const to = out + j * args.out.t_stride + r * args.out.ld;
      hn::StoreU(args.accumulate ? hn::Add(sums[r][j], hn::LoadU(d, to)) : sums[r][j], d, to);
    });
  });
}

using RowFunction = void (*)(const FewTilesArgs&, const float*, const float*, float*);

template <int kTiles, int... kRow>
constexpr std::array<RowFunction, kSide> RowsOf(std::integer_sequence<int, kRow...>) {
  return {&Row<kRow, kTiles>...};
}

template <int... kTilesMinusOne>
constexpr std::array<std::array<RowFunction, kSide>, kMostTiles> TilesOf(
    std::integer_sequence<int, kTilesMinusOne...>) {
  return {RowsOf<kTilesMinusOne + 1>(std::make_integer_sequence<int, kSide>())...};
}

void Few(const FewTilesArgs& args) {
  static constexpr auto kRows = TilesOf(std::make_integer_sequence<int, kMostTiles>());
  const float* next =
      args.kernels + (kTaps * kTaps * kWidth + args.row * 2 * kShare) * args.channels;
  for (int64_t n = 0; n < kWidth; n += kLanes, next += kShare * args.channels) {
    kRows[static_cast<size_t>(args.tiles - 1)][static_cast<size_t>(args.row)](
        args, args.kernels + n, next, args.out.data + n);
  }
}

int64_t MostTiles() { return kMostTiles; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Few);
HWY_EXPORT(MostTiles);

int64_t WinogradFewTiles() { return HWY_DYNAMIC_DISPATCH(MostTiles)(); }
void WinogradFew(const FewTilesArgs& args) { HWY_DYNAMIC_DISPATCH(Few)(args); }

}  // namespace sardonyx
#endif  // HWY_ONCE
