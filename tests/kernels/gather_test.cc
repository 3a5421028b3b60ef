#include "kernels/gather.h"

#include <gtest/gtest.h>

#include "random_data.h"

namespace sardonyx {
namespace {

using Sizes = std::vector<int64_t>;

int64_t Product(const Sizes& sizes) {
  int64_t product = 1;
  for (int64_t size : sizes) product *= size;
  return product;
}

template <typename Index>
std::vector<Index> RandomIndices(int64_t count, int64_t axis) {
  std::mt19937 generator(11);
  std::vector<Index> indices(count);
  for (Index& index : indices) {
    index = static_cast<Index>(static_cast<int64_t>(generator() % (2 * axis)) - axis);
  }
  return indices;
}

template <typename Index>
void CheckRows(int64_t outer, int64_t axis, int64_t row, int64_t count) {
  std::vector<uint8_t> data(outer * axis * row);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 131 >> 3);
  auto indices = RandomIndices<Index>(count, axis);
  for (int threads : {1, 2}) {
    std::vector<uint8_t> out(outer * count * row);
    ASSERT_EQ(GatherRows(data.data(), indices.data(), out.data(), outer, axis, row, count,
                         test::Threads(threads)),
              -1);
    for (int64_t i = 0; i < outer * count * row; ++i) {
      const int64_t index = (indices[i / row % count] + axis) % axis;
      ASSERT_EQ(out[i], data[(i / row / count * axis + index) * row + i % row]);
    }
  }
  if (count > 2) {
    std::vector<uint8_t> out(outer * count * row);
    for (int64_t wrong : {axis, -axis - 1}) {
      indices[2] = static_cast<Index>(wrong);
      EXPECT_EQ(GatherRows(data.data(), indices.data(), out.data(), outer, axis, row, count,
                           test::Threads(1)),
                2);
    }
  }
}

TEST(Gather, Rows) {
  for (int64_t row : {1, 2, 3, 4, 8, 16, 40, 3072}) {
    CheckRows<int32_t>(1, 100, row, 128);
    CheckRows<int64_t>(3, 7, row, 5);
    CheckRows<int64_t>(2, 5, row, 0);
    CheckRows<int64_t>(50, 20, row, 300);
  }
}

TEST(Gather, Elements) {
  const Sizes data_dims = {4, 5, 6}, index_dims = {3, 4, 6};
  const auto data = test::RandomFloats(Product(data_dims), 1);
  const int64_t count = Product(index_dims);
  for (int64_t axis : {0, 1, 2}) {
    auto indices = RandomIndices<int32_t>(count, data_dims[axis]);
    std::vector<float> out(count);
    ASSERT_EQ(GatherElements(data.data(), indices.data(), out.data(), data_dims, index_dims, axis,
                             4, test::Threads(2)),
              -1);
    for (int64_t flat = 0; flat < count; ++flat) {
      Sizes at = {flat / 24, flat / 6 % 4, flat % 6};
      at[axis] = (indices[flat] + data_dims[axis]) % data_dims[axis];
      ASSERT_EQ(out[flat], data[(at[0] * 5 + at[1]) * 6 + at[2]]);
    }
    indices[50] = 100;
    EXPECT_EQ(GatherElements(data.data(), indices.data(), out.data(), data_dims, index_dims, axis,
                             4, test::Threads(1)),
              50);
  }
}

TEST(Gather, Nd) {
  const Sizes dims = {3, 4};
  for (int64_t slice : {1, 5}) {
    const int64_t batch = 2, count = 7;
    const auto data = test::RandomFloats(batch * 12 * slice, 1);
    auto indices = RandomIndices<int64_t>(batch * count * 2, 3);
    std::vector<float> out(batch * count * slice);
    ASSERT_EQ(GatherNd(data.data(), indices.data(), out.data(), batch, dims, count, slice * 4,
                       test::Threads(1)),
              -1);
    for (int64_t i = 0; i < batch * count * slice; ++i) {
      const int64_t tuple = i / slice;
      const int64_t a = (indices[tuple * 2] + 3) % 3, b = (indices[tuple * 2 + 1] + 4) % 4;
      ASSERT_EQ(out[i], data[((tuple / count * 3 + a) * 4 + b) * slice + i % slice]);
    }
    indices[5] = 4;
    EXPECT_EQ(GatherNd(data.data(), indices.data(), out.data(), batch, dims, count, slice * 4,
                       test::Threads(1)),
              5);
  }
}

double Combine(ScatterReduction reduction, double a, double b) {
  switch (reduction) {
    case ScatterReduction::kNone: return b;
    case ScatterReduction::kAdd: return a + b;
    case ScatterReduction::kMul: return a * b;
    case ScatterReduction::kMin: return std::min(a, b);
    case ScatterReduction::kMax: return std::max(a, b);
  }
  return 0;
}

template <typename T>
class Scatter : public testing::Test {};
using Types = testing::Types<float, double, int8_t, uint8_t, int32_t, uint32_t, int64_t, uint64_t>;
TYPED_TEST_SUITE(Scatter, Types);

// Many updates of the same places, in order, however many threads there are.
TYPED_TEST(Scatter, ManyElementsMeet) {
  const Sizes dims = {90, 210};
  std::vector<TypeParam> updates(90 * 210);
  for (size_t i = 0; i < updates.size(); ++i) updates[i] = static_cast<TypeParam>(i * 7 % 5);
  for (int64_t axis : {0, 1}) {
    auto indices = RandomIndices<int64_t>(90 * 210, dims[axis]);
    std::vector<TypeParam> expected(updates.size(), TypeParam{2}), out = expected;
    for (int64_t i = 0; i < 90 * 210; ++i) {
      int64_t at[] = {i / 210, i % 210};
      at[axis] = (indices[i] + dims[axis]) % dims[axis];
      expected[at[0] * 210 + at[1]] = updates[i];
    }
    for (int threads : {1, 2}) {
      auto y = out;
      ASSERT_EQ(ScatterElements(y.data(), indices.data(), updates.data(), dims, dims, axis,
                                ScatterReduction::kNone, test::Threads(threads)),
                -1);
      EXPECT_EQ(y, expected) << threads;
    }
    indices[5000] = indices[15000] = dims[axis];
    EXPECT_EQ(ScatterElements(out.data(), indices.data(), updates.data(), dims, dims, axis,
                              ScatterReduction::kAdd, test::Threads(2)),
              5000);
  }
}

TYPED_TEST(Scatter, LongSlicesMeet) {
  constexpr int64_t kRows = 50, kCount = 400, kSlice = 261;
  const auto indices = RandomIndices<int64_t>(kCount, kRows);
  std::vector<TypeParam> updates(kCount * kSlice);
  for (size_t i = 0; i < updates.size(); ++i) updates[i] = static_cast<TypeParam>(i * 7 % 5);
  for (auto reduction : {ScatterReduction::kNone, ScatterReduction::kAdd, ScatterReduction::kMin,
                         ScatterReduction::kMax}) {
    std::vector<TypeParam> expected(kRows * kSlice, TypeParam{2}), out = expected;
    for (int64_t i = 0; i < kCount * kSlice; ++i) {
      const int64_t row = (indices[i / kSlice] + kRows) % kRows;
      TypeParam& target = expected[row * kSlice + i % kSlice];
      target = static_cast<TypeParam>(
          Combine(reduction, static_cast<double>(target), static_cast<double>(updates[i])));
    }
    for (int threads : {1, 2}) {
      auto y = out;
      ASSERT_EQ(ScatterNd(y.data(), indices.data(), updates.data(), Sizes{kRows}, kCount, kSlice,
                          reduction, test::Threads(threads)),
                -1);
      EXPECT_EQ(y, expected) << threads;
    }
  }
}

TYPED_TEST(Scatter, NumbersMeet) {
  constexpr int64_t kRows = 9, kColumns = 13, kCount = 1000;
  const auto rows = RandomIndices<int64_t>(kCount, kRows);
  const auto columns = RandomIndices<int64_t>(kCount, kColumns);
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < kCount; ++i) indices.insert(indices.end(), {rows[i], columns[i]});
  std::vector<TypeParam> updates(kCount);
  for (int64_t i = 0; i < kCount; ++i) updates[i] = static_cast<TypeParam>(i * 7 % 3);
  for (auto reduction : {ScatterReduction::kNone, ScatterReduction::kAdd, ScatterReduction::kMul,
                         ScatterReduction::kMin, ScatterReduction::kMax}) {
    std::vector<TypeParam> expected(kRows * kColumns, TypeParam{1}), out = expected;
    for (int64_t i = 0; i < kCount; ++i) {
      const int64_t row = (rows[i] + kRows) % kRows, column = (columns[i] + kColumns) % kColumns;
      TypeParam& target = expected[row * kColumns + column];
      target = static_cast<TypeParam>(
          Combine(reduction, static_cast<double>(target), static_cast<double>(updates[i])));
    }
    ASSERT_EQ(ScatterNd(out.data(), indices.data(), updates.data(), Sizes{kRows, kColumns}, kCount,
                        1, reduction, test::Threads(1)),
              -1);
    EXPECT_EQ(out, expected);
  }
  auto bad = indices;
  bad[2 * 700 + 1] = kColumns;
  EXPECT_EQ(ScatterNd(updates.data(), bad.data(), updates.data(), Sizes{kRows, kColumns}, kCount, 1,
                      ScatterReduction::kAdd, test::Threads(1)),
            2 * 700 + 1);
}

