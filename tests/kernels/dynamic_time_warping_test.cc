#include "kernels/dynamic_time_warping.h"

#include <algorithm>

#include "each_target.h"

namespace sardonyx {
namespace {

// By the definition: of equal sums the one from the column before.
std::vector<int32_t> Plain(const float* costs, int64_t rows, int64_t columns) {
  const float none = std::numeric_limits<float>::infinity();
  std::vector<float> sums((rows + 1) * (columns + 1), none);
  std::vector<int> from(rows * columns);
  sums[0] = 0;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const float* above = sums.data() + r * (columns + 1) + c;
      const float diagonal = above[0], down = above[1], right = above[columns + 1];
      int& step = from[r * columns + c];
      if (diagonal < down && diagonal < right) step = 1;
      if (down < diagonal && down < right) step = 2;
      sums[(r + 1) * (columns + 1) + c + 1] =
          costs[r * columns + c] + (step == 1 ? diagonal : (step == 2 ? down : right));
    }
  }
  std::vector<int32_t> path, places;
  for (int64_t r = rows - 1, c = columns - 1; r >= 0 && c >= 0;) {
    path.insert(path.begin(), static_cast<int32_t>(r));
    places.insert(places.begin(), static_cast<int32_t>(c));
    const int step = from[r * columns + c];
    r -= static_cast<int64_t>(step != 0);
    c -= static_cast<int64_t>(step != 2);
  }
  path.insert(path.end(), places.begin(), places.end());
  return path;
}

TEST(DynamicTimeWarping, FindsThePath) {
  for (const auto& [rows, columns] : std::initializer_list<std::pair<int64_t, int64_t>>{
           {1, 1}, {1, 40}, {40, 1}, {16, 16}, {17, 15}, {33, 200}, {64, 65}, {5, 90}}) {
    for (const bool ties : {false, true}) {
      Floats costs = Floats::Random(rows * columns, static_cast<uint32_t>(rows + columns));
      for (int64_t i = 0; ties && i < rows * columns; ++i) {
        costs[i] = i % 11 == 3 ? std::numeric_limits<float>::infinity() : std::round(2 * costs[i]);
      }
      const std::vector<int32_t> expected = Plain(costs.get(), rows, columns);
      ForEachTarget([&] {
        Floats scratch(WarpScratchBytes(rows, columns) / 4);
        const int64_t length = FindWarpPath(costs.get(), rows, columns, scratch.get());
        ASSERT_TRUE(scratch.Intact());
        std::vector<int32_t> path(2 * length);
        WriteWarpPath(rows, columns, length, scratch.get(), path.data());
        ASSERT_EQ(path, expected) << rows << " by " << columns;
      });
    }
  }
}

}  // namespace
}  // namespace sardonyx
