#include "kernels/select.h"

#include <gtest/gtest.h>

#include "each_target.h"
#include "kernels/cumulative.h"
#include "kernels/pad.h"
#include "random_data.h"

namespace sardonyx {
namespace {

TEST(Triangle, KeepsOneSideOfTheDiagonal) {
  constexpr int64_t kCount = 2, kRows = 3, kColumns = 5;
  std::vector<int16_t> x(kCount * kRows * kColumns, 1), y(x.size());
  for (const bool upper : {true, false}) {
    for (int64_t k = -kRows; k <= kColumns; ++k) {
      Triangle(x.data(), y.data(), kCount, kRows, kColumns, k, upper, 2, test::Threads(2));
      for (size_t i = 0; i < y.size(); ++i) {
        const int64_t row = static_cast<int64_t>(i) / kColumns % kRows;
        const int64_t column = static_cast<int64_t>(i) % kColumns;
        ASSERT_EQ(y[i], (upper ? column >= row + k : column <= row + k) ? 1 : 0) << i << " k " << k;
      }
    }
  }
}

TEST(Range, CountsFromTheFirst) {
  std::vector<float> y(3001);
  Range(0.5f, -0.1f, y.data(), 3001, test::Threads(2));
  for (int i = 0; i < 3001; ++i) ASSERT_EQ(y[i], static_cast<float>(0.5 + i * double{-0.1f}));
  std::vector<int64_t> z(1025);
  Range(int64_t{7}, int64_t{-3}, z.data(), 1025, Parallel{});
  EXPECT_EQ(z[1024], 7 - 3 * 1024);
}

template <typename T>
void CheckOneHot() {
  const std::vector<float> indices = {0, -1, 3, 1.5f, 2, -4};  // [2, 3], depth 3
  const T off{4}, on{9};
  const std::vector<T> values = {off, on};
  std::vector<T> y(2 * 3 * 3), expected(y.size(), off);
  OneHot(indices.data(), values.data(), y.data(), 2, 3, 3, sizeof(T), Parallel{});
  for (const size_t i : {0, 7, 16}) expected[i] = on;
  EXPECT_EQ(y, expected);
}

TEST(OneHot, NegativeAndMissingIndices) {
  CheckOneHot<uint8_t>();
  CheckOneHot<int16_t>();
  CheckOneHot<int32_t>();
  CheckOneHot<int64_t>();
  CheckOneHot<std::array<int64_t, 2>>();
}

template <typename T>
void CheckCumulative() {
  for (const auto& [outer, n, inner] :
       {std::array<int64_t, 3>{7, 19, 1}, {2, 13, 300}, {1, 1, 4}, {3, 9, 1031}}) {
    const std::vector<float> random = test::RandomFloats(outer * n * inner, 5, -3, 3);
    const std::vector<T> x(random.begin(), random.end());
    for (int flags = 0; flags < 8; ++flags) {
      const CumulativeShape shape{outer,           n, inner, (flags & 1) != 0, (flags & 2) != 0,
                                  (flags & 4) != 0};
      std::vector<T> y(x.size()), place = x;
      Cumulative(shape, x.data(), y.data(), test::Threads(2));
      Cumulative(shape, place.data(), place.data(), test::Threads(1));
      ASSERT_TRUE(test::SameBits(y, place));
      for (int64_t line = 0; line < outer * inner; ++line) {
        double running = shape.product ? 1 : 0;
        const auto wrapped = [](double value) {  // through 64 bits, as integers do
          if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<int64_t>(value));
          return static_cast<T>(value);
        };
        for (int64_t i = 0; i < n; ++i) {
          const int64_t step = shape.reverse ? n - 1 - i : i;
          const int64_t at = (line / inner * n + step) * inner + line % inner;
          const double before = running;
          running = shape.product ? running * static_cast<double>(x[at])
                                  : running + static_cast<double>(x[at]);
          ASSERT_EQ(y[at], wrapped(shape.exclusive ? before : running)) << flags;
        }
      }
    }
  }
}

TEST(Cumulative, AgreesWithDouble) {
  ForEachTarget([] {
    CheckCumulative<float>();
    CheckCumulative<double>();
    CheckCumulative<int8_t>();
    CheckCumulative<int16_t>();
    CheckCumulative<int32_t>();
    CheckCumulative<int64_t>();
  });
}

TEST(Pad, ReadsWhereTheAxesSay) {
  const PadAxis rows{{1, -1}, {0}, 0, 2}, columns{{2, 1}, {-1, 0}, 1, 2};
  PadPlan plan{{rows, columns}, {3, 1}, 4};
  PreparePad(&plan);
  const std::vector<int32_t> x = {1, 2, 3, 4, 5, 6};  // [2, 3]
  const int32_t value = 9;
  std::vector<int32_t> y(5 * 6);
  Pad(plan, x.data(), &value, y.data(), test::Threads(2));
  EXPECT_EQ(y, (std::vector<int32_t>{6, 5, 5, 6, 9, 4,  //
                                     9, 9, 9, 9, 9, 9,  //
                                     3, 2, 2, 3, 9, 1,  //
                                     6, 5, 5, 6, 9, 4,  //
                                     3, 2, 2, 3, 9, 1}));
}

// Of the value alone, of the edge, of neighbours in either order and of any, around short rows and
// long ones.
TEST(Pad, AgreesWithALoop) {
  std::mt19937 random(5);
  const auto pick = [&](int64_t below) { return static_cast<int64_t>(random() % below); };
  for (int round = 0; round < 400; ++round) {
    const auto rank = static_cast<size_t>(1 + pick(4));
    const int64_t of_value = pick(2);
    std::vector<int64_t> sizes(rank), strides(rank);
    PadPlan plan{.axes = std::vector<PadAxis>(rank), .in_strides = {}, .element_bytes = 2};
    int64_t elements = 1, all = 1;
    for (size_t d = rank; d-- > 0;) {
      PadAxis& axis = plan.axes[d];
      sizes[d] = 1 + pick(d + 1 == rank ? 90 : 5);
      axis.first = pick(sizes[d]);
      axis.count = pick(sizes[d] - axis.first + 1);
      for (std::vector<int64_t>* sources : {&axis.before, &axis.after}) {
        const int64_t kind = of_value != 0 ? 0 : pick(5), begin = pick(sizes[d]), count = pick(30);
        for (int64_t i = 0; i < count; ++i) {
          sources->push_back(kind == 0   ? -1
                             : kind == 1 ? begin
                             : kind == 2 ? (begin + i) % sizes[d]
                             : kind == 3 ? (begin + count - i) % sizes[d]
                                         : pick(sizes[d] + 1) - 1);
        }
        if (d + 2 < rank) sources->resize(sources->size() % 4);
      }
      strides[d] = elements;
      elements *= sizes[d];
      all *= axis.size();
    }
    plan.in_strides = strides;
    PreparePad(&plan);
    std::vector<uint16_t> x(elements), y(all), wanted(all);
    for (uint16_t& each : x) each = static_cast<uint16_t>(random());
    const uint16_t value = 77;
    for (int64_t i = 0; i < all; ++i) {
      int64_t at = 0, rest = i;
      for (size_t d = rank; d-- > 0 && at >= 0; rest /= plan.axes[d].size()) {
        const int64_t source = plan.axes[d].At(rest % plan.axes[d].size());
        at = source < 0 ? -1 : at + source * strides[d];
      }
      wanted[i] = at < 0 ? value : x[at];
    }
    Pad(plan, x.data(), &value, y.data(), test::Threads(1 + round % 2));
    ASSERT_EQ(y, wanted) << "round " << round;
  }
}

}  // namespace
}  // namespace sardonyx