TYPED_TEST(Scatter, OneLongRow) {
  constexpr int64_t kCount = 60000;
  const Sizes data_dims = {2 * kCount}, index_dims = {kCount};
  std::vector<int64_t> ascending(kCount);
  for (int64_t i = 0; i < kCount; ++i) ascending[i] = 2 * i + i % 2;
  auto back = ascending;
  back[kCount - 1] = ascending[0];  // the last one wins
  std::vector<TypeParam> updates(kCount);
  for (int64_t i = 0; i < kCount; ++i) updates[i] = static_cast<TypeParam>(i % 97);
  for (auto* indices : {&ascending, &back}) {
    std::vector<TypeParam> expected(2 * kCount);
    for (int64_t i = 0; i < kCount; ++i) expected[(*indices)[i]] = updates[i];
    for (int threads : {1, 2}) {
      std::vector<TypeParam> y(2 * kCount);
      ASSERT_EQ(ScatterElements(y.data(), indices->data(), updates.data(), data_dims, index_dims, 0,
                                ScatterReduction::kNone, test::Threads(threads)),
                -1);
      EXPECT_EQ(y, expected) << threads;
    }
  }
  ascending[kCount - 1] = 2 * kCount;
  std::vector<TypeParam> y(2 * kCount);
  EXPECT_EQ(ScatterElements(y.data(), ascending.data(), updates.data(), data_dims, index_dims, 0,
                            ScatterReduction::kNone, test::Threads(2)),
            kCount - 1);
}

