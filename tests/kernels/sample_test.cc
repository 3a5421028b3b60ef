// Kernels that read images between pixels, and col2im, which adds blocks into them.

#include "kernels/sample.h"

#include <cmath>

#include "each_target.h"
#include "kernels/col2im.h"
#include "kernels/deform.h"
#include "kernels/grid_sample.h"
#include "kernels/roi_align.h"

namespace sardonyx {
namespace {

// Runs `kernel(y, scratch, par)` with one and two threads on every target.
template <typename Bytes, typename Kernel>
void ForEachRun(int64_t size, Bytes&& scratch_bytes, Kernel&& kernel,
                const std::vector<double>& expected, double tolerance) {
  ForEachTarget([&] {
    std::vector<Floats> results;
    for (const Parallel& par : {OneThread(), TwoThreads()}) {
      Floats y(size), scratch(scratch_bytes(par.threads) / 4);
      kernel(y.get(), scratch.get(), par);
      ASSERT_TRUE(y.Intact() && scratch.Intact());
      for (int64_t i = 0; i < size; ++i) ASSERT_NEAR(y[i], expected[i], tolerance) << i;
      results.push_back(std::move(y));
    }
    ASSERT_TRUE(results[0].SameBits(results[1]));
  });
}

// The pixel of an axis that stands for i; -1: none.
int64_t Outside(int64_t i, int64_t size, GridSampleShape::Padding padding, bool corners) {
  if (i >= 0 && i < size) return i;
  if (padding == GridSampleShape::Padding::kZeros) return -1;
  if (padding == GridSampleShape::Padding::kBorder) return i < 0 ? 0 : size - 1;
  while (i < 0 || i >= size) {
    i = i < 0 ? (corners ? -i : -1 - i) : (corners ? 2 * (size - 1) - i : 2 * size - 1 - i);
  }
  return i;
}

// Points inside of the image, with borders handled by pixels: coordinates there need no reflection.
double Plain(const GridSampleShape& shape, const float* image, const float* point) {
  using Mode = GridSampleShape::Mode;
  std::vector<std::pair<int64_t, double>> axes[3];
  for (int axis = 0; axis < shape.rank; ++axis) {
    const double g = point[shape.rank - 1 - axis], n = static_cast<double>(shape.sizes[axis]);
    const double x = shape.align_corners ? (g + 1) / 2 * (n - 1) : ((g + 1) * n - 1) / 2;
    const auto below = static_cast<int64_t>(std::floor(x));
    for (int64_t i = below - 1; i <= below + 2; ++i) {
      const double d = std::abs(x - static_cast<double>(i));
      double weight = 0;
      if (shape.mode == Mode::kNearest) weight = i == std::lround(x);
      if (shape.mode == Mode::kLinear) weight = std::max(0.0, 1 - d);
      if (shape.mode == Mode::kCubic) {
        weight = d <= 1  ? (1.25 * d - 2.25) * d * d + 1
                 : d < 2 ? ((-0.75 * d + 3.75) * d - 6) * d + 3
                         : 0;
      }
      const int64_t pixel = Outside(i, shape.sizes[axis], shape.padding, shape.align_corners);
      if (pixel >= 0 && weight != 0) axes[axis].emplace_back(pixel, weight);
    }
  }
  if (shape.rank == 2) axes[2] = {{0, 1.0}};
  double sum = 0;
  for (const auto& [i, a] : axes[0]) {
    for (const auto& [j, b] : axes[1]) {
      for (const auto& [k, c] : axes[2]) {
        const int64_t last = shape.rank == 3 ? shape.sizes[2] : 1;
        sum += a * b * c * image[(i * shape.sizes[1] + j) * last + k];
      }
    }
  }
  return sum;
}

TEST(Sample, Grid) {
  using Shape = GridSampleShape;
  for (int rank : {2, 3}) {
    for (auto mode : {Shape::Mode::kNearest, Shape::Mode::kLinear, Shape::Mode::kCubic}) {
      for (auto padding :
           {Shape::Padding::kZeros, Shape::Padding::kBorder, Shape::Padding::kReflection}) {
        for (int64_t channels : {1, 3, 5, 37}) {
          const Shape shape{2,    channels, 151,          rank, {6, 7, rank == 3 ? 5 : 1},
                            mode, padding,  channels == 5};
          const Floats x = Floats::Random(2 * channels * shape.pixels(), 1);
          const Floats grid = Floats::Random(2 * shape.points * rank, 2);
          std::vector<double> expected;
          for (int64_t i = 0; i < 2 * channels * shape.points; ++i) {
            const int64_t image = i / shape.points, point = i % shape.points;
            // Beyond the outermost pixels `border` clamps the coordinate, which cubic weights
            // notice.
            float at[3];
            for (int axis = 0; axis < rank; ++axis) {
              float& g = grid[(image / channels * shape.points + point) * rank + axis];
              if (mode == Shape::Mode::kCubic || !shape.align_corners) g = std::fmod(g, 0.7f);
              at[axis] = g;
            }
            expected.push_back(Plain(shape, x.get() + image * shape.pixels(), at));
          }
          ForEachRun(
              static_cast<int64_t>(expected.size()),
              [&](int threads) { return GridSampleScratchBytes<float>(shape, threads); },
              [&](float* y, float* scratch, const Parallel& par) {
                GridSample(shape, x.get(), grid.get(), y, scratch, par);
              },
              expected, 1e-5);
          const std::vector<double> wide_x(x.get(), x.get() + 2 * channels * shape.pixels());
          const std::vector<double> wide_grid(grid.get(), grid.get() + 2 * shape.points * rank);
          std::vector<double> y(expected.size());
          Floats scratch(GridSampleScratchBytes<double>(shape, 2) / 4);
          GridSample(shape, wide_x.data(), wide_grid.data(), y.data(), scratch.get(), TwoThreads());
          ASSERT_TRUE(scratch.Intact());
          for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], 1e-12) << i;
        }
      }
    }
  }
}

