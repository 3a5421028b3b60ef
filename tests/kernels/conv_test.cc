#include "kernels/conv.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "conv_check.h"
#include "each_target.h"

namespace sardonyx {
namespace {

TEST(Conv, Pointwise) {
  for (const int64_t c : {20, 960}) CheckConv(Shape(1, c, c == 20 ? 30 : 90, {{7}, {9}}));
  CheckConv(Shape(2, 8, 24, {{14}, {14}}));
  CheckConv(Shape(1, 13, 7, {{5, 1, 2}, {6, 1, 3}}));
  CheckConv(Shape(1, 1024, 40, {{3}, {5}}));
  CheckConv(Shape(1, 70, 90, {{40}, {40}}));
}

TEST(Conv, ThreeByThree) {
  for (const int64_t side : {1, 2, 3, 5, 8, 13}) {
    CheckConv(Shape(1, 17, 21, {{side, 3, 1, 1, 1, 1}, {side + 1, 3, 1, 1, 1, 1}}));
  }
  CheckConv(Shape(2, 32, 40, {{12, 3, 1, 1, 1, 1}, {10, 3, 1, 1, 0, 2}}));
  CheckConv(Shape(3, 5, 6, {{9, 3, 1, 1, 2, 0}, {7, 3, 1, 1, 0, 0}}));
  CheckConv(Shape(1, 48, 64, {{57, 3, 1, 1, 1, 1}, {58, 3, 1, 1, 1, 1}}));
  CheckConv(Shape(1, 512, 33, {{6, 3, 1, 1, 1, 1}, {6, 3, 1, 1, 1, 1}}));
  CheckConv(Shape(1, 260, 36, {{33, 3, 1, 1, 1, 1}, {32, 3, 1, 1, 1, 1}}));
  CheckConv(Shape(1, 18, 20, {{11, 3, 2, 1, 1, 1}, {12, 3, 2, 1, 1, 1}}));
  CheckConv(Shape(1, 64, 40, {{29, 3, 2, 1, 0, 1}, {30, 3, 2, 1, 1, 0}}));
  CheckConv(Shape(2, 21, 17, {{2, 3, 2, 1, 2, 2}, {7, 3, 2, 1, 0, 0}}));
  CheckConv(Shape(1, 48, 48, {{14, 3, 2, 1, 1, 1}, {14, 3, 2, 1, 1, 1}}, 2));
  CheckConv(Shape(1, 18, 20, {{11, 3, 1, 2, 2, 2}, {12, 3, 1, 3, 3, 3}}));
}

// Weights that are transformed in each run: some channels, a panel, all at a time.
TEST(Conv, LargeWinogradWeights) {
  const auto check = [](int64_t cin, int64_t cout, int64_t height, int64_t width) {
    CheckConv(Shape(1, cin, cout, {{height, 3, 1, 1, 1, 1}, {width, 3, 1, 1, 1, 1}}),
              ConvAlgorithm::kWinograd4, false, Finish::kBiasRelu, false);
  };
  check(400, 292, 9, 7);
  check(1030, 116, 5, 4);
  check(400, 292, 25, 17);
  check(1200, 100, 28, 28);
  check(230, 130, 33, 31);  // less of them, for many tiles
}

// Groups whose values are transformed some at a time, the last ones fewer; strided as well.
TEST(Conv, WinogradOfManyGroups) {
  CheckConv(Shape(1, 224, 231, {{37, 3, 1, 1, 1, 1}, {34, 3, 1, 1, 0, 1}}, 7),
            ConvAlgorithm::kWinograd4, false, Finish::kBiasRelu, false);
  CheckConv(Shape(2, 240, 80, {{48, 3, 2, 1, 1, 1}, {47, 3, 2, 1, 1, 1}}, 5),
            ConvAlgorithm::kStrided2, false, Finish::kBiasRelu, false);
}

// Weights that are transformed in registers: up to four tiles, whole and cut.
TEST(Conv, WinogradOfFewTiles) {
  for (const int64_t height : {1, 2, 3, 4, 5, 6, 7, 8}) {
    for (const int64_t width : {1, 4, 6, 7, 8, 15}) {
      CheckConv(Shape(1, 19, 64, {{height, 3, 1, 1, 1, 1}, {width, 3, 1, 1, 1, 1}}),
                ConvAlgorithm::kWinograd4, false, Finish::kBiasRelu, false);
    }
  }
  for (const int64_t side : {9, 10, 11, 12, 13, 14, 15, 16}) {
    CheckConv(Shape(1, 21, 48, {{side, 3, 1, 1, 1, 1}, {25 - side, 3, 1, 1, 1, 1}}),
              ConvAlgorithm::kWinograd4, false, Finish::kBiasRelu, false);
    CheckConv(Shape(1, 40, 16, {{side, 3, 1, 1, 1, 1}, {side, 3, 1, 1, 1, 1}}));
  }
  CheckConv(Shape(1, 33, 32, {{50, 3, 1, 1, 1, 1}, {3, 3, 1, 1, 1, 1}}));
  CheckConv(Shape(1, 33, 32, {{2, 3, 1, 1, 1, 1}, {62, 3, 1, 1, 1, 1}}));
  CheckConv(Shape(1, 400, 256, {{14, 3, 1, 1, 1, 1}, {14, 3, 1, 1, 1, 1}}));
  CheckConv(Shape(1, 300, 32, {{7, 3, 1, 1, 1, 1}, {7, 3, 1, 1, 1, 1}}));
  CheckConv(Shape(2, 130, 128, {{8, 3, 1, 1, 1, 1}, {5, 3, 1, 1, 0, 0}}, 2));
  CheckConv(Shape(3, 40, 32, {{3, 3, 1, 1, 1, 1}, {5, 3, 1, 1, 0, 1}}));
}

// What whole vectors of channels leave, of any number.
TEST(Conv, WinogradOfAnyChannels) {
  for (const int64_t channels : {1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 18, 23, 28, 31}) {
    for (const int64_t kernel : {3, 5}) {
      const int64_t pad = kernel / 2;
      CheckConv(Shape(1, channels, channels + 1,
                      {{13, kernel, 1, 1, pad, pad}, {14, kernel, 1, 1, pad, pad}}));
    }
  }
}

TEST(Conv, FirstLayers) {
  CheckConv(Shape(1, 3, 16, {{23, 7, 2, 1, 3, 3}, {22, 7, 2, 1, 3, 3}}));
  CheckConv(Shape(1, 1, 9, {{9, 3, 1, 1, 1, 1}, {30, 3, 1, 1, 1, 1}}));
  CheckConv(Shape(2, 3, 20, {{16, 4, 4}, {16, 4, 4}}));
  CheckConv(Shape(1, 3, 16, {{23, 7, 2, 1, 3, 3}, {40, 7, 2, 1, 3, 3}}));
  CheckConv(Shape(2, 5, 9, {{6, 3, 1, 3, 4, 4}, {20, 5, 1, 1, 4, 3}}));
  CheckConv(Shape(1, 90, 20, {{14, 3, 2, 1, 1, 1}, {31, 3, 2, 1, 2, 0}}));
}

// Kernels of 3 or 4 steps of the stride.
TEST(Conv, PhasesOfFewChannels) {
  CheckConv(Shape(2, 3, 70, {{29, 7, 2, 1, 3, 3}, {31, 7, 2, 1, 3, 2}}));
  CheckConv(Shape(1, 3, 20, {{40, 11, 4, 1, 2, 2}, {37, 11, 4, 1, 2, 2}}));
  CheckConv(Shape(1, 4, 33, {{15, 8, 2, 1, 3, 3}, {14, 8, 2, 1, 0, 0}}));
  CheckConv(Shape(1, 5, 17, {{12, 6, 2, 1, 2, 2}, {13, 5, 2, 1, 2, 2}}));
  CheckConv(Shape(2, 2, 9, {{20, 4, 1, 1, 1, 1}, {9, 4, 1, 1, 0, 3}}));
  CheckConv(Shape(1, 1, 21, {{31, 12, 3, 1, 5, 5}, {50, 10, 3, 1, 4, 4}}));
  CheckConv(Shape(1, 16, 40, {{19, 5, 2, 1, 2, 2}, {20, 6, 2, 1, 2, 2}}));
  CheckConv(Shape(1, 1, 5, {{40, 24, 8, 1, 9, 9}, {60, 24, 8, 1, 9, 9}}));
  CheckConv(Shape(3, 3, 16, {{2, 7, 2, 1, 3, 3}, {1, 7, 2, 1, 3, 3}}));
  CheckConv(Shape(1, 16, 16, {{13, 3, 1, 1, 1, 1}, {12, 3, 1, 1, 1, 1}}));
}

// Over three axes: the depths that a kernel sees are more channels.
TEST(Conv, PhasesOfVolumes) {
  const Axis seven = {23, 7, 2, 1, 3, 3}, three = {14, 3, 1, 1, 1, 1};
  CheckConv(Shape(1, 3, 20, {{5, 3, 1, 1, 1, 1}, seven, {31, 7, 2, 1, 3, 2}}));
  CheckConv(Shape(2, 3, 16, {{6, 5, 2, 1, 2, 2}, seven, seven}));
  CheckConv(Shape(1, 2, 21, {{7, 3, 2, 2, 2, 1}, {13, 8, 2, 1, 3, 3}, {40, 8, 2, 1, 3, 3}}));
  CheckConv(Shape(2, 1, 17, {{5, 3, 1, 1, 1, 1}, three, {33, 3, 1, 1, 1, 1}}));
  CheckConv(Shape(1, 5, 16, {{4, 4, 1, 1, 3, 0}, three, three}));
  CheckConv(Shape(1, 3, 33, {{3, 1, 2, 1, 0, 0}, seven, seven}));
  CheckConv(Shape(1, 2, 9, {{2, 3, 1, 1, 4, 3}, {9, 3, 1, 1, 0, 0}, three}));  // depths of padding
}

// Kernels 3 or 4 pixels wide over few channels: runs of 32 strips and what is left, lines that
// repeat, of which some are skipped, and that lie outside.
TEST(Conv, StripsOfFewChannels) {
  CheckConv(Shape(2, 3, 16, {{9, 3, 1, 1, 1, 1}, {131, 3, 1, 1, 1, 1}}));
  CheckConv(Shape(1, 3, 35, {{33, 3, 1, 1, 1, 1}, {16, 3, 1, 1, 0, 0}}));
  CheckConv(Shape(1, 1, 7, {{12, 4, 2, 1, 1, 2}, {21, 4, 1, 1, 1, 2}}));
  CheckConv(Shape(1, 2, 20, {{11, 2, 1, 3, 4, 1}, {30, 3, 1, 1, 2, 2}}));
  CheckConv(Shape(3, 5, 18, {{1}, {200, 3, 1, 1, 1, 1}}));
  CheckConv(Shape(1, 13, 33, {{5, 5, 3, 2, 6, 5}, {10, 3, 1, 1, 1, 0}}));
  CheckConv(Shape(1, 4, 16, {{40, 1, 4}, {5, 4, 1, 1, 3, 3}}));
}

TEST(Conv, FiveByFive) {
  CheckConv(Shape(1, 20, 24, {{13, 5, 1, 1, 2, 2}, {14, 5, 1, 1, 2, 2}}));
  CheckConv(Shape(2, 33, 70, {{8, 5, 1, 1, 1, 3}, {9, 5, 1, 1, 0, 0}}));
  CheckConv(Shape(1, 32, 40, {{1, 5, 1, 1, 2, 2}, {27, 5, 1, 1, 2, 2}}, 2));
  for (const int64_t side : {3, 5, 6, 8, 9, 14}) {
    CheckConv(Shape(1, 17, 21, {{side, 5, 2, 1, 2, 2}, {side + 2, 5, 2, 1, 1, 2}}));
  }
  CheckConv(Shape(2, 40, 70, {{21, 5, 2, 1, 0, 0}, {24, 5, 2, 1, 3, 1}}));
  CheckConv(Shape(1, 34, 40, {{7, 5, 2, 1, 2, 2}, {26, 5, 2, 1, 2, 2}}, 2));
}

// Winograd in the last two dimensions, the direct sum over the first.
TEST(Conv, Volumes) {
  const Axis whole = {9, 3, 1, 1, 1, 1}, odd = {11, 3, 1, 1, 1, 1};
  CheckConv(Shape(1, 17, 21, {{5, 3, 1, 1, 1, 1}, whole, odd}));
  CheckConv(Shape(2, 20, 40, {{4, 3, 2, 1, 1, 0}, odd, {8, 3, 1, 1, 0, 2}}));
  CheckConv(Shape(1, 16, 16, {{7, 2, 1, 3, 2, 4}, whole, whole}));
  CheckConv(Shape(2, 18, 33, {{3}, odd, whole}));
  CheckConv(Shape(1, 16, 48, {{6, 1, 2, 1, 1, 1}, whole, whole}, 2));
  CheckConv(Shape(1, 20, 24, {{2, 5, 1, 1, 2, 2}, {7, 5, 1, 1, 2, 2}, {8, 5, 1, 1, 2, 2}}));
  CheckConv(Shape(1, 24, 20, {{4, 3, 2, 1, 1, 1}, {9, 3, 2, 1, 1, 1}, {14, 3, 2, 1, 1, 1}}));
  CheckConv(Shape(1, 171, 32, {{2, 3, 1, 1, 1, 1}, {4, 3, 1, 1, 1, 1}, {5, 3, 1, 1, 1, 1}}));
  CheckConv(Shape(1, 3, 16, {{4, 3, 1, 1, 1, 1}, odd, {23, 3, 1, 1, 1, 1}}));
  CheckConv(Shape(2, 1, 9, {{5, 3, 2, 2, 1, 2}, {6, 3, 2, 2, 1, 1}, {30, 3, 2, 1, 1, 1}}));
  CheckConv(Shape(1, 340, 128, {{2, 3, 1, 1, 1, 1}, {16, 3, 1, 1, 1, 1}, {17, 3, 1, 1, 1, 1}}),
            ConvAlgorithm::kWinograd4, false, Finish::kBiasRelu, false);
}

// Winograd along one axis: segments of 3 or 4 taps, dilated, with rows of the kernel before it and
// pixels of other axes behind.
TEST(Conv, Lines) {
  for (const int64_t taps : {3, 4, 5, 7, 8, 11}) {
    for (const int64_t length : {1, 6, 47, 230}) {
      CheckConv(Shape(1, 17, 21, {{length, taps, 1, 1, taps / 2, taps / 2}}));
      CheckConv(Shape(2, 20, 70, {{length, taps, 1, 3, 3 * taps, taps}}));
    }
  }
  CheckConv(Shape(1, 130, 40, {{29, 16, 1, 1, 7, 8}}));
  CheckConv(Shape(1, 18, 33, {{9, 3, 1, 2, 2, 2}, {31, 3, 1, 2, 2, 2}}));
  CheckConv(Shape(1, 18, 33, {{11, 7, 1, 1, 3, 3}, {12}}));
  CheckConv(Shape(2, 18, 16, {{5, 3, 2, 1, 1, 1}, {11, 3, 1, 2, 2, 0}, {6}}));
  CheckConv(Shape(2, 18, 16, {{10, 3, 1, 2, 2, 2}, {7}, {6}}));
  CheckConv(Shape(1, 16, 20, {{5, 2, 1, 2, 1, 0}, {4, 3, 2, 1, 1, 1}, {21, 4, 1, 5, 6, 3}}));
}

TEST(Conv, OddKernels) {
  CheckConv(Shape(1, 6, 10, {{9, 1, 1, 1, 0, 0}, {12, 7, 1, 1, 3, 3}}));
  CheckConv(Shape(1, 6, 10, {{9, 2, 1, 1, 0, 1}, {12, 4, 3, 2, 5, 1}}));
  CheckConv(Shape(1, 4, 4, {{2, 5, 1, 1, 4, 4}, {2, 5, 1, 1, 4, 4}}));
}

// An axis of one tap may say any dilation.
TEST(Conv, DilationOfOneTap) {
  CheckConv(Shape(2, 24, 10, {{8, 3, 1, 2, 2, 2}, {33, 1, 1, 2, 0, 0}}));
  CheckConv(Shape(1, 24, 20, {{9, 5, 2, 1, 2, 2}, {41, 1, 2, 3, 0, 0}}));
  CheckConv(Shape(1, 24, 20, {{9, 1, 1, 3, 0, 0}, {21, 3, 1, 2, 2, 2}}));
  CheckConv(Shape(1, 16, 16, {{9, 3, 1, 2, 2, 2}, {21, 1, 1, 2, 0, 0}}, 16));
  CheckConv(Shape(1, 32, 32, {{9, 3, 1, 2, 2, 2}, {21, 1, 1, 2, 0, 0}}, 4));
  CheckConv(Shape(1, 20, 33, {{30, 1, 1, 2, 0, 0}}));
}

TEST(Conv, OneAndThreeDimensions) {
  CheckConv(Shape(2, 10, 12, {{50, 5, 2, 1, 2, 2}}));
  CheckConv(Shape(1, 7, 9, {{20, 3, 1, 4, 4, 4}}));
  CheckConv(Shape(1, 5, 6, {{5, 3, 1, 1, 1, 1}, {6, 3, 2, 1, 1, 1}, {7, 3, 1, 2, 2, 2}}));
  CheckConv(Shape(1, 6, 6, {{5, 3, 1, 1, 1, 1}, {6, 3, 2, 1, 1, 1}, {7, 3, 1, 2, 2, 2}}, 6));
  CheckConv(Shape(1, 40, 40, {{100, 9, 1, 1, 4, 4}}, 40));
}

// Windows of one line that overlap, of long sums.
TEST(Conv, WindowsAlongALine) {
  CheckConv(Shape(1, 96, 40, {{50, 24, 1, 1, 12, 11}}, 4));
  CheckConv(Shape(1, 100, 20, {{41, 8, 2, 1, 3, 3}}));
  CheckConv(Shape(1, 64, 36, {{4, 31, 3, 1, 30, 29}}, 2));  // all of them reach beyond
  CheckConv(Shape(1, 128, 96, {{150, 9, 1, 1, 4, 4}}));
  CheckConv(Shape(2, 64, 24, {{30, 9, 1, 1, 4, 4}}, 2));       // two lines
  CheckConv(Shape(1, 1024, 10, {{20, 3, 1, 1, 1, 1}}));        // rows that collide
  CheckConv(Shape(1, 64, 24, {{3, 1}, {30, 9, 1, 1, 4, 4}}));  // lines of an image
}

TEST(Conv, Groups) {
  CheckConv(Shape(1, 24, 36, {{6, 3, 1, 1, 1, 1}, {7, 3, 1, 1, 1, 1}}, 4));
  CheckConv(Shape(1, 12, 24, {{6, 3, 1, 1, 1, 1}, {7, 3, 1, 1, 1, 1}}, 12));
  CheckConv(Shape(2, 32, 32, {{5}, {6}}, 2));
  CheckConv(Shape(1, 38, 74, {{12, 3, 1, 1, 1, 1}, {13, 3, 1, 1, 1, 1}}, 2));
  CheckConv(Shape(1, 400, 80, {{9, 3, 1, 1, 1, 1}, {9, 3, 1, 1, 1, 1}}, 2));
  // Pixels a page apart.
  CheckConv(Shape(1, 512, 512, {{5, 3, 1, 1, 1, 1}, {30, 3, 2, 1, 1, 1}}, 64));
  // Windows that lie one behind the other.
  CheckConv(Shape(2, 68, 272, {{9}, {40, 4, 4}}, 4));
  CheckConv(Shape(1, 34, 68, {{5}, {21, 2, 3}}, 2));
  CheckConv(Shape(1, 600, 40, {{3}, {20, 2, 2}}, 2));
}

// Three positions of a line that share what is spread: tiles of each width, both ends of the lines
// inside and outside; groups of an odd number of channels, which make no pairs.
TEST(Conv, GroupsOfThreePositions) {
  for (const int64_t stride : {1, 2}) {
    for (const int64_t width : {1, 3, 4, 6, 7, 9, 14, 15, 29}) {
      for (const int64_t pad : {0, 1, 2}) {
        const int64_t in = (width - 1) * stride + 3 - std::min<int64_t>(pad, 1);
        const Axis line{in, 3, stride, 1, std::min<int64_t>(pad, 1), std::max<int64_t>(pad - 1, 0)};
        CheckConv(Shape(1, 24, 24, {{5, 3, 1, 1, 1, 1}, line}, 3));
        CheckConv(Shape(1, 10, 16, {{3, 3, stride, 1, 1, 0}, line}, 2));
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(Conv, FewLongLines) {
  // Lines are cut where they are fewer than tasks.
  CheckConv(Shape(1, 64, 64, {{1500, 3}}));
  CheckConv(Shape(1, 24, 72, {{2001, 5, 1, 1, 2, 2}}));
  CheckConv(Shape(2, 33, 40, {{2000, 4, 2, 1, 1, 2}}));
  CheckConv(Shape(1, 16, 32, {{3, 3, 1, 1, 1, 1}, {701, 5, 1, 1, 2, 2}}));
  // Threads share them.
  for (const int64_t width : {80, 97}) {
    CheckConv(Shape(1, 200, 110, {{3}, {width}}));
    CheckConv(Shape(1, 130, 24, {{12}, {width}}));
    CheckConv(Shape(1, 80, 80, {{5, 5, 1, 1, 2, 2}, {width, 5, 1, 1, 2, 2}}, 80));
    CheckConv(Shape(1, 72, 72, {{13, 3, 2, 1, 1, 1}, {width, 3, 1, 1, 1, 1}}, 72));
  }
}

TEST(Conv, Planes) {  // Check compares them with pixels
  for (const int64_t cin : {2, 3, 4}) {
    CheckConv(Shape(2, cin, 24, {{33, 3, 2, 1, 1, 0}, {40, 3, 2, 1, 0, 1}}));
    CheckConv(Shape(1, cin, 17, {{40, 3, 1, 1, 1, 1}, {37, 3, 1, 1, 1, 1}}));
    CheckConv(Shape(1, cin, 16, {{60, 7, 2, 1, 3, 3}, {50, 7, 2, 1, 3, 3}}));
    CheckConv(Shape(2, cin, 24, {{16, 4, 4}, {52, 4, 4}}));
    CheckConv(Shape(1, cin, 8, {{9, 3, 1, 2, 2, 2}, {30, 3, 1, 2, 2, 2}}));
  }
  CheckConv(Shape(2, 3, 16, {{5, 3, 1, 1, 1, 1}, {6, 3, 1, 1, 1, 1}, {17, 3, 1, 1, 1, 1}}));
  CheckConv(Shape(2, 4, 16, {{401, 5, 1, 1, 2, 2}}));
}

TEST(Conv, FewPixelsManyChannels) {
  CheckConv(Shape(1, 96, 640, {{7, 3, 1, 1, 1, 1}, {7, 3, 1, 1, 1, 1}}));
  CheckConv(Shape(1, 96, 640, {{7, 3, 2, 1, 1, 1}, {7, 3, 2, 1, 1, 1}}));
  // Of which the last part of the rows would have few.
  CheckConv(Shape(1, 960, 150, {{7}, {7}}));
  CheckConv(Shape(1, 960, 150, {{6}, {7}}));  // 7 to a part would be summed in another order
  CheckConv(Shape(1, 300, 90, {{31}, {31}}));
  CheckConv(Shape(1, 700, 130, {{11}, {15}}));
}

// Windows that mostly see padding: kernel positions that none sees, that some see, and that all see
// from end to end of their lines; maps of a few pixels.
TEST(Conv, MostlyPadding) {
  const std::vector<Axis> cases[] = {
      {{12, 3, 1, 6, 6, 6}, {13, 3, 1, 6, 6, 6}},
      {{12, 3, 1, 12, 12, 12}, {9, 3, 1, 9, 9, 9}},
      {{12, 3, 1, 15, 15, 15}, {20, 3, 1, 1, 1, 1}},
      {{9, 5, 2, 4, 8, 8}, {11, 3, 3, 7, 7, 6}},
      {{1, 3, 1, 1, 1, 1}, {1, 3, 1, 1, 1, 1}},
      {{2, 7, 1, 1, 3, 3}, {2, 7, 1, 1, 3, 3}},
      {{2, 4, 2, 1, 1, 1}, {2, 4, 2, 1, 1, 1}},
      {{30, 3, 1, 14, 14, 14}},
      {{3, 3, 1, 2, 2, 2}, {4, 3, 1, 3, 3, 3}, {5, 3, 1, 4, 4, 4}},
      {{4, 3, 1, 9, 5, 15}, {6, 3, 1, 1, 1, 1}},  // lines that see nothing
  };
  for (const std::vector<Axis>& axes : cases) {
    CheckConv(Shape(2, 20, 40, axes));
    CheckConv(Shape(1, 48, 96, axes, 3));
    if (testing::Test::HasFatalFailure()) return;
  }
  CheckConv(Shape(1, 1030, 70, cases[0]), ConvAlgorithm::kTaps, false, Finish::kBiasRelu);
  CheckConv(Shape(1, 16, 70, {{60, 3, 1, 50, 50, 50}, {70, 3, 1, 50, 50, 50}}),
            ConvAlgorithm::kTaps, false, Finish::kResidual);
}

TEST(ConvTranspose, KernelEqualsStride) {
  const std::vector<Axis> axes = {{5, 2, 2}, {7, 2, 2}};
  CheckTransposed(Transposed(Shape(2, 20, 30, axes), axes));
  CheckTransposed(Transposed(Shape(1, 1024, 40, axes), axes));
  CheckTransposed(Transposed(Shape(1, 700, 140, axes), axes));
}

TEST(ConvTranspose, Depthwise) {
  for (const int64_t channels : {2, 7, 24, 37}) {
    const std::vector<Axis> two = {{5, 4, 2, 1, 1, 1}, {6, 4, 2, 1, 1, 1}};
    CheckTransposed(Transposed(Shape(2, channels, channels, two, channels), two));
    const std::vector<Axis> sparse = {{4, 2, 5}, {7, 3, 1, 2, 2, 1}};
    CheckTransposed(Transposed(Shape(1, channels, channels, sparse, channels), sparse));
  }
}

TEST(ConvTranspose, Overlapping) {
  const std::vector<Axis> two = {{5, 4, 2, 1, 1, 1}, {6, 4, 2, 1, 1, 1}};
  CheckTransposed(Transposed(Shape(1, 12, 10, two), two));
  CheckTransposed(Transposed(Shape(2, 12, 10, two, 2), two));
  const std::vector<Axis> padded = {{5, 3, 2, 1, 1, 0}, {6, 3, 2, 1, 0, -1}};
  CheckTransposed(Transposed(Shape(1, 9, 33, padded), padded));
  const std::vector<Axis> dilated = {{5, 3, 1, 2, 2, 1}, {6, 3, 3, 2, 1, 4}};
  CheckTransposed(Transposed(Shape(1, 9, 12, dilated, 3), dilated));
  const std::vector<Axis> sparse = {{4, 2, 5}, {3, 1, 4}};
  CheckTransposed(Transposed(Shape(1, 9, 12, sparse), sparse));
  const std::vector<Axis> one = {{20, 5, 3, 1, 2, 2}};
  CheckTransposed(Transposed(Shape(2, 9, 12, one), one));
  const std::vector<Axis> three = {{3, 3, 2, 1, 1, 1}, {4, 2, 2}, {5, 3, 1, 1, 1, 1}};
  CheckTransposed(Transposed(Shape(1, 6, 8, three), three));
}

// All pixels of a small map at once, for weights are large.
TEST(ConvTranspose, SmallMaps) {
  const std::vector<Axis> usual = {{4, 4, 2, 1, 1, 1}, {5, 4, 2, 1, 1, 1}};
  CheckTransposed(Transposed(Shape(1, 300, 72, usual), usual));
  CheckTransposed(Transposed(Shape(2, 1024, 40, usual), usual));  // rows that collide
  CheckTransposed(Transposed(Shape(1, 600, 66, usual, 2), usual));
  CheckTransposed(Transposed(Shape(2, 2048, 80, usual, 2), usual));
  const std::vector<Axis> tiny = {{2, 4, 2, 1, 1, 1}, {2, 4, 2, 1, 1, 1}};
  CheckTransposed(Transposed(Shape(1, 26 * 400, 26 * 16, tiny, 26), tiny));   // more than tasks
  const std::vector<Axis> sparse = {{2, 3, 4, 2, 1, 0}, {3, 3, 5, 1, 0, 2}};  // some stay zero
  CheckTransposed(Transposed(Shape(2, 500, 40, sparse), sparse));
  CheckTransposed(Transposed(Shape(2, 1000, 80, sparse, 2), sparse));
  const std::vector<Axis> volume = {{2, 3, 1, 1, 1, 1}, {3, 3, 2, 1, 1, 0}, {2, 2, 2}};
  CheckTransposed(Transposed(Shape(1, 200, 35, volume), volume));
}

// Windows that are long beside lines, and what fills a part of a vector of channels.
TEST(ConvTranspose, AllTaps) {
  const std::vector<Axis> cases[] = {
      {{40, 90, 1, 1, 7, 5}},    // longer than lines
      {{50, 30, 3, 1, 2, 1}},    // of one line, in several blocks
      {{33, 40, 2, 2, 11, 10}},  // dilated
      {{5, 6, 4, 1, 2, 3}, {6, 3, 1, 1, 1, 1}},
      {{9, 5, 5}, {11, 4, 4}},  // which touch
      {{9, 3, 2, 1, 0, -1}, {30, 5, 1, 1, 2, 2}},
      {{60, 2, 3, 1, 1, -1}, {4, 3, 5, 1, 0, 2}},  // with gaps
  };
  for (const std::vector<Axis>& axes : cases) {
    for (const int64_t cout : {5, 8, 15, 35}) {
      CheckTransposed(Transposed(Shape(2, 19, cout, axes), axes));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  CheckTransposed(Transposed(Shape(1, 900, 12, cases[3]), cases[3]));
}

TEST(ConvTranspose, ToFewChannels) {
  const std::vector<Axis> cases[] = {
      {{5, 4, 2, 1, 1, 1}, {6, 4, 2, 1, 1, 1}},
      {{45, 4, 2, 1, 1, 1}, {33, 4, 2, 1, 1, 1}},
      {{5, 3, 2, 1, 1, 0}, {6, 3, 2, 1, 0, -1}},
      {{5, 3, 1, 2, 2, 1}, {6, 3, 3, 2, 1, 4}},
      {{4, 2, 5}, {3, 1, 4}},
      {{30, 2, 2}, {41, 2, 2}},
      {{3, 2, 1, 1, 0, -5}, {2, 5, 2, 1, 2, 2}},
      {{150, 16, 8, 1, 4, 4}},
      {{7000, 9, 4, 1, 2, 3}},  // of one line, in several blocks
      {{40, 3, 5, 1, 12, -2}},  // with gaps
      {{1, 3, 1, 1, 1, 1}, {70, 3, 1, 1, 1, 1}},
      {{60, 1, 2}, {3, 7, 1, 1, 3, 3}},
      {{5, 3, 2, 1, 1, 0}, {4, 2, 2}, {6, 4, 2, 1, 1, 1}},
      {{9, 3, 1, 2, 2, 1}, {1, 3, 1, 1, 1, 1}, {7, 1, 3}},
      {{4, 3, 4, 1, 0, -1}, {5, 4, 4}, {1, 5, 1, 1, 2, 2}},
      {{1, 3, 1, 1, 1, 1}, {6, 3, 2, 1, 1, 1}, {1, 3, 1, 1, 1, 1}},
  };
  for (const std::vector<Axis>& axes : cases) {
    for (const int64_t cout : {1, 3, 4, 9}) {
      CheckTransposed(Transposed(Shape(2, 16, cout, axes), axes));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  CheckTransposed(Transposed(Shape(1, 900, 2, cases[0]), cases[0]));
}

TEST(Conv, NotANumberPassesThroughClamp) {
  const Expression relu = Expression::Parse("(float) relu(0):float");
  for (const int64_t groups : {1, 12}) {
    const ConvShape s = Shape(1, 12, 12, {{9, 3, 1, 1, 1, 1}, {9, 3, 1, 1, 1, 1}}, groups);
    const Floats x = Floats::Random(s.InPixels() * s.cin, 1);
    const Floats w = Floats::Random(s.cout * s.cin / groups * 9, 2);
    x[40 * 12] = std::numeric_limits<float>::quiet_NaN();
    for (int a = 0; a < kConvAlgorithmCount; ++a) {
      const auto algorithm = static_cast<ConvAlgorithm>(a);
      if (!ConvRefusal(algorithm, s).empty()) continue;
      SCOPED_TRACE(std::string(Name(algorithm)) + " groups " + std::to_string(groups));
      ForEachTarget([&] {
        const Floats packed(static_cast<int64_t>(ConvPackedBytes(algorithm, s) / sizeof(float)));
        const Floats scratch(
            static_cast<int64_t>(ConvScratchBytes(algorithm, s, 1) / sizeof(float)));
        const Floats y(s.OutPixels() * s.cout);
        ConvPack(algorithm, s, {w.get(), 0, s.cout}, packed.get(), OneThread());
        Conv(algorithm, s, x.get(), packed.get(), y.get(), {&relu, nullptr}, scratch.get(),
             OneThread());
        for (const int64_t pixel : {30, 40, 50}) {
          EXPECT_TRUE(std::isnan(y[pixel * s.cout])) << "pixel " << pixel;
        }
      });
    }
  }
}

}  // namespace
}  // namespace sardonyx
