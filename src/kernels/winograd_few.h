#pragma once
// Winograd's F(4 x 4, 3 x 3) of few tiles, whose weights are transformed along one axis just before
// they are used and along the other in registers: transformed weights, four times as many as those
// of the convolution, are neither kept nor written.

#include <array>
#include <cstdint>

#include "kernels/winograd_transform.h"

namespace sardonyx {

// Tiles that a call takes at most, or none on targets of few registers.
int64_t WinogradFewTiles();
// Columns of a panel.
int64_t WinogradFewColumns();

// What the taps of a kernel are multiplied by: powers of sqrt(1/2), with which the points are 1,
// -1, 2 and -2, and the transform adds.
inline constexpr std::array<float, 9> kFewTapScales = [] {
  constexpr float kA = 0.70710678118654752f;
  return std::array<float, 9>{1.0f, kA, 0.5f, kA, 0.5f, 0.5f * kA, 0.5f, 0.5f * kA, 0.25f};
}();

inline constexpr WinogradForm kFewForm{4, 1};
// Tiles that are multiplied together.
inline constexpr int64_t kFewTogether = 4;

// Zeros for the values of the `count` tiles from `first` on, which begin at in.data, at positions
// that WinogradFew multiplies them at though they do not take these: what other steps have left
// there may be subnormal, which takes processors hundreds of cycles.
void ClearForWinogradFew(const WinogradTiles& tiles, int64_t channels, int64_t first, int64_t count,
                         const WinogradValues& in);

// All tiles, whose values begin at in.data, times `channels` channels of a panel. As many more are
// fetched meanwhile.
struct FewTilesArgs {
  const WinogradTiles* tiles;
  int64_t channels;
  const float* kernels;  // [channels, 9, WinogradFewColumns()], times the scales
  WinogradValues in, out;
  float* half;      // scratch [channels, 3, WinogradFewColumns()]
  bool accumulate;  // add to what `out` holds
};
void WinogradFew(const FewTilesArgs& args);

}  // namespace sardonyx