TYPED_TEST(Scatter, ElementsAndNd) {
  const Sizes data_dims = {3, 4, 5}, index_dims = {2, 4, 5};
  for (auto reduction : {ScatterReduction::kNone, ScatterReduction::kAdd, ScatterReduction::kMul,
                         ScatterReduction::kMin, ScatterReduction::kMax}) {
    std::vector<TypeParam> data(60), updates(40);
    for (size_t i = 0; i < 60; ++i) data[i] = static_cast<TypeParam>(i % 5);
    for (size_t i = 0; i < 40; ++i) updates[i] = static_cast<TypeParam>(i * 3 % 4);
    for (int64_t axis : {0, 1, 2}) {
      const auto indices = RandomIndices<int64_t>(40, data_dims[axis]);
      std::vector<double> expected(data.begin(), data.end());
      for (int64_t flat = 0; flat < 40; ++flat) {
        Sizes at = {flat / 20, flat / 5 % 4, flat % 5};
        at[axis] = (indices[flat] + data_dims[axis]) % data_dims[axis];
        double& target = expected[(at[0] * 4 + at[1]) * 5 + at[2]];
        target = Combine(reduction, target, static_cast<double>(updates[flat]));
      }
      auto out = data;
      ASSERT_EQ(ScatterElements(out.data(), indices.data(), updates.data(), data_dims, index_dims,
                                axis, reduction, test::Threads(1)),
                -1);
      for (int i = 0; i < 60; ++i) ASSERT_EQ(out[i], static_cast<TypeParam>(expected[i]));
    }
    const Sizes dims = {3, 4};
    const std::vector<int64_t> indices = {0, 1, -1, -1, 0, 1, 2, 0};
    std::vector<double> expected(data.begin(), data.end());
    for (int i = 0; i < 20; ++i) {
      const int64_t a = (indices[i / 5 * 2] + 3) % 3, b = (indices[i / 5 * 2 + 1] + 4) % 4;
      double& target = expected[(a * 4 + b) * 5 + i % 5];
      target = Combine(reduction, target, static_cast<double>(updates[i]));
    }
    auto out = data;
    ASSERT_EQ(ScatterNd(out.data(), indices.data(), updates.data(), dims, 4, 5, reduction,
                        test::Threads(1)),
              -1);
    for (int i = 0; i < 60; ++i) ASSERT_EQ(out[i], static_cast<TypeParam>(expected[i]));
    const std::vector<int64_t> bad = {0, 1, 3, 0};
    EXPECT_EQ(
        ScatterNd(out.data(), bad.data(), updates.data(), dims, 2, 5, reduction, test::Threads(1)),
        2);
  }
}

}  // namespace
}  // namespace sardonyx
