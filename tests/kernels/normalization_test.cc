#include "kernels/normalization.h"

#include <gtest/gtest.h>

#include "random_data.h"

namespace sardonyx {
namespace {

constexpr float kEpsilon = 1e-5f;

void ExpectNear(const std::vector<float>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], 4e-6 + 2e-6 * std::abs(expected[i])) << "at " << i;
  }
}

TEST(LayerNorm, AgreesWithDouble) {
  test::ForEachTarget([] {
    for (int64_t n : {1, 3, 8, 31, 64, 768, 5000}) {
      for (float offset : {0.0f, 10.0f}) {
        const int64_t rows = 7;
        const auto x = test::RandomFloats(rows * n, 1, offset - 1, offset + 1);
        const auto scale = test::RandomFloats(n, 2), bias = test::RandomFloats(n, 3);
        for (bool has_scale : {false, true}) {
          for (bool has_bias : {false, true}) {
            std::vector<double> expected(x.size()), means(rows), invs(rows);
            for (int64_t r = 0; r < rows; ++r) {
              double mean = 0, variance = 0;
              for (int64_t i = 0; i < n; ++i) mean += x[r * n + i];
              mean /= n;
              for (int64_t i = 0; i < n; ++i) variance += std::pow(x[r * n + i] - mean, 2);
              const double inv = 1 / std::sqrt(variance / n + kEpsilon);
              means[r] = mean;
              invs[r] = inv;
              for (int64_t i = 0; i < n; ++i) {
                expected[r * n + i] = (x[r * n + i] - mean) * inv * (has_scale ? scale[i] : 1.0) +
                                      (has_bias ? bias[i] : 0.0);
              }
            }
            const float *s = has_scale ? scale.data() : nullptr,
                        *b = has_bias ? bias.data() : nullptr;
            std::vector<float> y(x.size()), mean(rows), inv(rows);
            LayerNorm(x.data(), s, b, y.data(), rows, n, kEpsilon, mean.data(), inv.data(),
                      test::Threads(1));
            // A mean of 10 is a float's rounding away: that shows where the variance is small.
            if (n > 1) ExpectNear(y, expected);
            ExpectNear(mean, means);
            std::vector<float> in_place = x;
            LayerNorm(in_place.data(), s, b, in_place.data(), rows, n, kEpsilon, nullptr, nullptr,
                      test::Threads(2));
            EXPECT_TRUE(test::SameBits(y, in_place));
            for (int64_t r = 0; r < rows && n > 1; ++r) EXPECT_NEAR(inv[r] / invs[r], 1, 1e-6);
          }
        }
      }
    }
  });
}

TEST(LayerNorm, OfDoubles) {
  test::ForEachTarget([] {
    for (int64_t n : {1, 3, 8, 31, 77, 1000}) {
      const int64_t rows = 5;
      const auto floats = test::RandomFloats(rows * n, 1, 9, 11), s = test::RandomFloats(n, 2);
      const std::vector<double> x(floats.begin(), floats.end()), scale(s.begin(), s.end());
      for (bool rms : {false, true}) {
        std::vector<double> y(x.size()), two(x.size()), inv(rows);
        if (rms) {
          RmsNorm(x.data(), scale.data(), nullptr, y.data(), rows, n, 1e-5, inv.data(),
                  test::Threads(1));
          RmsNorm(x.data(), scale.data(), nullptr, two.data(), rows, n, 1e-5, nullptr,
                  test::Threads(2));
        } else {
          LayerNorm(x.data(), scale.data(), scale.data(), y.data(), rows, n, 1e-5, nullptr,
                    inv.data(), test::Threads(1));
          LayerNorm(x.data(), scale.data(), scale.data(), two.data(), rows, n, 1e-5, nullptr,
                    nullptr, test::Threads(2));
        }
        EXPECT_TRUE(test::SameBits(y, two));
        for (int64_t r = 0; r < rows; ++r) {
          double mean = 0, variance = 0;
          for (int64_t i = 0; i < n && !rms; ++i) mean += x[r * n + i] / static_cast<double>(n);
          for (int64_t i = 0; i < n; ++i) variance += std::pow(x[r * n + i] - mean, 2);
          const double factor = 1 / std::sqrt(variance / static_cast<double>(n) + 1e-5);
          EXPECT_NEAR(inv[r] / factor, 1, 1e-12);
          for (int64_t i = 0; i < n; ++i) {
            const double expected = (x[r * n + i] - mean) * factor * scale[i];
            ASSERT_NEAR(y[r * n + i], expected + (rms ? 0 : scale[i]), 1e-11) << n << " at " << i;
          }
        }
      }
    }
  });
}

