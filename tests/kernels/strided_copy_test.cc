#include "kernels/repeat.h"

#include <gtest/gtest.h>

#include <numeric>

#include "random_data.h"

namespace sardonyx {
namespace {

using Sizes = std::vector<int64_t>;

Sizes Contiguous(const Sizes& dims) {
  Sizes strides(dims.size(), 1);
  for (int i = static_cast<int>(dims.size()) - 2; i >= 0; --i) {
    strides[i] = strides[i + 1] * dims[i + 1];
  }
  return strides;
}

struct Extent {
  int64_t low = 0, high = 0;  // offsets of the first and last element reached
};
Extent Reach(const Sizes& dims, const Sizes& strides) {
  Extent extent;
  for (size_t i = 0; i < dims.size(); ++i) {
    (strides[i] < 0 ? extent.low : extent.high) += (dims[i] - 1) * strides[i];
  }
  return extent;
}

// Copies with the kernel and element by element, and compares the whole output buffer.
void Check(const Sizes& dims, const Sizes& in_strides, const Sizes& out_strides, int bytes) {
  const Extent in_reach = Reach(dims, in_strides), out_reach = Reach(dims, out_strides);
  std::vector<uint8_t> in((in_reach.high - in_reach.low + 1) * bytes);
  std::mt19937 generator(7);
  for (uint8_t& value : in) value = static_cast<uint8_t>(generator());
  const size_t out_size = (out_reach.high - out_reach.low + 1) * bytes;
  std::vector<uint8_t> expected(out_size, 0xAB);
  int64_t count = 1;
  for (int64_t size : dims) count *= size;
  for (int64_t flat = 0; flat < count; ++flat) {
    int64_t rest = flat, from = -in_reach.low, to = -out_reach.low;
    for (int i = static_cast<int>(dims.size()) - 1; i >= 0; --i) {
      from += rest % dims[i] * in_strides[i];
      to += rest % dims[i] * out_strides[i];
      rest /= dims[i];
    }
    std::memcpy(&expected[to * bytes], &in[from * bytes], bytes);
  }
  const StridedCopyPlan plan = PrepareStridedCopy(dims, in_strides, out_strides, bytes);
  const RepeatPlan repeated = PrepareRepeat(dims, in_strides, out_strides, bytes);
  for (int threads : {1, 2}) {
    std::vector<uint8_t> out(out_size, 0xAB);
    StridedCopy(plan, in.data() - in_reach.low * bytes, out.data() - out_reach.low * bytes,
                test::Threads(threads));
    ASSERT_TRUE(out == expected) << "bytes " << bytes << " threads " << threads;
    std::fill(out.begin(), out.end(), uint8_t{0xAB});
    Repeat(repeated, in.data() - in_reach.low * bytes, out.data() - out_reach.low * bytes,
           test::Threads(threads));
    ASSERT_TRUE(out == expected) << "bytes " << bytes << " threads " << threads << ", repeated";
  }
}

void CheckTranspose(const Sizes& dims, const std::vector<int>& order, int bytes) {
  const Sizes strides = Contiguous(dims);
  Sizes out_dims, in_strides;
  for (int axis : order) {
    out_dims.push_back(dims[axis]);
    in_strides.push_back(strides[axis]);
  }
  Check(out_dims, in_strides, Contiguous(out_dims), bytes);
}

constexpr int kWidths[] = {1, 2, 4, 8, 16};

TEST(StridedCopy, Transposes) {
  test::ForEachTarget([] {
    for (int bytes : kWidths) {
      for (int64_t rows : {1, 2, 3, 4, 8, 13, 24, 34, 70}) {
        for (int64_t cols : {1, 2, 3, 4, 7, 8, 16, 65, 131}) {
          CheckTranspose({rows, cols}, {1, 0}, bytes);
          // Rows that lie apart, of the input or of the output.
          Check({cols, rows}, {1, cols + 3}, {rows, 1}, bytes);
          Check({cols, rows}, {1, cols}, {rows + 3, 1}, bytes);
          CheckTranspose({2, rows, cols}, {0, 2, 1}, bytes);
        }
      }
      CheckTranspose({2, 5, 7, 12}, {0, 2, 1, 3}, bytes);
      CheckTranspose({3, 4, 5, 6}, {3, 1, 2, 0}, bytes);
      CheckTranspose({3, 4, 5, 6, 2}, {4, 3, 2, 1, 0}, bytes);
      CheckTranspose({2, 3, 1, 6, 2}, {2, 0, 3, 1, 4}, bytes);
      CheckTranspose({300, 256}, {1, 0}, bytes);
      for (int64_t channels : {8, 20, 24, 72}) {  // of several tasks
        CheckTranspose({3136, channels}, {1, 0}, bytes);
        CheckTranspose({channels, 3136}, {1, 0}, bytes);
      }
      for (int64_t channels : {32, 70, 72, 83}) {  // whose lines meet in the cache
        CheckTranspose({channels, 4096}, {1, 0}, bytes);
        Check({4093, channels}, {1, 4096}, {channels, 1}, bytes);
      }
    }
  });
}

TEST(StridedCopy, EveryOrderOfFourAxes) {
  std::vector<int> order = {0, 1, 2, 3};
  do {
    CheckTranspose({4, 9, 3, 8}, order, 4);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(StridedCopy, SlicesWithNegativeSteps) {
  for (int bytes : kWidths) {
    Check({5, 6}, {20, 2}, {6, 1}, bytes);
    Check({5, 6}, {-20, -2}, {6, 1}, bytes);
    Check({5, 6}, {20, -1}, {6, 1}, bytes);
    Check({100}, {-1}, {1}, bytes);
    Check({7, 3, 2}, {12, 4, 1}, {40, -10, 1}, bytes);
    Check({7, 3, 2}, {12, 4, 1}, {-60, 20, -3}, bytes);
    Check({200, 301}, {512, 1}, {301, 1}, bytes);
  }
}

TEST(StridedCopy, PairsApartAndTogether) {
  for (const int bytes : {1, 2, 4, 8}) {
    Check({3, 70, 2}, {140, 1, 70}, {140, 2, 1}, bytes);
    Check({3, 2, 70}, {140, 1, 2}, {140, 70, 1}, bytes);
  }
}

TEST(StridedCopy, Expands) {
  for (int bytes : kWidths) {
    Check({4, 5, 6}, {0, 1, 0}, {30, 6, 1}, bytes);
    Check({4, 5, 6}, {0, 0, 0}, {30, 6, 1}, bytes);
    Check({4, 5, 6}, {0, 6, 1}, {30, 6, 1}, bytes);
    Check({40, 5000}, {1, 0}, {5000, 1}, bytes);
    Check({3, 2, 5, 2}, {5, 0, 1, 0}, {20, 10, 2, 1}, bytes);
    Check({64, 3, 10, 3, 10}, {100, 0, 10, 0, 1}, {900, 300, 30, 10, 1}, bytes);  // small tiles
    // Rows of few elements, repeated: of a count with divisors, and of a prime one.
    for (int64_t rows : {6000, 5987}) {
      for (int64_t row : {1, 3, 7}) Check({rows, 3, row}, {row, 0, 1}, {3 * row, row, 1}, bytes);
    }
  }
}

// Blocks that repeat: of short repeats, of several outer indices, with gaps, and such that are too
// large.
TEST(StridedCopy, Repeats) {
  test::ForEachTarget([] {
    for (const int bytes : kWidths) {
      for (const int64_t times : {2, 3, 4, 5, 21, 40}) {
        Check({50, times}, {1, 0}, {times, 1}, bytes);
        Check({30, 17, times}, {0, 1, 0}, {17 * times, times, 1}, bytes);
        Check({19, 7, 4, 9, times}, {0, 9, 0, 1, 0},
              {7 * 36 * times, 36 * times, 9 * times, times, 1}, bytes);
        Check({6, 25, 13, times}, {13, 0, 1, 0}, {350 * times, 14 * times, times, 1}, bytes);
        Check({6, 25, 13, times}, {13, 0, 1, 0}, {400 * times, 13 * times, times, 1}, bytes);
      }
      Check({300, 2}, {0, 1}, {2, 1}, bytes);
      Check({5, 300, 3}, {3, 0, 1}, {900, 3, 1}, bytes);
      Check({3, 5, 90000}, {0, 0, 1}, {450000, 90000, 1}, bytes);
      Check({3, 40, 9000, 2}, {9000, 0, 1, 0}, {720000, 18000, 2, 1}, bytes);
    }
  });
}

TEST(StridedCopy, WritesIntoPartOfTheOutput) {
  test::ForEachTarget([] {
    for (int bytes : kWidths) {
      Check({50, 17}, {17, 1}, {40, 1}, bytes);
      Check({50, 31}, {33, 1}, {34, 1}, bytes);
      Check({5, 600}, {700, 1}, {601, 1}, bytes);
      Check({50, 3}, {3, 1}, {7, 1}, bytes);
      Check({50, 1}, {1, 1}, {7, 1}, bytes);
      Check({9, 40, 33}, {1, 9, 360}, {1400, 35, 1}, bytes);
    }
  });
}

TEST(StridedCopy, LargeContiguous) { Check({3, 70001}, {70001, 1}, {70001, 1}, 4); }

TEST(StridedCopy, NothingAndScalars) {
  Check({}, {}, {}, 4);
  Check({1, 1}, {5, 5}, {7, 7}, 8);
  const Sizes dims = {3, 0, 2}, strides = {0, 2, 1};
  StridedCopy(PrepareStridedCopy(dims, strides, strides, 4), nullptr, nullptr, test::Threads(1));
}

void CheckJoinAndSplit(const Sizes& bytes, int64_t rows) {
  const int64_t whole = std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
  std::vector<uint8_t> all(rows * whole), again(rows * whole);
  std::iota(all.begin(), all.end(), uint8_t{0});
  std::vector<std::vector<uint8_t>> parts;
  std::vector<void*> to;
  for (int64_t part : bytes) to.push_back(parts.emplace_back(rows * part).data());
  SplitRows(bytes, rows, all.data(), to.data(), test::Threads(2));
  int64_t at = 0;
  for (size_t part = 0; part < bytes.size(); at += bytes[part++]) {
    for (int64_t i = 0; i < rows * bytes[part]; ++i) {
      const int64_t from = i / bytes[part] * whole + at + i % bytes[part];
      ASSERT_EQ(parts[part][i], all[from]) << "part " << part << " byte " << i;
    }
  }
  JoinRows(bytes, rows, to.data(), again.data(), test::Threads(2));
  EXPECT_EQ(again, all);
}

TEST(StridedCopy, JoinsAndSplitsRows) {
  test::ForEachTarget([] {
    for (int64_t rows : {1, 7, 300}) {
      CheckJoinAndSplit({64, 100, 1, 3000}, rows);
      for (int64_t bytes :
           {0, 1, 2, 3, 4, 7, 8, 12, 15, 16, 17, 31, 32, 33, 63, 64, 65, 80, 96, 511, 512, 513}) {
        CheckJoinAndSplit({bytes, bytes}, rows);
        CheckJoinAndSplit({bytes, 3, 24}, rows);
      }
    }
  });
}

TEST(StridedCopy, Fills) {
  const uint8_t value[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  for (int bytes : kWidths) {
    for (int64_t count : {0, 1, 3, 100000}) {
      std::vector<uint8_t> out(count * bytes + 1, 0xAB);
      Fill(out.data(), count, value, bytes, test::Threads(2));
      for (int64_t i = 0; i < count * bytes; ++i) ASSERT_EQ(out[i], value[i % bytes]);
      EXPECT_EQ(out.back(), 0xAB);
    }
  }
}

}  // namespace
}  // namespace sardonyx
