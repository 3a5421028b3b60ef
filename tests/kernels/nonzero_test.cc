#include "kernels/nonzero.h"

#include <gtest/gtest.h>

#include <numeric>

#include "each_target.h"
#include "random_data.h"

namespace sardonyx {
namespace {

struct MarkMemory {
  explicit MarkMemory(int64_t count) : words(Marks::Bytes(count) / 8, ~uint64_t{0}) {}
  std::vector<uint64_t> words;  // full of ones: nothing may rely on zeros
};

// Values of which about one in `sparse` is not zero.
template <typename T>
std::vector<T> Sparse(int64_t count, int sparse, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(generator() % sparse == 0 ? generator() | 1 : 0);
  return values;
}

constexpr int64_t kGuard = 0x5a5a5a5a;

template <typename T>
void CheckNonzero() {
  const std::vector<std::vector<int64_t>> shapes = {
      {1},      {63},   {64},      {65},      {8191},      {8192},     {8193},
      {100003}, {1, 1}, {3, 5, 7}, {1000, 4}, {2, 64, 64}, {7, 20011}, {33, 3, 2, 129}};
  for (const std::vector<int64_t>& dims : shapes) {
    int64_t count = 1;
    for (const int64_t dim : dims) count *= dim;
    for (const int sparse : {1, 2, 9, 5000}) {
      const std::vector<T> x = Sparse<T>(count, sparse, static_cast<uint32_t>(count + sparse));
      std::vector<int64_t> places;
      for (int64_t i = 0; i < count; ++i) {
        if (x[i] != 0) places.push_back(i);
      }
      for (const int threads : {1, 2}) {
        MarkMemory memory(count);
        Marks marks(count, memory.words.data());
        marks.MarkNonzero(x.data(), static_cast<T>(~T{0}), test::Threads(threads));
        ASSERT_EQ(marks.marked(), static_cast<int64_t>(places.size()));
        const auto all = static_cast<int64_t>(places.size());
        std::vector<int64_t> y(all * dims.size() + 1, kGuard);
        marks.WriteIndices(dims, y.data(), test::Threads(threads));
        for (int64_t i = 0; i < all; ++i) {
          int64_t place = 0;
          for (size_t axis = 0; axis < dims.size(); ++axis) {
            const int64_t index = y[axis * all + i];
            ASSERT_TRUE(index >= 0 && index < dims[axis]) << index << " axis " << axis;
            place = place * dims[axis] + index;
          }
          ASSERT_EQ(place, places[i]) << i << " of " << all << ", " << count << " elements";
        }
        ASSERT_EQ(y.back(), kGuard);
        std::vector<T> chosen(all + 1, T{77});
        marks.WriteChosen(x.data(), sizeof(T), chosen.data(), test::Threads(threads));
        for (int64_t i = 0; i < all; ++i) ASSERT_EQ(chosen[i], x[places[i]]);
        ASSERT_EQ(chosen.back(), T{77});
      }
    }
  }
}

TEST(Nonzero, IndicesAndElementsOfEveryWidth) {
  ForEachTarget([] {
    CheckNonzero<uint8_t>();
    CheckNonzero<uint16_t>();
    CheckNonzero<uint32_t>();
    CheckNonzero<uint64_t>();
  });
}

TEST(Nonzero, MaskSaysWhichBitsCount) {
  ForEachTarget([] {
    const std::vector<float> x = {0.0f, -0.0f, 1e-45f, -1e-45f, NAN, -2.0f, 0.0f};
    MarkMemory memory(7);
    Marks marks(7, memory.words.data());
    marks.MarkNonzero(reinterpret_cast<const uint32_t*>(x.data()), 0x7fffffffu, Parallel{});
    std::vector<int64_t> y(marks.marked());
    marks.WriteIndices(std::vector<int64_t>{7}, y.data(), Parallel{});
    EXPECT_EQ(y, (std::vector<int64_t>{2, 3, 4, 5}));
  });
}

TEST(Nonzero, ElementsOfSixteenBytes) {
  constexpr int64_t kCount = 1000;
  std::vector<std::array<int64_t, 2>> x(kCount), y(kCount / 2);
  std::vector<uint8_t> condition(kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    x[i] = {i, -i};
    condition[i] = static_cast<uint8_t>(i % 2);
  }
  MarkMemory memory(kCount);
  Marks marks(kCount, memory.words.data());
  marks.MarkNonzero(condition.data(), uint8_t{0xff}, Parallel{});
  ASSERT_EQ(marks.marked(), kCount / 2);
  marks.WriteChosen(x.data(), 16, y.data(), test::Threads(2));
  for (int64_t i = 0; i < kCount / 2; ++i) ASSERT_EQ(y[i], x[2 * i + 1]);
}

TEST(Nonzero, NoElements) {
  MarkMemory memory(0);
  Marks marks(0, memory.words.data());
  marks.MarkNonzero(static_cast<const uint8_t*>(nullptr), uint8_t{1}, test::Threads(2));
  EXPECT_EQ(marks.marked(), 0);
  marks.WriteIndices(std::vector<int64_t>{3, 0}, nullptr, Parallel{});
}

}  // namespace
}  // namespace sardonyx
