#include "kernels/topk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "each_target.h"
#include "random_data.h"

namespace sardonyx {
namespace {

template <typename T>
void Check(TopKShape shape, const std::vector<T>& x) {
  const auto [outer, n, inner, k, bytes, order, largest] = shape;
  std::vector<T> values(outer * k * inner), again(values.size());
  std::vector<int64_t> indices(values.size());
  const Floats scratch(static_cast<int64_t>(TopKScratchBytes(shape, 2) + 3) / 4);
  TopK(shape, x.data(), values.data(), indices.data(), scratch.get(), test::Threads(1));
  TopK(shape, x.data(), again.data(), nullptr, scratch.get(), test::Threads(2));
  EXPECT_TRUE(test::SameBits(values, again));
  for (int64_t line = 0; line < outer * inner; ++line) {
    const T* from = x.data() + line / inner * n * inner + line % inner;
    std::vector<int64_t> wanted(n);
    std::iota(wanted.begin(), wanted.end(), 0);
    std::stable_sort(wanted.begin(), wanted.end(),
                     [&, inner = inner, largest = largest](int64_t a, int64_t b) {
                       const double u = static_cast<double>(from[a * inner]),
                                    v = static_cast<double>(from[b * inner]);
                       const bool more = std::isnan(u) ? !std::isnan(v) : u > v;
                       const bool less = std::isnan(v) ? !std::isnan(u) : u < v;
                       return largest ? more : less;
                     });
    for (int64_t i = 0; i < k; ++i) {
      const int64_t at = (line / inner * k + i) * inner + line % inner;
      ASSERT_EQ(indices[at], wanted[i]) << "line " << line << " rank " << i;
      ASSERT_EQ(std::memcmp(&values[at], &from[wanted[i] * inner], sizeof(T)), 0);
    }
  }
}

template <typename T>
void CheckAll(OrderedBits order) {
  for (const auto& [outer, n, inner] : {std::array<int64_t, 3>{3, 1, 1},
                                        {2, 100, 1},
                                        {2, 70, 5},
                                        {1, 1000, 17},
                                        {37, 20, 1},
                                        {33, 140, 1},
                                        {37, 50, 3},
                                        {17, 260, 7},
                                        {2, 600, 1}}) {
    const std::vector<float> random = test::RandomFloats(outer * n * inner, 7, -60, 60);
    std::vector<T> x(random.begin(), random.end());  // small integers have many equals
    if constexpr (std::is_floating_point_v<T>) {
      for (size_t i = 0; i < x.size(); i += 7) x[i] = i % 2 == 0 ? T{0} : -T{0};
      for (size_t i = 3; i < x.size(); i += 31) x[i] = std::numeric_limits<T>::quiet_NaN();
      for (size_t i = 5; i < x.size(); i += 31) x[i] = -std::numeric_limits<T>::infinity();
    }
    for (const bool largest : {true, false}) {
      for (const int64_t k : {int64_t{0}, int64_t{1}, n / 9, n / 2, n}) {
        Check<T>({outer, n, inner, k, sizeof(T), order, largest}, x);
      }
    }
  }
}

TEST(TopK, OfEveryWidthAndOrder) {
  ForEachTarget([] {
    CheckAll<float>(OrderedBits::kFloat32);
    CheckAll<double>(OrderedBits::kFloat64);
    CheckAll<int8_t>(OrderedBits::kSigned);
    CheckAll<int16_t>(OrderedBits::kSigned);
    CheckAll<int32_t>(OrderedBits::kSigned);
    CheckAll<int64_t>(OrderedBits::kSigned);
  });
}

TEST(TopK, UnsignedAndHalf) {
  const std::vector<uint8_t> bytes = {3, 200, 7, 200, 0};
  std::vector<uint8_t> best(2);
  std::vector<int64_t> at(2);
  alignas(64) char scratch[4096];
  TopK({1, 5, 1, 2, 1, OrderedBits::kUnsigned, true}, bytes.data(), best.data(), at.data(), scratch,
       Parallel{});
  EXPECT_EQ(at, (std::vector<int64_t>{1, 3}));
  const std::vector<uint16_t> halves = {0x3c00, 0xbc00, 0x7c00, 0x8000, 0x7e00};  // 1 -1 inf -0 NaN
  std::vector<uint16_t> least(5);
  at.resize(5);
  TopK({1, 5, 1, 5, 2, OrderedBits::kFloat16, false}, halves.data(), least.data(), at.data(),
       scratch, Parallel{});
  EXPECT_EQ(at, (std::vector<int64_t>{1, 3, 0, 2, 4}));
}

}  // namespace
}  // namespace sardonyx
