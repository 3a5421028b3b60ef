#include "kernels/gemm_typed.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "each_target.h"

namespace sardonyx {
namespace {

template <typename T>
void Check(DType type, const GemmShape& s, bool packed) {
  SCOPED_TRACE(std::string(Name(type)) + " " + std::to_string(s.m) + "x" + std::to_string(s.n) +
               "x" + std::to_string(s.k) + (packed ? " packed" : ""));
  std::mt19937 random(3);
  const int64_t items = s.batch[0] * s.batch[1];
  std::vector<T> a(items * s.m * s.k), b(items * s.k * s.n);
  // Integers of all sizes, for sums wrap around.
  const auto draw = [&] {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(random() * uint64_t{0x9e3779b97f4a7c15});
    return static_cast<T>(static_cast<double>(random() >> 8) * 0x1p-23 - 1.0);
  };
  for (T& value : a) value = draw();
  for (T& value : b) value = draw();
  std::vector<T> one(items * s.m * s.ldc, T{7}), two = one;
  std::vector<char> matrix(GemmTypedPackedBytes(type, s.k, s.n));
  if (packed) GemmTypedPack(type, s, b.data(), matrix.data(), TwoThreads());
  std::vector<char> scratch(GemmTypedScratchBytes(type, s, packed));
  for (std::vector<T>* c : {&one, &two}) {
    GemmTyped(type, s, a.data(), b.data(), packed ? matrix.data() : nullptr, c->data(), {},
              scratch.data(), c == &one ? OneThread() : TwoThreads());
  }
  EXPECT_EQ(std::memcmp(one.data(), two.data(), one.size() * sizeof(T)), 0);
  for (int64_t item = 0; item < items; ++item) {
    const int64_t p = item / s.batch[1], q = item % s.batch[1];
    const T* left = a.data() + p * s.a_stride[0] + q * s.a_stride[1];
    const T* right = b.data() + p * s.b_stride[0] + q * s.b_stride[1];
    const T* c = one.data() + p * s.c_stride[0] + q * s.c_stride[1];
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.ldc; ++j) {
        if (j >= s.n) {
          ASSERT_EQ(c[i * s.ldc + j], T{7});
          continue;
        }
        T sum = 0;
        for (int64_t k = 0; k < s.k; ++k) {
          sum += left[s.a_transposed ? k * s.lda + i : i * s.lda + k] *
                 right[s.b_transposed ? j * s.ldb + k : k * s.ldb + j];
        }
        if constexpr (std::is_integral_v<T>) {
          ASSERT_EQ(c[i * s.ldc + j], sum) << i << "," << j;
        } else {
          ASSERT_NEAR(c[i * s.ldc + j], sum, 1e-12 * static_cast<double>(s.k + 1)) << i << "," << j;
        }
      }
    }
  }
}

GemmShape Shape(int64_t m, int64_t n, int64_t k, bool a_transposed, bool b_transposed,
                int64_t items) {
  GemmShape s;
  s.m = m;
  s.n = n;
  s.k = k;
  s.lda = a_transposed ? m : k;
  s.ldb = b_transposed ? k : n;
  s.ldc = n + 2;
  s.a_transposed = a_transposed;
  s.b_transposed = b_transposed;
  s.batch[1] = items;
  s.a_stride[1] = m * k;
  s.b_stride[1] = items > 1 ? k * n : 0;
  s.c_stride[1] = m * s.ldc;
  return s;
}

TEST(GemmTypedTest, AllTypes) {
  ForEachTarget([] {
    for (const bool transposed : {false, true}) {
      for (const int64_t items : {1, 3}) {
        for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1},
                                      {7, 19, 33},
                                      {13, 32, 300},
                                      {64, 70, 520},
                                      {5, 3, 0},
                                      {9, 1, 700},
                                      {60, 1, 37},
                                      {1, 1, 20001},
                                      {3, 1, 0}}) {
          const GemmShape s = Shape(m, n, k, transposed, !transposed, items);
          for (const bool packed : {false, true}) {
            if (packed && items > 1) continue;
            Check<double>(DType::kFloat64, s, packed);
            Check<uint32_t>(DType::kUInt32, s, packed);
            Check<uint32_t>(DType::kInt32, s, packed);
            Check<uint64_t>(DType::kInt64, s, packed);
          }
        }
      }
    }
  });
}

// sqrt(max(value * scale + by row + by column + residual, 0)), once where a block has long rows,
// once where its rows are dense and narrow and so seen as one.
TEST(GemmTypedTest, EpilogueOfDoubles) {
  const Expression expression = Expression::Parse(
      "(double, double, double, double; -2:double, 0:double) mul(0,4):double add(6,1):double "
      "add(7,2):double add(8,3):double max(9,5):double sqrt(10):double");
  ForEachTarget([&] {
    for (const auto& [m, n, k, slack] : {std::tuple<int64_t, int64_t, int64_t, int64_t>{1, 1, 1, 0},
                                         {7, 19, 33, 2},
                                         {101, 5, 9, 0},
                                         {131, 300, 300, 0},
                                         {5, 3, 0, 1}}) {
      SCOPED_TRACE(fmt::format("{}x{}x{}", m, n, k));
      constexpr int64_t kItems = 2;
      GemmShape s = Shape(m, n, k, false, false, kItems);
      s.ldc = n + slack;
      s.c_stride[1] = m * s.ldc;
      std::mt19937 random(5);
      const auto draw = [&](int64_t count) {
        std::vector<double> values(count);
        for (double& v : values) v = static_cast<double>(random() >> 8) * 0x1p-23 - 1.0;
        return values;
      };
      const auto a = draw(kItems * m * k), b = draw(kItems * k * n), by_row = draw(kItems * m),
                 by_column = draw(n), residual = draw(kItems * m * n);
      const EpilogueOperand operands[] = {
          {by_row.data(), DType::kFloat64, 1, 0, {0, m}},
          {by_column.data(), DType::kFloat64, 0, 1, {0, 0}},
          {residual.data(), DType::kFloat64, n, 1, {0, m * n}},
      };
      std::vector<double> one(kItems * m * s.ldc, 7), two = one;
      std::vector<char> scratch(GemmTypedScratchBytes(DType::kFloat64, s, false));
      for (std::vector<double>* c : {&one, &two}) {
        GemmTyped(DType::kFloat64, s, a.data(), b.data(), nullptr, c->data(),
                  {&expression, operands}, scratch.data(), c == &one ? OneThread() : TwoThreads());
      }
      EXPECT_EQ(one, two);
      for (int64_t item = 0; item < kItems; ++item) {
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < s.ldc; ++j) {
            const double value = one[(item * m + i) * s.ldc + j];
            if (j >= n) {
              ASSERT_EQ(value, 7);
              continue;
            }
            double sum = 0;
            for (int64_t l = 0; l < k; ++l) {
              sum += a[(item * m + i) * k + l] * b[(item * k + l) * n + j];
            }
            sum = -2 * sum + by_row[item * m + i] + by_column[j] + residual[(item * m + i) * n + j];
            // The root is as steep as it gets near 0.
            ASSERT_NEAR(value * value, std::max(sum, 0.0), 1e-12 * static_cast<double>(k + 1));
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace sardonyx
