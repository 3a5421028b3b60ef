#include "kernels/softmax.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "random_data.h"

namespace sardonyx {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// softmax or its logarithm of x [outer, n, inner] in double.
std::vector<double> Expected(const std::vector<double>& x, int64_t outer, int64_t n, int64_t inner,
                             bool log) {
  std::vector<double> y(x.size());
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      const auto at = [&](int64_t k) { return (o * n + k) * inner + i; };
      double max = -kInfinity, sum = 0;
      for (int64_t k = 0; k < n; ++k) max = std::max(max, x[at(k)]);
      for (int64_t k = 0; k < n; ++k) sum += std::exp(x[at(k)] - max);
      for (int64_t k = 0; k < n; ++k) {
        y[at(k)] = log ? x[at(k)] - max - std::log(sum) : std::exp(x[at(k)] - max) / sum;
      }
    }
  }
  return y;
}

void ExpectNear(const std::vector<float>& got, const std::vector<double>& expected,
                double absolute) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    // Differences of up to 40 are rounded to 2e-6.
    ASSERT_NEAR(got[i], expected[i], absolute + 4e-6 * std::abs(expected[i])) << "at " << i;
  }
}

TEST(Softmax, TermsAndSumRoundedAsHalves) {
  const auto rounded = [](double value) {
    return static_cast<double>(static_cast<float>(Half(static_cast<float>(value))));
  };
  test::ForEachTarget([&] {
    for (const int64_t inner : {1, 3, 70}) {
      const int64_t outer = 5, n = 37;
      const auto x = test::RandomFloats(outer * n * inner, 9, -8, 8);
      std::vector<float> y(x.size());
      Softmax(x.data(), y.data(), outer, n, inner, false, test::Threads(2), DType::kFloat16);
      int64_t other = 0;
      for (int64_t row = 0; row < outer * inner; ++row) {
        const auto at = [&](int64_t k) { return (row / inner * n + k) * inner + row % inner; };
        float max = -kInfinity;
        double sum = 0;
        for (int64_t k = 0; k < n; ++k) max = std::max(max, x[at(k)]);
        for (int64_t k = 0; k < n; ++k) sum += rounded(std::exp(double{x[at(k)]} - max));
        for (int64_t k = 0; k < n; ++k) {
          const double expected = rounded(std::exp(double{x[at(k)]} - max)) / rounded(sum);
          ASSERT_NEAR(y[at(k)], expected, 2e-3 * expected + 1e-7);
          other += std::abs(y[at(k)] - expected) > 1e-6 * expected;
        }
      }
      // A term that lies between two halves may fall to either side.
      EXPECT_LE(other, 2 * n);
    }
  });
}

TEST(Softmax, OfDoubles) {
  test::ForEachTarget([] {
    for (bool log : {false, true}) {
      for (int64_t n : {1, 7, 33, 100}) {
        for (int64_t inner : {1, 2, 67}) {
          const auto random = test::RandomFloats(5 * n * inner, 3, -20, 20);
          std::vector<double> x(random.begin(), random.end()), y(x.size());
          const auto expected = Expected(x, 5, n, inner, log);
          Softmax(x.data(), y.data(), 5, n, inner, log, test::Threads(1));
          for (size_t i = 0; i < y.size(); ++i) {
            ASSERT_NEAR(y[i], expected[i], 1e-300 + 1e-14 * std::abs(expected[i]) + log * 1e-14);
          }
          Softmax(x.data(), x.data(), 5, n, inner, log, test::Threads(2));
          EXPECT_TRUE(test::SameBits(x, y));
        }
      }
    }
    double row[5] = {1, kInfinity * 0, 2, 3, 4};
    Softmax(row, row, 1, 5, 1, false, Parallel{});
    for (double v : row) EXPECT_TRUE(std::isnan(v));
    double masked[3] = {-kInfinity, 0, -kInfinity};
    Softmax(masked, masked, 1, 3, 1, false, Parallel{});
    EXPECT_EQ(masked[0], 0);
    EXPECT_EQ(masked[1], 1);
  });
}

TEST(Softmax, AgreesWithDouble) {
  test::ForEachTarget([] {
    for (bool log : {false, true}) {
      for (int64_t n : {1, 2, 7, 8, 10, 15, 16, 31, 33, 100, 1000}) {
        for (int64_t inner : {1, 2, 5, 16, 67}) {
          const int64_t outer = n < 32 ? 23 : 5;  // whole vectors of rows, and some that are left
          const auto x = test::RandomFloats(outer * n * inner, 3, -20, 20);
          const auto expected =
              Expected(std::vector<double>(x.begin(), x.end()), outer, n, inner, log);
          std::vector<float> y(x.size());
          Softmax(x.data(), y.data(), outer, n, inner, log, test::Threads(1));
          ExpectNear(y, expected, log ? 3e-7 : 1e-37);
          std::vector<float> in_place = x;
          Softmax(in_place.data(), in_place.data(), outer, n, inner, log, test::Threads(2));
          EXPECT_TRUE(test::SameBits(y, in_place));
        }
      }
    }
  });
}

TEST(Softmax, ThreadsDoNotChangeTheResult) {
  const auto x = test::RandomFloats(300 * 400, 3);
  std::vector<float> one(x.size()), two(x.size());
  for (int64_t inner : {1, 100}) {
    Softmax(x.data(), one.data(), 300, 400 / inner, inner, false, test::Threads(1));
    Softmax(x.data(), two.data(), 300, 400 / inner, inner, false, test::Threads(2));
    EXPECT_TRUE(test::SameBits(one, two));
  }
}

TEST(Softmax, ExtremeValues) {
  test::ForEachTarget([] {
    std::vector<float> x(20, 0.0f), y(20);
    x[3] = 3e38f;
    x[4] = -3e38f;
    x[5] = -kInfinity;
    Softmax(x.data(), y.data(), 1, 20, 1, false, test::Threads(1));
    for (int i = 0; i < 20; ++i) EXPECT_EQ(y[i], i == 3 ? 1.0f : 0.0f);
    x[6] = std::nanf("");
    Softmax(x.data(), y.data(), 1, 20, 1, false, test::Threads(1));
    for (float value : y) EXPECT_TRUE(std::isnan(value));
    x.assign(20, -kInfinity);
    Softmax(x.data(), y.data(), 1, 20, 1, false, test::Threads(1));
    for (float value : y) EXPECT_TRUE(std::isnan(value));
  });
}

}  // namespace
}  // namespace sardonyx
