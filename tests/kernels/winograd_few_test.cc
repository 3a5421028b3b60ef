// What products of few tiles find where tiles take no position.

#include "kernels/winograd_few.h"

#include "each_target.h"
#include "kernels/conv_internal.h"

namespace sardonyx {
namespace {

TEST(ClearForWinogradFew, PositionsThatTilesDoNotTake) {
  constexpr WinogradForm kForm{4, 1};
  constexpr int64_t kChannels = 5, kLd = 8;
  for (const int64_t width : {3, 4, 7, 14}) {
    ConvShape s;
    s.cin = s.cout = kChannels;
    s.out[1] = 7;
    s.out[2] = width;
    const WinogradTiles tiles(s, kForm);
    const int64_t all = tiles.count();
    const Floats values(all * kForm.Positions() * kLd);
    for (int64_t i = 0; i < values.size(); ++i) values[i] = 3.0f;
    ClearForWinogradFew(tiles, kChannels, 1, all - 1, {values.get() + kLd, all * kLd, kLd});
    for (int64_t i = 0; i < values.size(); ++i) {
      const int64_t tile = i / kLd % all, position = i / kLd / all;
      const bool is_taken =
          kForm.Takes(tiles.At(tile).columns, static_cast<int>(position) % kForm.Side());
      // Of 14 pixels there are more tiles than are multiplied together, some of them whole.
      const bool is_cleared = tile > 0 && i % kLd < kChannels && !is_taken && width != 14;
      ASSERT_EQ(values[i], is_cleared ? 0.0f : 3.0f)
          << width << " wide, tile " << tile << ", position " << position;
    }
  }
}

}  // namespace
}  // namespace sardonyx
