#include "kernels/normalization.h"

#include <gtest/gtest.h>

#include "base/cast.h"
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
            NormalizeRows(RowNorm<float>{x.data(), s, b, y.data(), rows, n, kEpsilon, false,
                                         mean.data(), inv.data()},
                          test::Threads(1));
            // A mean of 10 is a float's rounding away: that shows where the variance is small.
            if (n > 1) ExpectNear(y, expected);
            ExpectNear(mean, means);
            std::vector<float> in_place = x;
            NormalizeRows(RowNorm<float>{in_place.data(), s, b, in_place.data(), rows, n, kEpsilon},
                          test::Threads(2));
            EXPECT_TRUE(test::SameBits(y, in_place));
            for (int64_t r = 0; r < rows && n > 1; ++r) EXPECT_NEAR(inv[r] / invs[r], 1, 1e-6);
          }
        }
      }
    }
  });
}

// Channels of images, alone or in groups, and rows that have numbers of their own for each element.
TEST(LayerNorm, ScalesRuns) {
  struct Case {
    int64_t rows, n, run, runs;
  };
  test::ForEachTarget([] {
    for (const Case& c : std::vector<Case>{{6, 35, 35, 3},
                                           {4, 16, 16, 4},
                                           {6, 300, 100, 9},
                                           {5, 33, 3, 11},
                                           {4, 7, 7, 1},
                                           {6, 20, 1, 40},
                                           {900, 70, 35, 4}}) {
      const auto x = test::RandomFloats(c.rows * c.n, 1);
      const auto scale = test::RandomFloats(c.runs, 2), bias = test::RandomFloats(c.runs, 3);
      std::vector<double> expected(x.size());
      for (int64_t r = 0; r < c.rows; ++r) {
        const auto n = static_cast<double>(c.n);
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < c.n; ++i) mean += x[r * c.n + i] / n;
        for (int64_t i = 0; i < c.n; ++i) variance += std::pow(x[r * c.n + i] - mean, 2) / n;
        for (int64_t i = r * c.n; i < (r + 1) * c.n; ++i) {
          const int64_t at = i / c.run % c.runs;
          expected[i] = (x[i] - mean) / std::sqrt(variance + kEpsilon) * scale[at] + bias[at];
        }
      }
      std::vector<float> y(x.size()), two(x.size());
      RowNorm<float> norm{x.data(), scale.data(), bias.data(), y.data(), c.rows, c.n, kEpsilon};
      norm.run = c.run;
      norm.runs = c.runs;
      NormalizeRows(norm, test::Threads(1));
      ExpectNear(y, expected);
      norm.y = two.data();
      NormalizeRows(norm, test::Threads(2));
      EXPECT_TRUE(test::SameBits(y, two));
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
        RowNorm<double> norm{
            x.data(), scale.data(), rms ? nullptr : scale.data(), y.data(), rows, n, 1e-5, rms,
            nullptr,  inv.data()};
        NormalizeRows(norm, test::Threads(1));
        norm.y = two.data();
        NormalizeRows(norm, test::Threads(2));
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
      RowNorm<float> norm{x.data(), scale.data(), nullptr, y.data(), rows, n, kEpsilon, true};
      norm.inv_std_dev = inv.data();
      NormalizeRows(norm, test::Threads(1));
      ExpectNear(y, expected);
      norm.y = two.data();
      NormalizeRows(norm, test::Threads(2));
      EXPECT_TRUE(test::SameBits(y, two));
    }
  });
}

// As the steps one by one: widened, normalised, rounded.
TEST(LayerNorm, OfHalves) {
  test::ForEachTarget([] {
    for (const DType half : {DType::kFloat16, DType::kBFloat16}) {
      for (int64_t n : {1, 3, 31, 64, 768, 5000}) {
        const int64_t rows = 11, count = rows * n;
        const auto floats = test::RandomFloats(count, 1, -3, 3), scale = test::RandomFloats(n, 2);
        std::vector<uint16_t> x(count);
        ConvertElements(DType::kFloat32, floats.data(), half, x.data(), count, true);
        std::vector<float> wide(count), y(count);
        ConvertElements(half, x.data(), DType::kFloat32, wide.data(), count, true);
        std::vector<float> mean(rows), inv(rows);
        const RowNorm<float> norm{wide.data(), scale.data(), nullptr, y.data(),    rows,
                                  n,           kEpsilon,     false,   mean.data(), inv.data()};
        NormalizeRows(norm, test::Threads(1));
        std::vector<uint16_t> expected(count);
        ConvertElements(DType::kFloat32, y.data(), half, expected.data(), count, true);
        for (const int threads : {1, 2}) {
          const Floats scratch(static_cast<int64_t>(HalfRowsScratchBytes(n, threads) / 4));
          std::vector<float> own_mean(rows), own_inv(rows);
          RowNorm<float> own = norm;
          own.mean = own_mean.data();
          own.inv_std_dev = own_inv.data();
          const auto run = [&](DType from, const void* in, DType to, void* out) {
            NormalizeHalfRows(own, {from, to, in, out}, scratch.get(), test::Threads(threads));
            EXPECT_TRUE(scratch.Intact() && test::SameBits(own_mean, mean) &&
                        test::SameBits(own_inv, inv));
          };
          std::vector<uint16_t> in_place = x, rounded(count);
          run(half, in_place.data(), half, in_place.data());
          EXPECT_EQ(in_place, expected) << n;
          run(DType::kFloat32, wide.data(), half, rounded.data());
          EXPECT_EQ(rounded, expected) << n;
          std::vector<float> widened(count);
          run(half, x.data(), DType::kFloat32, widened.data());
          EXPECT_TRUE(test::SameBits(widened, y)) << n;
        }
      }
    }
  });
}

}  // namespace
}  // namespace sardonyx