TEST(Sample, Regions) {
  const Floats x = Floats::Random(2 * 19 * 9 * 11, 1);
  const std::vector<float> rois = {1, 2, 9, 7.5f, -3, -2, 4, 30, 5, 5, 4, 4, 0.5f, 0, 21, 17};
  const std::vector<int64_t> images = {0, 1, -1, 0};
  for (bool largest : {false, true}) {
    for (int64_t samples : {0, 1, 3}) {
      const RoiAlignShape shape{2, 19, 9, 11, 4, 3, 5, samples, samples == 1, largest, 0.5f};
      std::vector<double> expected;
      for (int64_t i = 0; i < 4 * 19 * 15; ++i) {
        const int64_t r = i / (19 * 15), channel = i / 15 % 19, row = i / 5 % 3, column = i % 5;
        const int64_t image = (images[r] + 2) % 2;
        const float* plane = x.get() + (image * 19 + channel) * 99;
        const double shift = shape.half_pixel ? 0.5 : 0;
        const auto axis = [&](int at, int64_t outputs) {
          const double low = rois[4 * r + at] * 0.5 - shift;
          double extent = rois[4 * r + at + 2] * 0.5 - shift - low;
          if (!shape.half_pixel) extent = std::max(extent, 1.0);
          return std::pair(low, extent / static_cast<double>(outputs));
        };
        const auto [left, width] = axis(0, 5);
        const auto [top, height] = axis(1, 3);
        const double down = samples > 0 ? samples : std::max(0.0, std::ceil(height));
        const double across = samples > 0 ? samples : std::max(0.0, std::ceil(width));
        double sum = 0, most = -1e30;
        for (int a = 0; a < down; ++a) {
          for (int b = 0; b < across; ++b) {
            double y = top + (static_cast<double>(row) + (a + 0.5) / down) * height;
            double z = left + (static_cast<double>(column) + (b + 0.5) / across) * width;
            if (y < -1 || y > 9 || z < -1 || z > 11) {
              most = std::max(most, 0.0);
              continue;
            }
            y = std::min(std::max(y, 0.0), 8.0);
            z = std::min(std::max(z, 0.0), 10.0);
            const int64_t i0 = static_cast<int64_t>(y), j0 = static_cast<int64_t>(z);
            for (int64_t p = i0; p <= std::min<int64_t>(i0 + 1, 8); ++p) {
              for (int64_t q = j0; q <= std::min<int64_t>(j0 + 1, 10); ++q) {
                const double part = (1 - std::abs(y - static_cast<double>(p))) *
                                    (1 - std::abs(z - static_cast<double>(q))) * plane[p * 11 + q];
                sum += part;
                most = std::max(most, part);
              }
            }
          }
        }
        expected.push_back(down * across == 0 ? 0 : largest ? most : sum / (down * across));
      }
      // Where only one pixel of a pair exists, the other counts as the same one with weight 0.
      ForEachRun(
          static_cast<int64_t>(expected.size()),
          [&](int threads) { return RoiAlignScratchBytes(shape, threads); },
          [&](float* y, float* scratch, const Parallel& par) {
            EXPECT_EQ(RoiAlign(shape, x.get(), rois.data(), images.data(), y, scratch, par), -1);
          },
          expected, 1e-5);
    }
  }
  const RoiAlignShape shape{2, 19, 9, 11, 4, 3, 5, 2, true, false, 0.5f};
  const std::vector<int64_t> wrong = {0, 1, 2, 0};
  Floats scratch(RoiAlignScratchBytes(shape, 1) / 4);
  EXPECT_EQ(
      RoiAlign(shape, x.get(), rois.data(), wrong.data(), nullptr, scratch.get(), OneThread()), 2);
}

