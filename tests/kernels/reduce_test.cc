#include "kernels/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "random_data.h"

namespace sardonyx {
namespace {

constexpr ReduceKind kKinds[] = {ReduceKind::kSum,      ReduceKind::kMean, ReduceKind::kMax,
                                 ReduceKind::kMin,      ReduceKind::kProd, ReduceKind::kSumSquare,
                                 ReduceKind::kL1,       ReduceKind::kL2,   ReduceKind::kLogSum,
                                 ReduceKind::kLogSumExp};

double Expected(ReduceKind kind, const std::vector<double>& x) {
  double sum = 0, max = -INFINITY, min = INFINITY, prod = 1, square = 0, l1 = 0, exp = 0;
  for (double v : x) {
    sum += v;
    max = std::max(max, v);
    min = std::min(min, v);
    prod *= v;
    square += v * v;
    l1 += std::abs(v);
    exp += std::exp(v);
  }
  switch (kind) {
    case ReduceKind::kSum: return sum;
    case ReduceKind::kMean: return sum / static_cast<double>(x.size());
    case ReduceKind::kMax: return max;
    case ReduceKind::kMin: return min;
    case ReduceKind::kProd: return prod;
    case ReduceKind::kSumSquare: return square;
    case ReduceKind::kL1: return l1;
    case ReduceKind::kL2: return std::sqrt(square);
    case ReduceKind::kLogSum: return std::log(sum);
    case ReduceKind::kLogSumExp: return std::log(exp);
  }
  return 0;
}

template <typename T, typename Body>
void ForEachOutput(const std::vector<T>& x, const ReduceShape& shape, Body&& body) {
  const auto [outer, n, inner, n2] = shape;
  for (int64_t i = 0; i < outer * inner; ++i) {
    std::vector<double> values;
    for (int64_t k = 0; k < n; ++k) {
      for (int64_t j = 0; j < n2; ++j) {
        values.push_back(
            static_cast<double>(x[((i / inner * n + k) * inner + i % inner) * n2 + j]));
      }
    }
    body(i, values);
  }
}

void CheckFloat(const ReduceShape& shape) {
  const size_t size = shape.outer * shape.reduced * shape.inner * shape.reduced2;
  for (ReduceKind kind : kKinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    const bool is_prod = kind == ReduceKind::kProd;
    const auto x = test::RandomFloats(size, 5,
                                      is_prod                       ? 0.9f
                                      : kind == ReduceKind::kLogSum ? 0.5f
                                                                    : -3.0f,
                                      is_prod ? 1.1f : 4.0f);
    std::vector<float> one(shape.outer * shape.inner), two(one.size());
    Reduce(kind, x.data(), one.data(), shape, test::Threads(1));
    Reduce(kind, x.data(), two.data(), shape, test::Threads(2));
    ASSERT_TRUE(test::SameBits(one, two));
    ForEachOutput(x, shape, [&](int64_t i, const std::vector<double>& values) {
      const double expected = Expected(kind, values);
      // Sums are as exact as their terms' absolute values allow; a product has a rounding a factor.
      double scale = std::abs(expected);
      if (kind == ReduceKind::kSum) scale += Expected(ReduceKind::kL1, values) * 0.2;
      if (kind == ReduceKind::kMean)
        scale += Expected(ReduceKind::kL1, values) * 0.2 / values.size();
      const double ulps = is_prod ? 1 + 0.8 * std::sqrt(values.size()) : 4;
      ASSERT_NEAR(one[i], expected, 1.2e-7 * ulps * scale + 1e-7) << "output " << i;
    });
  }
}

TEST(Reduce, FloatAgreesWithDouble) {
  test::ForEachTarget([] {
    for (int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 16, 49, 100, 1000}) {
      CheckFloat({3, n, 1, 1});
      CheckFloat({37, n, 1, 1});
      if (n <= 16) CheckFloat({2, 3, 1500, n});
      CheckFloat({2, n, 5, 1});
      CheckFloat({2, n, 70, 1});
      CheckFloat({2, n, 3, 1});
      CheckFloat({2, n, 3, 5});
      CheckFloat({2, 5, 3, n});
      CheckFloat({70, n, 3, 1});  // many sets of few results
      CheckFloat({9, n, 15, 1});
    }
    CheckFloat({9, 1, 5, 1});
    CheckFloat({4, 3, 23, 1});
    CheckFloat({40, 300, 1, 1});
    CheckFloat({1, 49, 1281, 1});
    for (const int64_t outer : {1, 2}) CheckFloat({outer, 541, 1281, 1});  // larger than caches
  });
}

TEST(Reduce, LongRow) {
  test::ForEachTarget([] { CheckFloat({2, 300001, 1, 1}); });
}

TEST(Reduce, Range) {
  test::ForEachTarget([] {
    for (int64_t n : {1, 5, 31, 64, 100, 1000, 300'001}) {
      std::vector<float> x = test::RandomFloats(static_cast<size_t>(n), 1);
      const auto [least, greatest] = std::minmax_element(x.begin(), x.end());
      for (const Parallel& par : {OneThread(), TwoThreads()}) {
        const FloatRange range = Range(x.data(), n, par);
        EXPECT_EQ(range.least, *least);
        EXPECT_EQ(range.greatest, *greatest);
      }
      x[static_cast<size_t>(n / 2)] = NAN;
      const FloatRange range = Range(x.data(), n, OneThread());
      EXPECT_TRUE(std::isnan(range.least) && std::isnan(range.greatest));
    }
    EXPECT_EQ(Range(nullptr, 0).least, INFINITY);
    EXPECT_EQ(Range(nullptr, 0).greatest, -INFINITY);
  });
}

TEST(Reduce, RangeOnManyProcessors) {
  std::vector<float> x = test::RandomFloats(5'000'000, 1);
  const auto [least, greatest] = std::minmax_element(x.begin(), x.end());
  ForProcessors(64, [&] {
    const FloatRange range = Range(x.data(), static_cast<int64_t>(x.size()), TwoThreads());
    EXPECT_EQ(range.least, *least);
    EXPECT_EQ(range.greatest, *greatest);
  });
}

TEST(Reduce, NanAndInfinity) {
  test::ForEachTarget([] {
    for (int64_t place : {0, 3, 16, 36}) {
      std::vector<float> x(37, 1.0f);
      x[place] = std::nanf("");
      float y = 0;
      for (ReduceKind kind : kKinds) {
        Reduce(kind, x.data(), &y, {1, 37, 1, 1}, test::Threads(1));
        EXPECT_TRUE(std::isnan(y)) << static_cast<int>(kind);
        float columns[37];
        Reduce(kind, x.data(), columns, {1, 1, 37, 1}, test::Threads(1));
        EXPECT_TRUE(std::isnan(columns[place])) << static_cast<int>(kind);
      }
      int64_t at = -1;
      ArgReduce(true, false, x.data(), &at, 1, 37, 1, test::Threads(1));
      EXPECT_EQ(at, place);
      x[place] = INFINITY;
      Reduce(ReduceKind::kSum, x.data(), &y, {1, 37, 1, 1}, test::Threads(1));
      EXPECT_EQ(y, INFINITY);
      std::vector<float> pair(74, 1.0f);
      pair[place] = INFINITY;
      float sums[37];
      Reduce(ReduceKind::kSum, pair.data(), sums, {1, 2, 37, 1}, test::Threads(1));
      EXPECT_EQ(sums[place], INFINITY);
    }
  });
}

TEST(Reduce, NanOfDoubles) {
  test::ForEachTarget([] {
    for (const int64_t place : {0, 3, 16, 36}) {
      std::vector<double> x(37, 1.0);
      x[static_cast<size_t>(place)] = std::nan("");
      for (const ReduceKind kind : kKinds) {
        double y = 0;
        Reduce(kind, x.data(), &y, {1, 37, 1, 1}, test::Threads(1));
        EXPECT_TRUE(std::isnan(y)) << static_cast<int>(kind);
      }
    }
  });
}

TEST(Reduce, NothingToReduce) {
  float y[3];
  const auto reduce = [&](ReduceKind kind) {
    Reduce<float>(kind, nullptr, y, {1, 0, 3, 1}, test::Threads(1));
    return y[2];
  };
  EXPECT_EQ(reduce(ReduceKind::kSum), 0);
  EXPECT_EQ(reduce(ReduceKind::kProd), 1);
  EXPECT_EQ(reduce(ReduceKind::kMax), -INFINITY);
  EXPECT_EQ(reduce(ReduceKind::kMin), INFINITY);
  EXPECT_EQ(reduce(ReduceKind::kLogSumExp), -INFINITY);
  EXPECT_TRUE(std::isnan(reduce(ReduceKind::kMean)));
  int32_t z[3];
  Reduce<int32_t>(ReduceKind::kMax, nullptr, z, {1, 0, 3, 1}, test::Threads(1));
  EXPECT_EQ(z[0], std::numeric_limits<int32_t>::lowest());
}

template <typename T>
class ReduceTyped : public testing::Test {};
using Types = testing::Types<double, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t,
                             uint64_t>;
TYPED_TEST_SUITE(ReduceTyped, Types);

template <typename TypeParam>
void CheckTyped() {
  std::vector<ReduceShape> shapes = {{3, 3, 1, 1},     {2, 3, 5, 1}, {2, 2, 3, 2},
                                     {1, 19, 1101, 1}, {9, 1, 5, 1}, {2, 3, 700, 1}};
  for (const int64_t n : {1, 2, 3, 7, 8, 9, 16, 19}) {
    shapes.push_back({37, n, 1, 1});  // short rows
    shapes.push_back({70, n, 3, 1});  // sets of few results
    shapes.push_back({9, n, 13, 1});
    shapes.push_back({2, n, 41, 1});
  }
  for (const ReduceShape& shape : shapes) {
    SCOPED_TRACE(testing::Message() << shape.outer << " x " << shape.reduced << " x " << shape.inner
                                    << " x " << shape.reduced2);
    std::vector<TypeParam> x(shape.outer * shape.reduced * shape.inner * shape.reduced2);
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<TypeParam>(1 + i * 7 % 5);
      if (std::is_signed_v<TypeParam> && i % 7 == 0) x[i] = static_cast<TypeParam>(-x[i]);
    }
    std::vector<TypeParam> y(shape.outer * shape.inner);
    for (ReduceKind kind :
         {ReduceKind::kSum, ReduceKind::kMean, ReduceKind::kMax, ReduceKind::kMin,
          ReduceKind::kSumSquare, ReduceKind::kL1, ReduceKind::kL2, ReduceKind::kLogSumExp}) {
      Reduce(kind, x.data(), y.data(), shape, test::Threads(2));
      ForEachOutput(x, shape, [&](int64_t i, const std::vector<double>& values) {
        const double expected = Expected(kind, values);
        if (std::is_integral_v<TypeParam>) {
          EXPECT_EQ(y[i], static_cast<TypeParam>(expected)) << static_cast<int>(kind);
        } else {
          EXPECT_NEAR(static_cast<double>(y[i]), expected, 1e-12);
        }
      });
    }
  }
}

TYPED_TEST(ReduceTyped, AgreesWithDouble) {
  test::ForEachTarget([] { CheckTyped<TypeParam>(); });
}

// Longer rows than a vector, and such of which the last one is not whole.
TYPED_TEST(ReduceTyped, LargestOfLongerRows) {
  test::ForEachTarget([] {
    for (const int64_t n : {63, 64, 65, 96, 100, 127, 200, 1000}) {
      const ReduceShape shape{21, n, 1, 1};
      std::vector<TypeParam> x(shape.outer * n), most(shape.outer), least(shape.outer);
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<TypeParam>(i * 40503 % 101);
      Reduce(ReduceKind::kMax, x.data(), most.data(), shape, test::Threads(2));
      Reduce(ReduceKind::kMin, x.data(), least.data(), shape, test::Threads(2));
      ForEachOutput(x, shape, [&](int64_t i, const std::vector<double>& values) {
        const auto [min, max] = std::minmax_element(values.begin(), values.end());
        ASSERT_EQ(static_cast<double>(most[i]), *max) << n;
        ASSERT_EQ(static_cast<double>(least[i]), *min) << n;
      });
    }
  });
}

template <typename T>
void CheckByteSums(const ReduceShape& shape) {
  std::vector<T> x(static_cast<size_t>(shape.outer * shape.reduced * shape.inner * shape.reduced2));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(i % 7 == 0 ? 0x80 : i * 37 + i / 200);
  for (const int threads : {1, 2}) {
    std::vector<int32_t> y(static_cast<size_t>(shape.outer * shape.inner), -1);
    SumBytes(x.data(), y.data(), shape, test::Threads(threads));
    ForEachOutput(x, shape, [&](int64_t i, const std::vector<double>& values) {
      EXPECT_EQ(y[static_cast<size_t>(i)], Expected(ReduceKind::kSum, values));
    });
  }
}

TEST(Reduce, SumsOfBytes) {
  test::ForEachTarget([] {
    for (const ReduceShape& shape :
         {ReduceShape{5, 1, 1, 3136}, {3, 49, 130, 1}, {2, 7, 1, 1}, {1, 3, 1000, 1}}) {
      CheckByteSums<uint8_t>(shape);
      CheckByteSums<int8_t>(shape);
    }
  });
}

TEST(Reduce, IntegersWrap) {
  const int32_t x[] = {2000000000, 2000000000};
  int32_t y = 0;
  Reduce(ReduceKind::kSum, x, &y, {1, 2, 1, 1}, test::Threads(1));
  EXPECT_EQ(y, static_cast<int32_t>(4000000000u));
}

TEST(ArgReduce, FirstAndLast) {
  test::ForEachTarget([] {
    for (int64_t inner : {1, 3}) {
      for (int64_t n : {1, 5, 16, 65}) {
        auto x = test::RandomFloats(4 * n * inner, 9);
        for (float& v : x) v = std::round(v * 3);
        std::vector<int64_t> y(4 * inner);
        for (bool largest : {false, true}) {
          for (bool last : {false, true}) {
            ArgReduce(largest, last, x.data(), y.data(), 4, n, inner, test::Threads(2));
            ForEachOutput(x, {4, n, inner, 1}, [&](int64_t i, const std::vector<double>& values) {
              const double best = largest ? *std::max_element(values.begin(), values.end())
                                          : *std::min_element(values.begin(), values.end());
              const auto first = std::find(values.begin(), values.end(), best) - values.begin();
              const auto final_at =
                  values.rend() - std::find(values.rbegin(), values.rend(), best) - 1;
              EXPECT_EQ(y[i], last ? final_at : first);
            });
          }
        }
      }
    }
  });
}

// Columns of every width, of more rows than a byte counts; ties, and NaN of floats.
template <typename T>
void CheckPlaces(int64_t outer, int64_t n, int64_t inner) {
  SCOPED_TRACE(testing::Message() << outer << " x " << n << " x " << inner);
  std::vector<T> x(static_cast<size_t>(outer * n * inner));
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<T>((i * 2654435761u % 4294967291u >> 13) % 100);
    if (std::is_floating_point_v<T> && i % 1009 == 7) x[i] = std::numeric_limits<T>::quiet_NaN();
  }
  std::vector<int64_t> one(static_cast<size_t>(outer * inner)), two(one.size());
  for (const bool largest : {false, true}) {
    for (const bool last : {false, true}) {
      ArgReduce(largest, last, x.data(), one.data(), outer, n, inner, test::Threads(1));
      ArgReduce(largest, last, x.data(), two.data(), outer, n, inner, test::Threads(2));
      ASSERT_EQ(one, two);
      for (int64_t i = 0; i < outer * inner; ++i) {
        const T* column = x.data() + i / inner * n * inner + i % inner;
        int64_t best = 0;
        for (int64_t k = 1; k < n; ++k) {
          const T a = column[k * inner], b = column[best * inner];
          const bool equals = a == b || (a != a && b != b);
          const bool beats = (largest ? a > b : a < b) || (a != a && b == b);
          if (beats || (last && equals)) best = k;
        }
        ASSERT_EQ(one[static_cast<size_t>(i)], best) << "column " << i;
      }
    }
  }
}

template <typename... T>
void CheckPlacesOfTypes() {
  for (const int64_t n : {1, 2, 9, 127, 128, 129, 300}) {
    for (const int64_t inner : {2, 5, 8, 63, 64, 70, 200}) (CheckPlaces<T>(2, n, inner), ...);
    for (const int64_t inner : {12, 15}) (CheckPlaces<T>(2, n, inner), ...);
  }
  for (const int64_t n : {2, 9, 33}) {  // many sets of few columns
    for (const int64_t inner : {2, 5, 13, 31, 63}) (CheckPlaces<T>(70, n, inner), ...);
  }
  (CheckPlaces<T>(1, 130, 1301), ...);
  (CheckPlaces<T>(1, 33000, 3), ...);
}

TEST(ArgReduce, ColumnsOfEveryType) {
  test::ForEachTarget([] {
    CheckPlacesOfTypes<float, double, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t,
                       int64_t, uint64_t>();
  });
}

}  // namespace
}  // namespace sardonyx
