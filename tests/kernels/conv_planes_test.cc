#include "kernels/conv_planes.h"

#include <utility>
#include <vector>

#include "conv_check.h"

namespace sardonyx {
namespace {

void Check(int64_t batch, int64_t cin, int64_t cout, int64_t groups, std::vector<Axis> axes) {
  const ConvShape s = Shape(batch, cin, cout, axes, groups);
  ASSERT_EQ(ConvPlanesRefusal(s), "");
  CheckConvOfPlanes(s, false, ConvPlanes);
}

// Depthwise.
void Check(int64_t batch, int64_t channels, std::vector<Axis> axes) {
  Check(batch, channels, channels, channels, std::move(axes));
}

TEST(ConvPlanes, Sizes) {
  for (const int64_t width : {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 56, 64, 65, 100}) {
    Check(2, 3, {{width / 2 + 1, 3, 1, 1, 1, 1}, {width, 3, 1, 1, 1, 1}});
  }
  for (const int64_t height : {1, 2, 3, 5, 9, 40}) {
    Check(1, 5, {{height, 5, 1, 1, 2, 2}, {20, 3, 1, 1, 0, 2}});
  }
  for (const int64_t size : {1, 4, 7, 8, 9, 14, 16, 17, 28, 33, 56, 100}) {
    Check(1, 3, {{size, 3, 1, 1, 1, 1}, {size + 3, 3, 1, 1, 1, 1}});
    Check(1, 3, {{size, 5, 1, 1, 2, 2}, {size + 3, 5, 1, 1, 2, 2}});
  }
  Check(1, 2, {{700, 3, 1, 1, 1, 1}, {9, 3, 1, 1, 1, 1}});   // many blocks of lines
  Check(1, 2, {{5, 3, 1, 1, 1, 1}, {9001, 3, 1, 1, 1, 1}});  // and of columns
  Check(40, 64, {{8, 3, 1, 1, 1, 1}, {8, 3, 1, 1, 1, 1}});   // and of tasks
}

TEST(ConvPlanes, StridesAndDilations) {
  for (const int64_t stride : {1, 2, 3, 4}) {
    for (const int64_t dilation : {1, 2, 3}) {
      Check(1, 3, {{23, 3, stride, dilation, 2, 1}, {41, 4, stride, dilation, 1, 3}});
      Check(2, 2, {{17, 2, 1, 1, 0, 0}, {60, 5, stride, dilation, 4, 4}});
      Check(2, 2, {{30, 3, stride, dilation, 1, 1}, {16, 1, 1, 1, 0, 0}});
    }
  }
  Check(1, 4, {{1, 1, 1, 1, 0, 0}, {3000, 31, 1, 1, 15, 15}});  // one axis
  Check(1, 4, {{1, 1, 1, 1, 0, 0}, {500, 9, 2, 4, 16, 16}});
  // Wider than those of several lines, of more products than one chain has.
  Check(2, 1, {{1, 1, 1, 1, 0, 0}, {3000, 65, 1, 1, 0, 0}});
  Check(1, 2, {{3, 1, 1, 1, 0, 0}, {2500, 1000, 1, 1, 500, 499}});
  Check(1, 1, {{1, 1, 1, 1, 0, 0}, {4000, 512, 8, 2, 0, 7}});
  Check(1, 1, {{1, 1, 1, 1, 0, 0}, {5000, 1024, 16, 1, 100, 0}});
}

// Windows that reach beyond what one block of lines can hold, or are all padding.
TEST(ConvPlanes, Windows) {
  for (const int64_t stride : {1, 2, 3, 4}) {
    Check(1, 2, {{70, 64, stride, 1, 0, 3}, {150, 64, stride, 1, 31, 32}});
    Check(1, 2, {{70, 2, stride, 63, 5, 5}, {90, 22, stride, 3, 31, 32}});
  }
  Check(1, 2, {{4, 3, 1, 1, 6, 6}, {5, 3, 1, 1, 7, 9}});
  Check(1, 2, {{9, 3, 1, 1, -2, -1}, {40, 3, 1, 1, -3, -4}});
}

TEST(ConvPlanes, Groups) {
  const Axis row{20, 3, 1, 1, 1, 1}, column{37, 3, 1, 1, 1, 1};
  Check(1, 3, 6, 3, {row, column});  // several results of a channel
  Check(2, 2, 10, 2, {row, {37, 5, 2, 1, 2, 2}});
  Check(1, 12, 12, 4, {row, column});              // and of several channels
  Check(1, 2, 18, 2, {row, {33, 3, 2, 1, 1, 1}});  // many, some of them at once
  Check(1, 40, 7, 1, {row, {70, 3, 1, 1, 1, 1}});
  Check(2, 10, 4, 2, {row, {33, 4, 3, 2, 2, 2}});
  Check(1, 6, 3, 3, {row, {70, 5, 1, 1, 2, 2}});
  Check(1, 3, 2, 1, {row, column});
  // More channels than a block holds at a time.
  Check(1, 40, 3, 1, {row, column});
  Check(2, 74, 6, 2, {{33, 5, 1, 1, 2, 2}, {150, 5, 1, 1, 2, 2}});
  Check(1, 60, 4, 2, {{1, 1, 1, 1, 0, 0}, {500, 21, 2, 1, 10, 10}});
  Check(1, 6, 4, 2, {{1, 1, 1, 1, 0, 0}, {1200, 500, 1, 1, 250, 249}});
  Check(1, 20, 4, 2, {{40, 1, 1, 1, 0, 0}, {50, 1, 1, 1, 0, 0}});
  Check(2, 300, 1, 1, {row, {70, 5, 2, 1, 2, 2}});
  Check(1, 129, 4, 1, {{20, 7, 1, 2, 6, 6}, {37, 7, 1, 1, 3, 3}});
  Check(1, 200, 2, 1, {{1, 1, 1, 1, 0, 0}, {300, 7, 1, 3, 9, 9}});
  // Columns that are as tall as one may be.
  Check(1, 6, 6, 6, {{150, 65, 1, 1, 32, 32}, {64, 1, 1, 1, 0, 0}});
  Check(1, 3, 3, 3, {{140, 128, 1, 1, 20, 0}, {90, 1, 4, 1, 0, 0}});
  Check(1, 2, 2, 1, {{140, 64, 2, 2, 3, 9}, {33, 1, 1, 1, 0, 0}});
}

// Some are summed together, of lines of a vector to several, and cut into parts.
TEST(ConvPlanes, ManyResults) {
  for (const int64_t width : {1, 9, 16, 17, 40, 49, 64, 80, 130}) {
    Check(1, 1, 19, 1, {{9, 3, 1, 1, 1, 1}, {width, 3, 1, 1, 1, 1}});
    Check(2, 2, 16, 1, {{6, 5, 2, 1, 2, 2}, {width + 5, 5, 2, 1, 1, 2}});
  }
  for (const int64_t stride : {1, 2, 3, 4, 5, 8, 10, 16}) {
    Check(1, 1, 36, 1, {{1, 1, 1, 1, 0, 0}, {3000, 20, stride, 1, 0, 0}});
    Check(2, 3, 11, 1, {{1, 1, 1, 1, 0, 0}, {700, 7, stride, 2, 9, 2}});
  }
  Check(1, 1, 24, 1, {{150, 3, 1, 1, 1, 1}, {97, 3, 1, 1, 1, 1}});
  Check(1, 4, 34, 1, {{1, 1, 1, 1, 0, 0}, {9001, 9, 4, 1, 4, 4}});
  Check(2, 4, 40, 2, {{60, 2, 2, 1, 0, 0}, {70, 2, 2, 1, 0, 0}});
  Check(1, 1, 12, 1, {{1, 1, 1, 1, 0, 0}, {1500, 448, 1, 1, 224, 223}});  // as long as a chain
  Check(1, 1, 12, 1, {{1, 1, 1, 1, 0, 0}, {1500, 449, 1, 1, 224, 224}});
  Check(1, 2, 9, 1, {{40, 1, 1, 1, 0, 0}, {0, 3, 1, 1, 1, 1}});  // of nothing
}

// Planes read where they lie: fewer pixels than a vector, blocks of them, some results at a time.
TEST(ConvPlanes, SinglePixels) {
  for (const int64_t width : {1, 3, 8, 15, 16, 17, 33, 63, 130}) {
    for (const int64_t results : {1, 2, 3, 5, 8, 13}) {
      Check(2, 3, results, 1, {{3, 1, 1, 1, 0, 0}, {width, 1, 1, 1, 0, 0}});
    }
  }
  Check(1, 1, 2, 1, {{1, 1, 1, 1, 0, 0}, {9001, 1, 1, 1, 0, 0}});
  Check(1, 48, 70, 1, {{31, 1, 1, 1, 0, 0}, {33, 1, 1, 1, 0, 0}});
  Check(2, 60, 33, 3, {{31, 1, 1, 1, 0, 0}, {33, 1, 1, 1, 0, 0}});
  Check(3, 40, 80, 20, {{9, 1, 1, 1, 0, 0}, {7, 1, 1, 1, 0, 0}});
  Check(1, 384, 10, 1, {{12, 1, 1, 1, 0, 0}, {12, 1, 1, 1, 0, 0}});
  Check(1, 900, 4, 1, {{5, 1, 1, 1, 0, 0}, {40, 1, 1, 1, 0, 0}});  // longer than a chain
  Check(1, 6, 4, 2, {{5, 1, 1, 1, 0, 0}, {7, 1, 1, 1, 0, 0}, {9, 1, 1, 1, 0, 0}});
}

TEST(ConvPlanes, ThreeAxes) {
  const Axis small{6, 3, 1, 1, 1, 1}, row{19, 3, 1, 1, 1, 1}, column{35, 3, 1, 1, 1, 1};
  Check(1, 70, 3, 1, {small, row, column});
  Check(1, 1, 1, 1, {small, row, column});
  Check(2, 5, 5, 5, {small, row, column});
  Check(1, 4, 6, 2, {small, {19, 5, 1, 1, 2, 2}, {35, 5, 1, 1, 2, 2}});
  Check(1, 3, 3, 3, {{9, 3, 2, 2, 2, 2}, {19, 3, 2, 1, 1, 1}, {35, 4, 3, 2, 2, 3}});
  Check(2, 3, 3, 3, {{9, 1, 2, 1, 0, 0}, row, column});
  Check(1, 2, 4, 2, {{9, 7, 1, 1, 3, 3}, {19, 1, 1, 1, 0, 0}, {35, 1, 1, 1, 0, 0}});
  Check(2, 4, 2, 2, {{9, 3, 2, 1, 1, 1}, {19, 1, 1, 1, 0, 0}, {35, 1, 1, 1, 0, 0}});
  Check(1, 2, 2, 2, {{9, 40, 1, 1, 20, 20}, row, {35, 1, 1, 1, 0, 0}});
  // Depths that see nothing but padding.
  Check(1, 2, 2, 2, {{4, 2, 1, 1, 5, 6}, row, column});
  Check(1, 2, 2, 2, {{9, 3, 1, 1, -2, -1}, row, column});
}

TEST(ConvPlanes, RefusesWhatItCannotHold) {
  const Axis row{90, 3, 1, 1, 1, 1};
  EXPECT_EQ(ConvPlanesRefusal(Shape(1, 4, 4, {row, {90, 65}}, 4)), "its window is wide");
  EXPECT_EQ(ConvPlanesRefusal(Shape(1, 4, 4, {{90, 2, 1, 64}, row}, 4)), "its window is wide");
  EXPECT_EQ(ConvPlanesRefusal(Shape(1, 4, 4, {row, {90, 3, 5}}, 4)), "its stride is long");
  const Axis pixel{90, 1, 1, 1, 0, 0};
  EXPECT_EQ(ConvPlanesRefusal(Shape(1, 4, 4, {{200, 128}, pixel}, 4)), "");
  EXPECT_EQ(ConvPlanesRefusal(Shape(1, 4, 4, {{200, 129}, pixel}, 4)), "its window is wide");
}

}  // namespace
}  // namespace sardonyx
