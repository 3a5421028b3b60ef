#include "kernels/pool.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "kernels/pool_planes.h"
#include "random_data.h"

namespace sardonyx {
namespace {

int64_t Elements(const PoolShape& s, const std::array<int64_t, 3>& sizes) {
  return s.batch * sizes[0] * sizes[1] * sizes[2] * s.channels;
}

// Calls visit(x offset or -1 in the padding, i, j, k input indices) for each position of the window
// that lies within the padded input.
template <typename Visit>
void Window(const PoolShape& s, int64_t b, std::array<int64_t, 3> out, int64_t c, Visit&& visit) {
  for (int64_t i = 0; i < s.kernel[0]; ++i) {
    for (int64_t j = 0; j < s.kernel[1]; ++j) {
      for (int64_t k = 0; k < s.kernel[2]; ++k) {
        const std::array<int64_t, 3> at = {
            out[0] * s.stride[0] - s.pad_begin[0] + i * s.dilation[0],
            out[1] * s.stride[1] - s.pad_begin[1] + j * s.dilation[1],
            out[2] * s.stride[2] - s.pad_begin[2] + k * s.dilation[2]};
        bool inside = true, beyond = false;
        for (int a = 0; a < 3; ++a) {
          inside = inside && at[a] >= 0 && at[a] < s.in[a];
          beyond = beyond || at[a] >= s.in[a] + s.pad_end[a];
        }
        if (beyond) continue;
        visit(inside
                  ? (((b * s.in[0] + at[0]) * s.in[1] + at[1]) * s.in[2] + at[2]) * s.channels + c
                  : -1,
              at);
      }
    }
  }
}

template <typename Body>
void ForEachOutput(const PoolShape& s, Body&& body) {
  int64_t at = 0;
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t i = 0; i < s.out[0]; ++i) {
      for (int64_t j = 0; j < s.out[1]; ++j) {
        for (int64_t k = 0; k < s.out[2]; ++k) {
          for (int64_t c = 0; c < s.channels; ++c) body(at++, b, std::array{i, j, k}, c);
        }
      }
    }
  }
}

template <typename T>
void CheckMax(const PoolShape& s, const std::vector<T>& x) {
  for (PoolIndexOrder order : {PoolIndexOrder::kRowMajor, PoolIndexOrder::kColumnMajor}) {
    std::vector<T> y(Elements(s, s.out)), with_indices(y.size());
    std::vector<int64_t> indices(y.size());
    MaxPool<T>(s, x.data(), y.data(), nullptr, order, test::Threads(2));
    MaxPool<T>(s, x.data(), with_indices.data(), indices.data(), order, test::Threads(1));
    ForEachOutput(s, [&](int64_t at, int64_t b, std::array<int64_t, 3> out, int64_t c) {
      T best = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                    : std::numeric_limits<T>::lowest();
      int64_t index = -1;
      Window(s, b, out, c, [&](int64_t from, std::array<int64_t, 3> in) {
        if (from < 0 || (index >= 0 && !(x[from] > best))) return;
        best = x[from];
        index = order == PoolIndexOrder::kRowMajor ? (in[0] * s.in[1] + in[1]) * s.in[2] + in[2]
                                                   : (in[2] * s.in[1] + in[1]) * s.in[0] + in[0];
        index += (b * s.channels + c) * s.in[0] * s.in[1] * s.in[2];
      });
      ASSERT_EQ(y[at], best) << at;
      ASSERT_EQ(with_indices[at], best) << at;
      ASSERT_EQ(indices[at], index) << at;
    });
  }
}

void CheckSums(const PoolShape& s, const std::vector<float>& x) {
  for (bool include_pad : {false, true}) {
    std::vector<float> y(Elements(s, s.out)), two(y.size());
    AveragePool(s, x.data(), y.data(), include_pad, test::Threads(1));
    AveragePool(s, x.data(), two.data(), include_pad, test::Threads(2));
    ASSERT_TRUE(test::SameBits(y, two));
    const std::vector<double> xd(x.begin(), x.end());
    std::vector<double> yd(y.size());
    AveragePool(s, xd.data(), yd.data(), include_pad, test::Threads(1));
    ForEachOutput(s, [&](int64_t at, int64_t b, std::array<int64_t, 3> out, int64_t c) {
      double sum = 0;
      int64_t count = 0;
      Window(s, b, out, c, [&](int64_t from, std::array<int64_t, 3>) {
        if (from >= 0) sum += x[from];
        if (from >= 0 || include_pad) ++count;
      });
      const double expected = count == 0 ? 0 : sum / static_cast<double>(count);
      ASSERT_NEAR(y[at], expected, 1e-6) << at;
      ASSERT_NEAR(yd[at], expected, 1e-14) << at;
    });
  }
  for (int64_t p : {1, 2, 3}) {
    std::vector<float> y(Elements(s, s.out));
    LpPool(s, x.data(), y.data(), p, test::Threads(2));
    ForEachOutput(s, [&](int64_t at, int64_t b, std::array<int64_t, 3> out, int64_t c) {
      double sum = 0;
      Window(s, b, out, c, [&](int64_t from, std::array<int64_t, 3>) {
        if (from >= 0) sum += std::pow(std::abs(static_cast<double>(x[from])), p);
      });
      ASSERT_NEAR(y[at], std::pow(sum, 1.0 / p), 1e-6) << at;
    });
  }
}

