#include <gtest/gtest.h>

#include <array>
#include <set>
#include <utility>
#include <vector>

#include "conv_shape.h"
#include "each_target.h"
#include "kernels/conv_internal.h"
#include "kernels/targets.h"
#include "kernels/winograd_few.h"

namespace sardonyx {
namespace {

TEST(Conv, EachOwnerHasItsRows) {
  for (const auto& [rows, columns, owners] :
       {std::array{7, 4, 2}, {7, 4, 1}, {7, 4, 7}, {6, 1, 4}, {1, 5, 1}, {24, 3, 5}}) {
    const OwnedParts owned{rows, columns, owners};
    std::set<std::pair<int64_t, int64_t>> seen;
    int64_t owner = 0;
    for (int64_t i = 0; i < int64_t{rows} * columns; ++i) {
      const auto [row, column] = owned.At(i);
      ASSERT_TRUE(row < rows && column < columns && seen.emplace(row, column).second);
      while (row >= rows * (owner + 1) / owners) ++owner;
      EXPECT_GE(row, rows * owner / owners);
    }
  }
}

TEST(Conv, Choice) {
  AllowMatrixTilesForTest(false);
  const ConvShape depthwise = Shape(1, 32, 32, {{9, 3}, {9, 3}}, 32);
  EXPECT_EQ(ChooseConv(depthwise), ConvAlgorithm::kDepthwise);
  const ConvShape large = Shape(1, 64, 64, {{56, 3, 1, 1, 1, 1}, {56, 3, 1, 1, 1, 1}});
  EXPECT_EQ(ChooseConv(large), ConvAlgorithm::kWinograd4);
  EXPECT_EQ(ChooseConv(large, false), ConvAlgorithm::kGemm);
  EXPECT_EQ(ChooseConv(Shape(1, 960, 256, {{32, 3, 1, 18, 18, 18}, {32, 3, 1, 18, 18, 18}})),
            ConvAlgorithm::kTaps);
  EXPECT_EQ(ChooseConv(Shape(1, 512, 512, {{1, 3, 1, 1, 1, 1}, {1, 3, 1, 1, 1, 1}})),
            ConvAlgorithm::kTaps);
  const ConvShape first = Shape(1, 3, 64, {{224, 7, 2, 1, 3, 3}, {224, 7, 2, 1, 3, 3}});
  const std::vector<Axis> halved(2, {56, 3, 2, 1, 1, 1});
  EXPECT_EQ(ChooseConv(Shape(1, 64, 64, halved)), ConvAlgorithm::kStrided4);
  EXPECT_EQ(ChooseConv(Shape(1, 128, 128, halved)), ConvAlgorithm::kStrided2);
  // Weights that come from memory: few tiles do not wait for more of them than there have to be.
  const ConvShape last = Shape(1, 512, 512, {{7, 3, 1, 1, 1, 1}, {7, 3, 1, 1, 1, 1}});
  EXPECT_EQ(ChooseConv(last),
            WinogradFewTiles() >= 4 ? ConvAlgorithm::kWinograd4 : ConvAlgorithm::kWinograd2);
  EXPECT_EQ(ChooseConv(first), ConvAlgorithm::kPhases);
  EXPECT_EQ(ChooseConv(first, false), ConvAlgorithm::kGemm);
  const ConvShape short_lines = Shape(1, 3, 16, {{128, 3, 1, 1, 1, 1}, {128, 3, 1, 1, 1, 1}});
  const bool strips = ConvRefusal(ConvAlgorithm::kStrips, short_lines).empty();
  EXPECT_EQ(ChooseConv(short_lines), strips ? ConvAlgorithm::kStrips : ConvAlgorithm::kGemm);
  // Of longer vectors, half would be multiplied for nothing.
  const bool are_whole = GemmPanelWidth() == 8;
  EXPECT_EQ(ChooseConv(Shape(1, 3, 8, {{128, 3, 1, 1, 1, 1}, {128, 3, 1, 1, 1, 1}})),
            strips && are_whole ? ConvAlgorithm::kStrips : ConvAlgorithm::kGemm);
  EXPECT_EQ(ChooseConv(Shape(1, 3, 32, {{224, 3, 2, 1, 1, 1}, {224, 3, 2, 1, 1, 1}})),
            ConvAlgorithm::kGemm);
  EXPECT_EQ(ChooseConv(Shape(1, 64, 64, {{56}, {56}})), ConvAlgorithm::kGemm);
  EXPECT_EQ(ConvRefusal(ConvAlgorithm::kWinograd4, Shape(1, 8, 8, {{9, 3, 2}, {9, 3, 2}})),
            "stride is not 1");
  AllowMatrixTilesForTest(true);
}

// Matrix tiles save more than products of strides do.
TEST(Conv, ChoiceWithMatrixTiles) {
  if (!HasMatrixTiles()) GTEST_SKIP() << "the processor has no matrix tiles";
  const AsOnProcessors two(2);
  const std::vector<Axis> halved(2, {56, 3, 2, 1, 1, 1});
  EXPECT_EQ(ChooseConv(Shape(1, 128, 128, halved)), ConvAlgorithm::kGemm);
  const ConvShape large = Shape(1, 64, 64, {{56, 3, 1, 1, 1, 1}, {56, 3, 1, 1, 1, 1}});
  EXPECT_EQ(ChooseConv(large), ConvAlgorithm::kWinograd4);
}

}  // namespace
}  // namespace sardonyx
