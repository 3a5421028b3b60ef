// Into which parts products by matrix tiles are cut.

#include "kernels/gemm_amx_cut.h"

#include <algorithm>
#include <array>

#include "each_target.h"
#include "kernels/gemm_block.h"

namespace sardonyx {
namespace {

TEST(GemmAmxParts, CoverAllRowsAndColumns) {
  for (const int64_t rows : {48, 100, 197, 1000, 4000}) {
    for (const int64_t columns : {64, 100, 384, 3072, 50257}) {
      for (const int64_t parts : {1, 2, 3, 8, 64}) {
        for (const bool keeps_thirds : {false, true}) {
          const GemmAmxParts cut(rows, columns, 300, parts, rows % 3 * 100, keeps_thirds);
          EXPECT_GE(cut.row_parts, 1);
          EXPECT_GE(cut.column_step * cut.column_parts, columns);
          EXPECT_LT(cut.column_step * (cut.column_parts - 1), columns);
          EXPECT_LE(cut.row_parts, std::max<int64_t>(1, rows / cut.row_unit));
        }
      }
    }
  }
}

TEST(GemmAmxBlocks, AreNeverThin) {
  for (int64_t all = 16; all < 3000; ++all) {
    const GemmAmxBlocks blocks(all);
    EXPECT_LE(blocks.rows, 256);
    for (int64_t left = all, rows = 0; left > 0; left -= rows) {
      rows = left <= blocks.most_rows ? left : blocks.rows;
      ASSERT_GE(rows, kLeastRows) << "of " << all;
      ASSERT_LE(rows, blocks.most_rows);
    }
  }
}

TEST(GemmAmxPays, NotWithoutTilesNorOnManyProcessors) {
  const AsOnProcessors two(2);
  AllowMatrixTilesForTest(false);
  EXPECT_FALSE(GemmAmxPays(1000, 1000, 1000));
  AllowMatrixTilesForTest(true);
  EXPECT_EQ(GemmAmxPays(1000, 1000, 1000), HasMatrixTiles());
  EXPECT_FALSE(GemmAmxPays(8, 1000, 1000));
  const AsOnProcessors three(3);
  EXPECT_FALSE(GemmAmxPays(1000, 1000, 1000));
}

// Convolutions run by lines where all rows do not pay, so that a few must not either.
TEST(GemmAmxPays, NoFewerRowsThanThoseThatDo) {
  const AsOnProcessors two(2);
  for (const int64_t columns : {24, 64, 96, 512}) {
    for (const int64_t k : {16, 40, 64, 200}) {
      bool pays = false;
      for (int64_t rows = 1; rows < 600; ++rows) {
        const bool now = GemmAmxPays(rows, columns, k, 20);
        ASSERT_TRUE(now || !pays) << rows << "x" << columns << "x" << k;
        pays = now;
      }
    }
  }
}

TEST(GemmAmxDepth, EvenRanges) {
  for (const int64_t rows : {16, 49, 128, 197, 256, 5000}) {
    for (int64_t k = 16; k < 5000; k += 29) {
      const int64_t depth = GemmAmxDepth(rows, k);
      ASSERT_TRUE(depth == k || (depth < k && depth % 32 == 0)) << rows << " rows, " << k;
      ASSERT_LE(depth, 832);
      ASSERT_LT(depth * CeilDiv(k, depth) - k, depth) << rows << " rows, " << k;
    }
  }
}

TEST(GemmAmxHalvesK, WhereRowsAndColumnsAreFew) {
  const AsOnProcessors two(2);
  // Those of conv_test and gemm_test.
  for (const auto& [rows, columns, k] : {std::array{63, 90, 960}, {49, 83, 960}, {50, 64, 1700}}) {
    EXPECT_EQ(GemmAmxPays(rows, columns, k), HasMatrixTiles());
    EXPECT_TRUE(GemmAmxHalvesK(rows, columns, k));
  }
  EXPECT_TRUE(GemmAmxHalvesK(49, 160, 960));     // MobileNetV2
  EXPECT_TRUE(GemmAmxHalvesK(128, 768, 3072));   // BERT
  EXPECT_FALSE(GemmAmxHalvesK(128, 3072, 768));  // as many columns as halves of K
  EXPECT_FALSE(GemmAmxHalvesK(128, 768, 768));
  EXPECT_FALSE(GemmAmxHalvesK(196, 96, 576));  // rows enough for each thread
  for (int64_t k = 64; k < 4000; k += 7) {
    ASSERT_GE(2 * GemmAmxHalf(k), k);
    ASSERT_LT(GemmAmxHalf(k), k);
    ASSERT_EQ(GemmAmxHalf(k) % 32, 0);
  }
}

}  // namespace
}  // namespace sardonyx
