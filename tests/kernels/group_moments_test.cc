#include "kernels/group_moments.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "random_data.h"

namespace sardonyx {
namespace {

struct Size {
  int64_t batch, pixels, channels, groups;
};

template <typename T>
struct Found {
  std::vector<T> mean, factor;
};

template <typename T>
Found<T> MomentsOf(const Size& s, const std::vector<T>& x, const T* scale, double epsilon,
                   int threads) {
  const auto count = static_cast<size_t>(s.batch * s.channels);
  Found<T> found{std::vector<T>(count), std::vector<T>(count)};
  std::vector<std::byte> scratch(
      GroupMomentsScratchBytes(s.batch, s.pixels, s.channels, s.groups, threads));
  GroupMoments(GroupMomentsArgs<T>{.x = x.data(),
                                   .scale = scale,
                                   .mean = found.mean.data(),
                                   .factor = found.factor.data(),
                                   .batch = s.batch,
                                   .pixels = s.pixels,
                                   .channels = s.channels,
                                   .groups = s.groups,
                                   .epsilon = epsilon},
               scratch.data(), test::Threads(threads));
  return found;
}

// Against plain loops in double. rounding: of a value, relative.
template <typename T>
void Check(const Size& s, float offset, bool has_scale, double rounding) {
  SCOPED_TRACE(testing::Message() << s.batch << "x" << s.pixels << "x" << s.channels << " in "
                                  << s.groups << " groups, around " << offset);
  const auto floats = test::RandomFloats(static_cast<size_t>(s.batch * s.pixels * s.channels), 1,
                                         offset - 1, offset + 1);
  const auto scales = test::RandomFloats(static_cast<size_t>(s.channels), 2);
  const std::vector<T> x(floats.begin(), floats.end()), scale(scales.begin(), scales.end());
  constexpr double kEpsilon = 1e-3;
  const auto found = MomentsOf<T>(s, x, has_scale ? scale.data() : nullptr, kEpsilon, 1);
  const auto again = MomentsOf<T>(s, x, has_scale ? scale.data() : nullptr, kEpsilon, 2);
  EXPECT_TRUE(test::SameBits(found.mean, again.mean));
  EXPECT_TRUE(test::SameBits(found.factor, again.factor));
  const int64_t each = s.channels / s.groups;
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t c = 0; c < s.channels; ++c) {
      const auto sum_of = [&](auto&& term) {
        double sum = 0;
        for (int64_t p = 0; p < s.pixels; ++p) {
          for (int64_t i = c / each * each; i < (c / each + 1) * each; ++i) {
            sum += term(static_cast<double>(x[(n * s.pixels + p) * s.channels + i]));
          }
        }
        return sum / static_cast<double>(s.pixels * each);
      };
      const double mean = sum_of([](double value) { return value; });
      const double variance = sum_of([&](double value) { return (value - mean) * (value - mean); });
      const double factor = (has_scale ? scale[c] : 1.0) / std::sqrt(variance + kEpsilon);
      const double size = std::abs(offset) + 1;
      ASSERT_NEAR(found.mean[n * s.channels + c], mean, rounding * size) << "channel " << c;
      ASSERT_NEAR(found.factor[n * s.channels + c], factor, 4 * rounding * std::abs(factor))
          << "channel " << c;
    }
  }
}

TEST(GroupMoments, AgreeWithDouble) {
  test::ForEachTarget([] {
    for (const Size& s : {Size{1, 1, 1, 1},
                          {2, 7, 6, 3},
                          {1, 100, 32, 8},
                          {3, 65, 33, 33},
                          {1, 1000, 40, 5},
                          {2, 300, 129, 43},
                          {1, 9, 2048, 32},
                          {1, 4000, 96, 1}}) {
      for (const bool has_scale : {false, true}) {
        for (const float offset : {0.0f, 50.0f}) {
          Check<float>(s, offset, has_scale, 1.2e-7);
          Check<double>(s, offset, has_scale, 1e-14);
        }
      }
    }
  });
}

// Sums of squares of the values themselves would leave no digit of so small a variance.
TEST(GroupMoments, OfValuesThatAreFarFromZero) {
  test::ForEachTarget([] { Check<double>({1, 500, 24, 4}, 1e6f, false, 1e-11); });
}

// The first pixels tell nothing of the others.
TEST(GroupMoments, OfPixelsUnlikeTheFirst) {
  const Size s{1, 4096, 16, 4};
  std::vector<float> x(static_cast<size_t>(s.pixels * s.channels), 1.0f);
  for (size_t i = 0; i < x.size(); ++i) x[i] = i < 32 ? 1e4f : i / 16 % 2 == 0 ? 1.0f : 3.0f;
  test::ForEachTarget([&] {
    const auto found = MomentsOf<float>(s, x, nullptr, 0, 1);
    // Two pixels of 1e4, 2,047 of 1 and of 3.
    const double mean = (2e4 + 2047 * 4.0) / 4096;
    const double squares = 2 * (1e4 - mean) * (1e4 - mean) +
                           2047 * ((1 - mean) * (1 - mean) + (3 - mean) * (3 - mean));
    EXPECT_NEAR(found.mean[5], mean, 1e-6 * mean);
    EXPECT_NEAR(found.factor[5] * std::sqrt(squares / 4096), 1, 4e-6);
  });
}

}  // namespace
}  // namespace sardonyx
