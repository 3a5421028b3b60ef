#include "kernels/gemm_typed.h"

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
    GemmTyped(type, s, a.data(), b.data(), packed ? matrix.data() : nullptr, c->data(),
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
                                      {5, 3, 0}}) {
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

}  // namespace
}  // namespace sardonyx
