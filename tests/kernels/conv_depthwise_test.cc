// Convolutions of single channels and of groups of few.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "conv_check.h"
#include "kernels/conv.h"

namespace sardonyx {
namespace {

TEST(Conv, Depthwise) {
  for (const int64_t channels : {1, 3, 8, 19, 32, 61, 96}) {
    CheckConv(Shape(1, channels, channels, {{9, 3, 1, 1, 1, 1}, {11, 3, 1, 1, 1, 1}}, channels));
  }
  for (const int64_t stride : {1, 2, 3}) {
    CheckConv(Shape(2, 40, 40, {{13, 5, stride, 1, 2, 2}, {14, 5, stride, 1, 2, 2}}, 40));
    CheckConv(Shape(1, 40, 40, {{9, 7, stride, 1, 3, 3}, {5, 7, stride, 1, 3, 3}}, 40));
    CheckConv(Shape(1, 24, 24, {{9, 3, stride, 2, 2, 2}, {15, 3, stride, 2, 0, 0}}, 24));
  }
  CheckConv(Shape(1, 48, 48, {{64, 3, 1, 1, 1, 1}, {64, 3, 1, 1, 1, 1}}, 48));
  // Phases of a dilated line, some without an input or an output.
  for (const int64_t channels : {16, 24, 40}) {
    for (const int64_t dilation : {2, 3, 9}) {
      const Axis lines = {7, 3, 1, dilation, dilation, dilation};
      for (const int64_t kernel : {3, 5, 7}) {
        const int64_t pad = kernel / 2 * dilation;
        const Axis pixels = {17, kernel, 1, dilation, pad, pad - 1};
        CheckConv(Shape(2, channels, channels, {lines, pixels}, channels));
        const Axis shifted = {21, kernel, 1, dilation, 1, 2 * pad + 5};
        CheckConv(Shape(1, channels, channels, {lines, shifted}, channels));
      }
      const Axis few = {2, 3, 1, dilation, 2 * dilation + 1, dilation};
      CheckConv(Shape(1, channels, channels, {lines, few}, channels));
    }
  }
  // Two lines at a time.
  for (const int64_t channels : {16, 24, 40}) {
    CheckConv(Shape(2, channels, channels, {{7, 3, 1, 1, 1, 1}, {7, 3, 1, 1, 1, 1}}, channels));
    CheckConv(Shape(1, channels, channels, {{2, 3, 1, 1, 1, 1}, {14, 3, 1, 1, 1, 1}}, channels));
    CheckConv(Shape(1, channels, channels, {{8, 3, 1, 1, 0, 0}, {13, 3, 1, 1, 0, 1}}, channels));
    CheckConv(Shape(2, channels, channels, {{14, 3, 2, 1, 1, 1}, {14, 3, 2, 1, 1, 1}}, channels));
    CheckConv(Shape(1, channels, channels, {{13, 3, 2, 1, 1, 1}, {15, 3, 2, 1, 1, 1}}, channels));
    CheckConv(Shape(1, channels, channels, {{16, 3, 2, 1, 0, 1}, {16, 3, 2, 1, 0, 1}}, channels));
    CheckConv(Shape(2, channels, channels, {{7, 5, 1, 1, 2, 2}, {7, 5, 1, 1, 2, 2}}, channels));
    CheckConv(Shape(1, channels, channels, {{2, 5, 1, 1, 2, 2}, {19, 5, 1, 1, 2, 2}}, channels));
    CheckConv(Shape(1, channels, channels, {{9, 5, 1, 1, 0, 1}, {12, 5, 1, 1, 1, 0}}, channels));
    CheckConv(Shape(2, channels, channels, {{9, 3, 2, 1, 1, 1}, {14, 3, 1, 1, 1, 1}}, channels));
    CheckConv(Shape(1, channels, channels, {{8, 3, 1, 1, 1, 1}, {27, 3, 2, 1, 1, 0}}, channels));
    CheckConv(Shape(2, channels, channels, {{9, 5, 2, 1, 2, 2}, {7, 5, 1, 1, 2, 2}}, channels));
    CheckConv(Shape(1, channels, channels, {{12, 5, 2, 1, 1, 2}, {19, 5, 1, 1, 2, 2}}, channels));
  }
  CheckConv(Shape(1, 104, 104, {{6, 5, 1, 1, 2, 2}, {83, 5, 1, 1, 2, 2}}, 104));
  for (const int64_t channels : {16, 20, 70}) {
    CheckConv(Shape(1, channels, channels, {{2, 7, 1, 1, 3, 3}, {8, 7, 1, 1, 3, 3}}, channels));
    CheckConv(Shape(2, channels, channels, {{7, 7, 1, 1, 3, 3}, {7, 7, 1, 1, 3, 3}}, channels));
    CheckConv(Shape(1, channels, channels, {{9, 7, 1, 1, 0, 2}, {19, 7, 1, 1, 1, 3}}, channels));
  }
  CheckConv(Shape(1, 16, 16, {{1, 9, 1, 1, 4, 4}, {2, 9, 1, 1, 4, 4}}, 16));
}

TEST(Conv, DepthwiseOfAnyWidth) {
  for (const int64_t channels : {5, 40}) {
    for (const int64_t kernel : {2, 4, 6, 9, 31}) {
      const int64_t pad = kernel / 2;
      for (const int64_t stride : {1, 2}) {
        const Axis line = {29, kernel, stride, 1, pad, kernel - 1};
        CheckConv(Shape(2, channels, channels, {line}, channels));
        CheckConv(Shape(1, channels, channels, {{7, 3, stride, 1, 1, 1}, line}, channels));
      }
      const Axis dilated = {31, kernel, 1, 2, 2 * pad, 2 * pad};
      CheckConv(Shape(1, channels, channels, {{6, 2, 1, 1, 1, 0}, dilated}, channels));
    }
    CheckConv(Shape(1, channels, channels, {{9, 9, 1, 1, 4, 4}, {9, 9, 1, 1, 4, 4}}, channels));
    // Long sums, in chains: of lines and of one line.
    CheckConv(Shape(1, channels, channels, {{23, 23, 1, 1, 11, 11}, {25, 23}}, channels));
    CheckConv(Shape(1, channels, channels, {{930, 907, 2, 1, 3, 4}}, channels));
  }
}

TEST(Conv, DepthwiseToSeveral) {
  for (const int64_t times : {2, 4}) {
    for (const int64_t channels : {2, 3, 5, 8, 19, 32, 61}) {
      const int64_t cout = channels * times;
      CheckConv(Shape(2, channels, cout, {{7, 3, 1, 1, 1, 1}, {11, 3, 1, 1, 1, 1}}, channels));
      CheckConv(Shape(1, channels, cout, {{9, 7, 2, 1, 3, 3}, {14, 7, 2, 1, 3, 3}}, channels));
      CheckConv(Shape(1, channels, cout, {{9, 2, 2, 1, 0, 1}, {12, 5, 1, 2, 4, 3}}, channels));
    }
    EXPECT_EQ(ChooseConv(Shape(1, 48, 48 * times, {{14, 7, 2, 1, 3, 3}}, 48)),
              ConvAlgorithm::kDepthwise);
  }
  EXPECT_NE(ConvRefusal(ConvAlgorithm::kDepthwise, Shape(1, 1, 4, {{14, 7, 2, 1, 3, 3}})), "");
  EXPECT_NE(ConvRefusal(ConvAlgorithm::kDepthwise, Shape(1, 4, 12, {{14, 7, 2, 1, 3, 3}}, 4)), "");
}

TEST(Conv, GroupsOfTwoAndFour) {
  for (const int64_t groups : {1, 3, 7, 10, 16}) {
    for (const int64_t group : {2, 4}) {
      const int64_t channels = groups * group;
      CheckConv(Shape(2, channels, channels, {{9, 3, 1, 1, 1, 1}, {11, 3, 1, 1, 1, 1}}, groups));
      CheckConv(Shape(1, channels, channels, {{9, 2, 2, 1, 0, 1}, {12, 5, 2, 2, 4, 3}}, groups));
    }
  }
  EXPECT_EQ(ChooseConv(Shape(1, 128, 128, {{9, 3}, {9, 3}}, 32)), ConvAlgorithm::kDepthwise);
}

TEST(Conv, GroupsOfFewChannels) {
  // Columns that are whole vectors, half of one and both; lines of all sizes of tiles.
  for (const int64_t group : {8, 16, 24, 40}) {
    for (const int64_t width : {1, 2, 3, 4, 5, 7, 8, 9, 13, 14, 16, 29}) {
      const int64_t channels = 3 * group;
      CheckConv(Shape(1, channels, channels, {{5, 3, 1, 1, 1, 1}, {width, 3, 1, 1, 1, 1}}, 3),
                ConvAlgorithm::kGroups, false, Finish::kBiasRelu);
    }
  }
  CheckConv(Shape(2, 32, 32, {{9, 3, 2, 1, 1, 1}, {11, 3, 2, 1, 1, 1}}, 4));
  CheckConv(Shape(1, 48, 48, {{14, 3, 1, 1, 1, 1}, {14, 3, 1, 1, 1, 1}}, 2));
  // More channels out than in, an odd number, and only one.
  CheckConv(Shape(2, 12, 96, {{6, 3, 1, 1, 1, 1}, {17, 3, 1, 1, 1, 1}}, 3));
  CheckConv(Shape(1, 9, 72, {{4, 5, 2, 1, 2, 2}, {20, 5, 2, 1, 2, 2}}, 3));
  CheckConv(Shape(1, 5, 40, {{4, 2, 1, 1, 0, 1}, {20, 4, 1, 1, 1, 2}}, 5));
  // Lines and planes that lie outside, pixels apart, pads of one side alone.
  CheckConv(Shape(2, 16, 16, {{3, 3, 1, 1, 1, 1}, {4, 3, 2, 1, 1, 1}, {9, 3, 1, 1, 1, 1}}, 2));
  CheckConv(Shape(1, 16, 16, {{7, 3, 1, 2, 3, 3}, {12, 2, 1, 3, 0, 0}}, 2));
  CheckConv(Shape(1, 16, 16, {{30, 3, 3, 1, 1, 1}}, 2));
  CheckConv(Shape(1, 64, 64, {{2, 3, 1, 1, 1, 1}, {40, 3, 1, 1, 1, 1}}, 8));
}

TEST(Conv, GroupsOfPixelsFarApart) {
  // Whose lines are copied before, at the edges of images as well.
  for (const int64_t groups : {4, 8, 16}) {
    for (const int64_t height : {1, 3, 9, 23}) {
      CheckConv(Shape(2, 128, 128, {{height, 3, 2, 1, 1, 1}, {17, 3, 2, 1, 1, 1}}, groups),
                ConvAlgorithm::kGroups, false, Finish::kBiasRelu);
    }
  }
  CheckConv(Shape(1, 256, 64, {{12, 3, 1, 2, 2, 2}, {29, 3, 1, 2, 2, 2}}, 8));
  CheckConv(Shape(1, 128, 128, {{7, 1, 2, 1, 0, 0}, {9, 1, 2, 1, 0, 0}}, 4));
  // Several groups are copied at once: the last ones fewer, of channels that are no whole vectors,
  // of lines so long that the room for them is full, and all of them outside the image.
  CheckConv(Shape(1, 384, 256, {{9, 3, 1, 1, 1, 1}, {11, 3, 1, 1, 1, 1}}, 32));
  CheckConv(Shape(2, 384, 384, {{10, 3, 2, 1, 1, 1}, {9, 3, 1, 1, 1, 1}}, 48));
  CheckConv(Shape(1, 256, 256, {{3, 3, 1, 1, 1, 1}, {300, 3, 2, 1, 1, 1}}, 16));
  CheckConv(Shape(1, 256, 256, {{2, 3, 1, 1, 9, 0}, {9, 3, 1, 1, 1, 1}}, 32));
  CheckConv(Shape(1, 128, 128, {{3, 3, 1, 1, 1, 1}, {4, 3, 2, 1, 1, 1}, {9, 3, 1, 1, 1, 1}}, 16));
}

TEST(Conv, GroupsThatOthersDo) {
  const auto refusal = [](const ConvShape& s) { return ConvRefusal(ConvAlgorithm::kGroups, s); };
  const std::vector<Axis> usual(2, {14, 3, 1, 1, 1, 1});
  EXPECT_EQ(refusal(Shape(1, 32, 32, usual, 4)), "");
  EXPECT_EQ(refusal(Shape(1, 32, 32, usual)), "has no groups");
  EXPECT_EQ(refusal(Shape(1, 48, 48, usual, 4)), "the channels of a group are no multiple of 8");
  EXPECT_EQ(refusal(Shape(1, 128, 128, usual, 2)), "sums are long");
  EXPECT_EQ(refusal(Shape(1, 32, 32, {{90, 65}, {9, 1}}, 16)),
            "the channels of a group are no multiple of 8");
  EXPECT_EQ(refusal(Shape(1, 8, 32, {{90, 65}, {9, 1}}, 4)), "the kernel has many lines");
  EXPECT_EQ(refusal(Shape(1, 32, 32, {{14, 5, 1, 1, 2, 2}, {14, 5, 1, 1, 2, 2}}, 4)),
            "the kernel reaches far beyond lines");
  EXPECT_EQ(refusal(Shape(1, 32, 32, {{14, 5, 1, 1, 0, 2}, {14, 5, 1, 1, 0, 2}}, 4)),
            "the kernel reaches far beyond lines");
}

}  // namespace
}  // namespace sardonyx