TEST(Sample, DeformedColumns) {
  const DeformShape shape{2, 6, 2, {7, 3, 4, 2, 1, 1}, {9, 2, 8, 1, 2, 0}};
  const int64_t area = shape.area(), out = shape.out();
  const Floats x = Floats::Random(2 * 6 * 63, 1);
  Floats offset = Floats::Random(2 * 2 * area * 2 * out, 2);
  for (int64_t i = 0; i < offset.size(); ++i) offset[i] *= 3;
  const Floats mask = Floats::Random(2 * 2 * area * out, 3);
  for (bool masked : {false, true}) {
    std::vector<double> expected;
    for (int64_t i = 0; i < 2 * 6 * area * out; ++i) {
      const int64_t channel = i / (area * out), t = i / out % area, o = i % out;
      const int64_t group = channel / 3, row = (group * area + t) * 2 * out + o;
      const double y = static_cast<double>(o / 8 * 2 + t / 2 - 1) + offset[row];
      const double z = static_cast<double>(o % 8 + t % 2 * 2) + offset[row + out];
      double sum = 0;
      for (int64_t p = 0; p < 7; ++p) {
        for (int64_t q = 0; q < 9; ++q) {
          sum += std::max(0.0, 1 - std::abs(y - static_cast<double>(p))) *
                 std::max(0.0, 1 - std::abs(z - static_cast<double>(q))) *
                 x[channel * 63 + p * 9 + q];
        }
      }
      expected.push_back(masked ? sum * mask[(group * area + t) * out + o] : sum);
    }
    ForEachRun(
        static_cast<int64_t>(expected.size()),
        [&](int threads) { return DeformColumnsScratchBytes(shape, threads); },
        [&](float* y, float* scratch, const Parallel& par) {
          DeformColumns(shape, x.get(), offset.get(), masked ? mask.get() : nullptr, y, scratch,
                        par);
        },
        expected, 1e-5);
  }
}

TEST(Sample, ColumnsToImage) {
  const Col2ImAxis one{1, 1, 1, 1, 1, 0};
  const std::pair<Col2ImAxis, Col2ImAxis> cases[] = {{{8, 3, 8, 1, 1, 1}, {9, 2, 8, 1, 1, 0}},
                                                     {{11, 3, 4, 2, 2, 1}, {7, 2, 5, 2, 1, 2}},
                                                     {one, {12, 4, 3, 4, 1, 0}},
                                                     {one, {3, 2, 4, 3, 5, 4}}};
  for (const auto& [rows, columns] : cases) {
    const int64_t area = rows.block * columns.block, blocks = rows.count * columns.count;
    const Floats x = Floats::Random(3 * area * blocks, 1);
    std::vector<double> expected(3 * rows.size * columns.size);
    for (int64_t i = 0; i < x.size(); ++i) {
      const int64_t image = i / (area * blocks), t = i / blocks % area, o = i % blocks;
      const int64_t p =
          o / columns.count * rows.stride + t / columns.block * rows.dilation - rows.pad;
      const int64_t q =
          o % columns.count * columns.stride + t % columns.block * columns.dilation - columns.pad;
      if (p < 0 || p >= rows.size || q < 0 || q >= columns.size) continue;
      expected[(image * rows.size + p) * columns.size + q] += x[i];
    }
    ForEachRun(
        static_cast<int64_t>(expected.size()), [](int) { return int64_t{0}; },
        [&](float* y, float*, const Parallel& par) { Col2Im(3, rows, columns, x.get(), y, par); },
        expected, 1e-5);
  }
}

}  // namespace
}  // namespace sardonyx