TEST(RmsNorm, AgreesWithDouble) {
  test::ForEachTarget([] {
    for (int64_t n : {1, 5, 16, 100, 4096}) {
      const int64_t rows = 40;
      const auto x = test::RandomFloats(rows * n, 1), scale = test::RandomFloats(n, 2);
      std::vector<double> expected(x.size());
      for (int64_t r = 0; r < rows; ++r) {
        double square = 0;
        for (int64_t i = 0; i < n; ++i) square += std::pow(x[r * n + i], 2.0);
        for (int64_t i = 0; i < n; ++i) {
          expected[r * n + i] = x[r * n + i] / std::sqrt(square / n + kEpsilon) * scale[i];
        }
      }
      std::vector<float> y(x.size()), two(x.size()), inv(rows);
      RmsNorm(x.data(), scale.data(), nullptr, y.data(), rows, n, kEpsilon, inv.data(),
              test::Threads(1));
      ExpectNear(y, expected);
      RmsNorm(x.data(), scale.data(), nullptr, two.data(), rows, n, kEpsilon, nullptr,
              test::Threads(2));
      EXPECT_TRUE(test::SameBits(y, two));
    }
  });
}

TEST(GroupNorm, BothLayoutsAgreeWithDouble) {
  test::ForEachTarget([] {
    for (const auto& [channels, groups] :
         {std::pair<int64_t, int64_t>{1, 1}, {6, 2}, {6, 6}, {32, 4}, {37, 37}, {48, 1}}) {
      for (int64_t spatial : {1, 5, 49, 700}) {
        const int64_t batch = 2, count = channels / groups;
        const auto x = test::RandomFloats(batch * channels * spatial, 1, 0, 4);
        const auto scale = test::RandomFloats(channels, 2), bias = test::RandomFloats(channels, 3);
        std::vector<double> expected(x.size());
        for (int64_t b = 0; b < batch; ++b) {
          for (int64_t g = 0; g < groups; ++g) {
            const int64_t at = (b * channels + g * count) * spatial, size = count * spatial;
            double mean = 0, variance = 0;
            for (int64_t i = 0; i < size; ++i) mean += x[at + i] / static_cast<double>(size);
            for (int64_t i = 0; i < size; ++i) variance += std::pow(x[at + i] - mean, 2) / size;
            for (int64_t i = 0; i < size; ++i) {
              const int64_t c = g * count + i / spatial;
              expected[at + i] =
                  (x[at + i] - mean) / std::sqrt(variance + kEpsilon) * scale[c] + bias[c];
            }
          }
        }
        if (count * spatial == 1) continue;  // 0 times a large factor
        std::vector<float> y(x.size());
        GroupNormChannelsFirst(x.data(), scale.data(), bias.data(), y.data(), batch, channels,
                               spatial, groups, kEpsilon, test::Threads(2));
        ExpectNear(y, expected);

        const auto last = [&](auto& from, auto& to) {
          for (int64_t i = 0; i < batch * channels * spatial; ++i) {
            const int64_t s = i % spatial, c = i / spatial % channels, b = i / spatial / channels;
            to[(b * spatial + s) * channels + c] = from[i];
          }
        };
        std::vector<float> x_last(x.size()), two(x.size());
        std::vector<double> expected_last(x.size());
        last(x, x_last);
        last(expected, expected_last);
        std::vector<float> scratch(GroupNormScratchBytes(batch, spatial, channels) / 4);
        GroupNormChannelsLast(x_last.data(), scale.data(), bias.data(), y.data(), batch, spatial,
                              channels, groups, kEpsilon, scratch.data(), test::Threads(1));
        ExpectNear(y, expected_last);
        GroupNormChannelsLast(x_last.data(), scale.data(), bias.data(), two.data(), batch, spatial,
                              channels, groups, kEpsilon, scratch.data(), test::Threads(2));
        EXPECT_TRUE(test::SameBits(y, two));
      }
    }
  });
}

}  // namespace
}  // namespace sardonyx
