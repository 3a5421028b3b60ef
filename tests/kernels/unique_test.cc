#include "kernels/unique.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "random_data.h"

namespace sardonyx {
namespace {

struct Result {
  int64_t different = 0;
  std::vector<char> values;
  std::vector<int64_t> first, inverse, counts;

  bool operator==(const Result&) const = default;
};

template <typename T>
Result Find(const std::vector<T>& x, OrderedBits order, bool sorted, int threads) {
  const UniqueShape shape{static_cast<int64_t>(x.size()), sizeof(T), order, sorted};
  std::vector<uint64_t> scratch(UniqueScratchBytes(shape) / 8 + 1, ~uint64_t{0});
  Result result;
  result.different = FindUnique(shape, x.data(), scratch.data(), test::Threads(threads));
  result.values.resize(result.different * sizeof(T));
  result.first.resize(result.different);
  result.inverse.resize(x.size());
  result.counts.resize(result.different);
  WriteUnique(
      shape, x.data(), result.different, scratch.data(),
      {result.values.data(), result.first.data(), result.inverse.data(), result.counts.data()},
      test::Threads(threads));
  std::vector<char> alone(result.values.size());
  FindUnique(shape, x.data(), scratch.data(), test::Threads(threads));
  WriteUnique(shape, x.data(), result.different, scratch.data(),
              {alone.data(), nullptr, nullptr, nullptr}, test::Threads(threads));
  EXPECT_EQ(alone, result.values);
  return result;
}

// NaNs are one element, behind all numbers.
struct Less {
  template <typename T>
  bool operator()(T a, T b) const {
    const bool a_nan = a != a, b_nan = b != b;
    return a_nan || b_nan ? !a_nan && b_nan : a < b;
  }
};

template <typename T>
void Check(const std::vector<T>& x, OrderedBits order) {
  std::map<T, std::vector<int64_t>, Less> places;
  for (size_t i = 0; i < x.size(); ++i) places[x[i]].push_back(static_cast<int64_t>(i));
  for (const bool sorted : {true, false}) {
    const Result result = Find(x, order, sorted, 1);
    ASSERT_EQ(result, Find(x, order, sorted, 2));
    ASSERT_EQ(result.different, static_cast<int64_t>(places.size()));
    std::vector<const std::vector<int64_t>*> groups;
    for (const auto& [value, group] : places) groups.push_back(&group);
    if (!sorted) {
      std::sort(groups.begin(), groups.end(),
                [](const auto* a, const auto* b) { return a->front() < b->front(); });
    }
    for (size_t g = 0; g < groups.size(); ++g) {
      ASSERT_EQ(result.first[g], groups[g]->front());
      ASSERT_EQ(result.counts[g], static_cast<int64_t>(groups[g]->size()));
      ASSERT_EQ(std::memcmp(&result.values[g * sizeof(T)], &x[groups[g]->front()], sizeof(T)), 0);
      for (const int64_t place : *groups[g]) {
        ASSERT_EQ(result.inverse[place], static_cast<int64_t>(g));
      }
    }
  }
}

template <typename T>
void CheckNumbers(OrderedBits order) {
  std::mt19937_64 generator(7);
  for (const int64_t count : {1, 2, 100, 1024, 1025, 20000, 100003}) {
    for (const uint64_t different : {uint64_t{1}, uint64_t{3}, uint64_t{300}, ~uint64_t{0}}) {
      std::vector<T> x(count);
      for (T& value : x) {
        const uint64_t random = generator() % different;
        if constexpr (std::is_floating_point_v<T>) {
          value = static_cast<T>(static_cast<double>(random) - 150.0) / T{3};
        } else {
          value = static_cast<T>(random - 150);
        }
      }
      Check(x, order);
    }
  }
}

TEST(Unique, NumbersOfEveryType) {
  CheckNumbers<uint8_t>(OrderedBits::kUnsigned);
  CheckNumbers<int8_t>(OrderedBits::kSigned);
  CheckNumbers<uint16_t>(OrderedBits::kUnsigned);
  CheckNumbers<int16_t>(OrderedBits::kSigned);
  CheckNumbers<uint32_t>(OrderedBits::kUnsigned);
  CheckNumbers<int32_t>(OrderedBits::kSigned);
  CheckNumbers<uint64_t>(OrderedBits::kUnsigned);
  CheckNumbers<int64_t>(OrderedBits::kSigned);
  CheckNumbers<float>(OrderedBits::kFloat32);
  CheckNumbers<double>(OrderedBits::kFloat64);
}

template <typename T>
void CheckSpecialNumbers(OrderedBits order) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> x = {Limits::quiet_NaN(),
                      -0.0,
                      1,
                      Limits::infinity(),
                      0.0,
                      -Limits::infinity(),
                      -Limits::quiet_NaN(),
                      1,
                      -2,
                      Limits::denorm_min(),
                      Limits::quiet_NaN()};
  Check(x, order);
  while (x.size() < 5000) x.insert(x.end(), x.begin(), x.begin() + 11);
  Check(x, order);
}

TEST(Unique, ZerosAndNansAreOne) {
  CheckSpecialNumbers<float>(OrderedBits::kFloat32);
  CheckSpecialNumbers<double>(OrderedBits::kFloat64);
}

// Halves are ordered by their bits as floats are: 1, -1, NaN, 0, -0, 65504.
TEST(Unique, Halves) {
  const std::vector<uint16_t> x = {0x3c00, 0xbc00, 0x7e00, 0, 0x8000, 0x7bff, 0xfe01};
  const Result result = Find(x, OrderedBits::kFloat16, true, 1);
  EXPECT_EQ(result.first, (std::vector<int64_t>{1, 3, 0, 5, 2}));
  EXPECT_EQ(result.inverse, (std::vector<int64_t>{2, 0, 4, 1, 1, 3, 4}));
}

}  // namespace
}  // namespace sardonyx
