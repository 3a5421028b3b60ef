#pragma once
// Winograd's F(4 x 4, 3 x 3) of few tiles, whose weights are transformed in registers: the products
// of a row of positions keep their sums there, so that transformed weights, four times as many as
// those of the convolution, are neither read nor written.

#include <cstdint>

#include "kernels/winograd_transform.h"

namespace sardonyx {

// Tiles that a call takes at most, or none on targets of few registers.
int64_t WinogradFewTiles();

// One row of positions of all tiles that take it, times `channels` channels of a full panel. The
// weights of as many channels more are fetched meanwhile, a part with each row. A tile cut at the
// right is multiplied at the positions that it does not take too, whatever values it has there.
struct FewTilesArgs {
  int row;  // of positions
  int64_t tiles;
  int64_t channels;
  const float* kernels;  // [channels, 9, GemmPanelWidth()]
  WinogradValues in;     // from the first channel and tile on, at position (row, 0)
  WinogradValues out;    // likewise
  bool accumulate;       // add to what `out` holds
};
void WinogradFew(const FewTilesArgs& args);

}  // namespace sardonyx