std::vector<PoolShape> Shapes(int64_t channels) {
  std::vector<PoolShape> shapes;
  // ResNet's: 3x3, stride 2, pad 1.
  shapes.push_back(
      {2, channels, {1, 9, 12}, {1, 5, 6}, {1, 3, 3}, {1, 2, 2}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}});
  // Halves.
  shapes.push_back(
      {2, channels, {2, 7, 8}, {2, 4, 4}, {1, 2, 2}, {1, 2, 2}, {1, 1, 1}, {}, {0, 1}});
  // The last window reaches beyond the padding (ceil mode).
  shapes.push_back(
      {1, channels, {1, 8, 8}, {1, 4, 4}, {1, 3, 3}, {1, 2, 2}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}});
  // Dilated, unequal padding.
  shapes.push_back(
      {1, channels, {1, 10, 7}, {1, 8, 3}, {1, 3, 2}, {1, 1, 2}, {1, 2, 3}, {0, 1, 0}, {0, 1, 1}});
  // Three axes.
  shapes.push_back(
      {2, channels, {4, 5, 6}, {3, 3, 3}, {2, 3, 2}, {1, 2, 2}, {1, 1, 1}, {0, 1, 0}, {0, 1, 0}});
  // One axis; a window wholly in the padding.
  shapes.push_back(
      {1, channels, {1, 1, 5}, {1, 1, 9}, {1, 1, 2}, {1, 1, 1}, {1, 1, 1}, {0, 0, 3}, {0, 0, 2}});
  // Windows that overlap, of few columns and of many; rows that see padding alone.
  for (const int64_t kernel : {2, 3, 4, 5, 13}) {
    const int64_t pad = kernel / 2, out = 11 + 2 * pad - kernel;
    shapes.push_back({2,
                      channels,
                      {1, 6, 10},
                      {1, 7, out},
                      {1, 3, kernel},
                      {1, 1, 1},
                      {1, 1, 1},
                      {0, 3, pad},
                      {0, 0, pad}});
  }
  // The same dilated, and of a row that is cut.
  shapes.push_back(
      {1, channels, {1, 8, 14}, {1, 6, 12}, {1, 2, 3}, {1, 1, 1}, {1, 2, 2}, {0, 0, 1}, {0, 0, 1}});
  const int64_t wide = 20000 / channels + 200;
  shapes.push_back({1,
                    channels,
                    {1, 2, wide},
                    {1, 1, wide + 1},
                    {1, 2, 6},
                    {1, 1, 1},
                    {1, 1, 1},
                    {0, 0, 3},
                    {0, 0, 3}});
  return shapes;
}

// Pixels that lie apart, against the same dense.
void CheckApart(PoolShape s, const std::vector<float>& x) {
  constexpr int64_t kIn = 3, kOut = 5;
  const auto pixels = [&](const std::array<int64_t, 3>& sizes) {
    return s.batch * sizes[0] * sizes[1] * sizes[2];
  };
  const auto run = [](const PoolShape& shape, int kind, const float* from, float* to) {
    if (kind == 0) {
      MaxPool<float>(shape, from, to, nullptr, PoolIndexOrder::kRowMajor, test::Threads(2));
    } else {
      AveragePool<float>(shape, from, to, kind == 2, test::Threads(2));
    }
  };
  PoolShape apart = s;
  apart.x_stride = s.channels + kIn;
  apart.y_stride = s.channels + kOut;
  std::vector<float> x_apart(pixels(s.in) * apart.x_stride, std::nanf(""));
  for (int64_t i = 0; i < pixels(s.in); ++i) {
    std::copy_n(&x[i * s.channels], s.channels, &x_apart[i * apart.x_stride]);
  }
  for (const int kind : {0, 1, 2}) {
    std::vector<float> y(Elements(s, s.out)), y_apart(pixels(s.out) * apart.y_stride, 77);
    run(s, kind, x.data(), y.data());
    run(apart, kind, x_apart.data(), y_apart.data());
    for (int64_t i = 0; i < pixels(s.out); ++i) {
      for (int64_t c = 0; c < s.channels; ++c) {
        ASSERT_EQ(y_apart[i * apart.y_stride + c], y[i * s.channels + c]) << i;
      }
      for (int64_t c = 0; c < kOut; ++c) {
        ASSERT_EQ(y_apart[i * apart.y_stride + s.channels + c], 77) << "wrote beyond " << i;
      }
    }
  }
}

