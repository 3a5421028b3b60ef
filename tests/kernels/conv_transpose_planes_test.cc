#include "kernels/conv_transpose_planes.h"

#include <vector>

#include "conv_check.h"

namespace sardonyx {
namespace {

void Check(int64_t batch, int64_t cin, int64_t cout, int64_t groups, std::vector<Axis> axes) {
  const ConvShape s = Transposed(Shape(batch, cin, cout, axes, groups), axes);
  ASSERT_EQ(ConvTransposePlanesRefusal(s), "");
  CheckConvOfPlanes(s, true, ConvTransposePlanes);
}

TEST(ConvTransposePlanes, Sizes) {
  for (const int64_t width : {1, 2, 7, 8, 9, 16, 17, 33, 65, 100}) {
    Check(2, 3, 3, 3, {{width / 2 + 1, 4, 2, 1, 1, 1}, {width, 4, 2, 1, 1, 1}});
  }
  Check(1, 2, 2, 2, {{3, 4, 2, 1, 1, 1}, {5000, 4, 2, 1, 1, 1}});  // many blocks of columns
  Check(1, 8, 1, 1, {{3, 4, 2, 1, 1, 1}, {700, 5, 3, 1, 1, 1}});
  Check(20, 3, 3, 3, {{30, 2, 2, 1, 0, 0}, {30, 2, 2, 1, 0, 0}});  // and tasks
}

TEST(ConvTransposePlanes, StridesAndDilations) {
  for (const int64_t stride : {1, 2, 3, 4, 5, 8, 32}) {
    for (const int64_t kernel : {int64_t{1}, int64_t{3}, stride, 2 * stride}) {
      for (const int64_t dilation : {1, 2, 3}) {
        Check(1, 2, 2, 2, {{5, 3, 2, 1, 1, 0}, {21, kernel, stride, dilation, 1, 0}});
        Check(1, 2, 2, 2, {{7, kernel, stride, dilation, 0, 1}, {20, 2, 1, 1, 0, 1}});
      }
    }
  }
}

TEST(ConvTransposePlanes, Groups) {
  const Axis row{9, 3, 2, 1, 1, 1}, column{21, 4, 2, 1, 1, 1};
  Check(2, 3, 3, 1, {row, column});
  Check(1, 4, 1, 1, {row, column});
  Check(1, 6, 4, 2, {row, column});
  Check(1, 3, 6, 3, {{400, 9, 4, 1, 3, 2}});
  Check(1, 8, 1, 1, {{6, 4, 2, 1, 1, 1}, row, column});
  Check(2, 2, 4, 2, {{5, 3, 1, 2, 1, 1}, row, column});
}

TEST(ConvTransposePlanes, Edges) {
  // Pads of more than the window, and outputs that nothing reaches.
  Check(1, 2, 2, 2, {{9, 2, 3, 1, 0, 0}, {11, 2, 5, 1, 0, 0}});
  Check(1, 2, 2, 2, {{9, 3, 2, 1, 4, 3}, {31, 3, 2, 1, 9, 7}});
  Check(1, 2, 2, 2, {{9, 3, 2, 1, -2, -1}, {31, 3, 2, 1, -3, -4}});
}

TEST(ConvTransposePlanes, RefusesWhatItCannotHold) {
  const auto refusal = [](int64_t cin, std::vector<Axis> axes) {
    return ConvTransposePlanesRefusal(Transposed(Shape(1, cin, 2, axes, 2), axes));
  };
  EXPECT_EQ(refusal(2, {{20, 129, 2}}), "its window is wide");
  EXPECT_EQ(refusal(2, {{20, 128, 1, 64}}), "its window is wide");
  EXPECT_EQ(refusal(2, {{20, 70, 65}}), "its stride is long");
  EXPECT_EQ(refusal(66, {{20, 4, 1}, {20, 4, 1}}), "windows see many lines");
  EXPECT_EQ(refusal(40, {{20, 30, 1}}), "sums are long");
}

}  // namespace
}  // namespace sardonyx