TEST(Pool, FloatAgreesWithDouble) {
  test::ForEachTarget([] {
    for (int64_t channels : {1, 3, 8, 17, 64, 75}) {
      for (const PoolShape& shape : Shapes(channels)) {
        const auto x = test::RandomFloats(Elements(shape, shape.in), 2);
        CheckMax(shape, x);
        CheckSums(shape, x);
        CheckApart(shape, x);
      }
    }
  });
}

template <typename T>
class PoolTyped : public testing::Test {};
using Types = testing::Types<double, int8_t, uint8_t>;
TYPED_TEST_SUITE(PoolTyped, Types);

TYPED_TEST(PoolTyped, Max) {
  test::ForEachTarget([] {
    for (const int64_t channels : {1, 3, 16, 37, 64, 75}) {
      for (const PoolShape& shape : Shapes(channels)) {
        std::vector<TypeParam> x(Elements(shape, shape.in));
        for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<TypeParam>(i * 37 % 101);
        CheckMax(shape, x);
      }
    }
  });
}

// The loops over channels are the other opinion.
template <typename T>
void CheckPlanes(const PoolShape& s, DType type) {
  const auto random = test::RandomFloats(Elements(s, s.in), 3, -100, 100);
  const std::vector<T> x(random.begin(), random.end());
  std::vector<T> wanted(Elements(s, s.out)), y(wanted.size()), two(wanted.size());
  ASSERT_TRUE(CanPoolPlanes(s, PlanePool::kMax, type));
  MaxPool<T>(s, x.data(), wanted.data(), nullptr, PoolIndexOrder::kRowMajor, Parallel{});
  PoolPlanes(s, PlanePool::kMax, type, x.data(), y.data(), test::Threads(1));
  PoolPlanes(s, PlanePool::kMax, type, x.data(), two.data(), test::Threads(2));
  EXPECT_EQ(y, wanted);
  EXPECT_TRUE(test::SameBits(y, two));
  if constexpr (std::is_floating_point_v<T>) {
    for (const PlanePool kind : {PlanePool::kAverage, PlanePool::kAverageWithPad}) {
      AveragePool<T>(s, x.data(), wanted.data(), kind == PlanePool::kAverageWithPad, Parallel{});
      PoolPlanes(s, kind, type, x.data(), y.data(), test::Threads(2));
      const double most = 100 * std::numeric_limits<T>::epsilon();  // elements are up to 100
      for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], wanted[i], most) << i;
    }
  }
}

TEST(PoolPlanes, AgreesWithChannelsLast) {
  std::vector<PoolShape> shapes(9);
  shapes[0] = {.batch = 3,
               .in = {1, 9, 11},
               .out = {1, 5, 6},
               .kernel = {1, 3, 3},
               .stride = {1, 2, 2},
               .pad_begin = {0, 1, 1},
               .pad_end = {0, 1, 1}};
  shapes[1] = {.batch = 2, .in = {4, 5, 40}, .out = {3, 4, 38}, .kernel = {2, 2, 3}};
  shapes[2] = {.batch = 2,
               .in = {1, 1, 5000},
               .out = {1, 1, 1000},
               .kernel = {1, 1, 7},
               .stride = {1, 1, 5},
               .pad_begin = {0, 0, 2},
               .pad_end = {0, 0, 0}};
  shapes[3] = {
      .batch = 1, .in = {1, 10, 10}, .out = {1, 8, 6}, .kernel = {1, 2, 3}, .dilation = {1, 2, 2}};
  shapes[4] = {.batch = 1,
               .in = {1, 5, 5},
               .out = {1, 3, 3},
               .kernel = {1, 2, 2},
               .stride = {1, 2, 2}};  // the last windows reach beyond: ceil mode
  shapes[5] = {.batch = 5,
               .in = {1, 20, 20},
               .out = {1, 20, 20},
               .kernel = {1, 5, 5},
               .pad_begin = {0, 2, 2},
               .pad_end = {0, 2, 2}};
  shapes[6] = {.batch = 3,
               .in = {1, 9, 13},
               .out = {1, 7, 8},
               .kernel = {1, 2, 6},
               .dilation = {1, 3, 2},
               .pad_begin = {0, 1, 3},
               .pad_end = {0, 0, 2}};
  shapes[7] = {.batch = 2,
               .in = {1, 3, 2},
               .out = {1, 5, 3},
               .kernel = {1, 7, 11},
               .pad_begin = {0, 5, 4},
               .pad_end = {0, 3, 7}};
  shapes[8] = {.batch = 70,
               .in = {1, 14, 14},
               .out = {1, 14, 14},
               .kernel = {1, 3, 3},
               .pad_begin = {0, 1, 1},
               .pad_end = {0, 1, 1}};
  // Steps of each size, windows that overlap and such that do not, with and without padding, of one
  // row and of several; rows shorter than a vector, and several blocks of columns.
  for (const int64_t stride : {1, 2, 3, 4, 5}) {
    for (const int64_t kernel : {1, 2, 3, 4, 7}) {
      for (const int64_t pad : {int64_t{0}, kernel / 2}) {
        for (const int64_t width : {int64_t{8}, int64_t{57}, int64_t{2100}}) {
          const int64_t out = (width + 2 * pad - kernel) / stride + 1;
          shapes.push_back({.batch = 2,
                            .in = {1, 6, width},
                            .out = {1, pad > 0 ? 3 : 6, out},
                            .kernel = {1, pad > 0 ? 3 : 1, kernel},
                            .stride = {1, pad > 0 ? 2 : 1, stride},
                            .pad_begin = {0, pad > 0 ? 1 : 0, pad},
                            .pad_end = {0, pad > 0 ? 1 : 0, pad}});
        }
      }
    }
  }
  // Long steps; windows that fill lines, with which lines are joined, and such that do not.
  for (const int64_t stride : {5, 8, 13, 40}) {
    for (const int64_t kernel : {4, 5, 7, 8, 13, 21, 31, 40}) {
      for (const int64_t rest : {0, 3}) {
        const int64_t width = stride * 7 + rest;
        const int64_t out = (width - kernel) / stride + 1;
        shapes.push_back({.batch = 2,
                          .in = {3, 61, width},
                          .out = {3, 61, out},
                          .kernel = {1, 1, kernel},
                          .stride = {1, 1, stride}});
      }
    }
  }
  // One column: rows inside of the planes and beyond them.
  for (const int64_t kernel : {1, 2, 3}) {
    for (const int64_t pad : {int64_t{0}, kernel - 1, kernel + 2}) {
      for (const int64_t stride : {1, 2}) {
        for (const int64_t dilation : {1, 2}) {
          const int64_t out = (9 + 2 * pad - (kernel - 1) * dilation - 1) / stride + 1;
          shapes.push_back({.batch = 3,
                            .in = {1, 9, 21},
                            .out = {1, out, 21},
                            .kernel = {1, kernel, 1},
                            .stride = {1, stride, 1},
                            .dilation = {1, dilation, 1},
                            .pad_begin = {0, pad, 0},
                            .pad_end = {0, pad, 0}});
        }
      }
    }
  }
  shapes.push_back({.batch = 3,
                    .in = {1, 1, 4000},
                    .out = {1, 1, 24},
                    .kernel = {1, 1, 397},
                    .stride = {1, 1, 160},
                    .pad_begin = {0, 0, 30},
                    .pad_end = {0, 0, 60}});
  // One plane: windows that reach into the padding around it, and one that has nothing else.
  shapes.push_back({.batch = 4,
                    .in = {1, 1, 2},
                    .out = {1, 1, 2},
                    .kernel = {3, 7, 7},
                    .pad_begin = {1, 3, 3},
                    .pad_end = {1, 3, 3}});
  shapes.push_back({.batch = 2,
                    .in = {1, 17, 36},
                    .out = {1, 15, 35},
                    .kernel = {2, 2, 2},
                    .dilation = {2, 2, 2},
                    .pad_begin = {1, 0, 0},
                    .pad_end = {1, 0, 1}});
  shapes.push_back({.batch = 2,
                    .in = {1, 9, 20},
                    .out = {1, 9, 20},
                    .kernel = {2, 1, 1},
                    .dilation = {2, 1, 1},
                    .pad_begin = {1, 0, 0},
                    .pad_end = {1, 0, 0}});
  // Small planes, of which there are many, go side by side.
  for (size_t i = shapes.size(); i-- > 0;) {
    if (shapes[i].in[0] * shapes[i].in[1] * shapes[i].in[2] > 2048) continue;
    shapes.push_back(shapes[i]);
    shapes.back().batch = 41;
  }
  test::ForEachTarget([&] {
    for (const PoolShape& shape : shapes) {
      SCOPED_TRACE(fmt::format("in {} kernel {} stride {}", fmt::join(shape.in, "x"),
                               fmt::join(shape.kernel, "x"), fmt::join(shape.stride, "x")));
      CheckPlanes<float>(shape, DType::kFloat32);
      CheckPlanes<double>(shape, DType::kFloat64);
      CheckPlanes<int8_t>(shape, DType::kInt8);
    }
  });
}

}  // namespace
}  // namespace sardonyx
