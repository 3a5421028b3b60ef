#include "kernels/crop_and_resize.h"

#include <cmath>

#include "each_target.h"

namespace sardonyx {
namespace {

constexpr double kOutside = -3;

// The pixel or the four around a place; in the type of the boxes, as places on the edge are
// rounded.
template <typename T>
double Plain(const CropShape& shape, const T* image, const T* roi, int64_t row, int64_t column) {
  const auto place = [](T low, T high, int64_t size, int64_t count, int64_t i) {
    const T last = static_cast<T>(size - 1);
    if (count == 1) return T(0.5) * (low + high) * last;
    return low * last + static_cast<T>(i) * ((high - low) * last / static_cast<T>(count - 1));
  };
  const T y = place(roi[0], roi[2], shape.height, shape.rows, row);
  const T x = place(roi[1], roi[3], shape.width, shape.columns, column);
  if (!(y >= 0 && x >= 0 && y <= static_cast<T>(shape.height - 1) &&
        x <= static_cast<T>(shape.width - 1))) {
    return kOutside;
  }
  const auto at = [&](T r, T c) {
    return static_cast<double>(
        image[static_cast<int64_t>(r) * shape.width + static_cast<int64_t>(c)]);
  };
  if (shape.nearest) return at(std::round(y), std::round(x));
  const double down = y - std::floor(y), across = x - std::floor(x);
  return (1 - down) * ((1 - across) * at(std::floor(y), std::floor(x)) +
                       across * at(std::floor(y), std::ceil(x))) +
         down * ((1 - across) * at(std::ceil(y), std::floor(x)) +
                 across * at(std::ceil(y), std::ceil(x)));
}

template <typename T>
void Check(const CropShape& shape) {
  std::mt19937 random(7);
  std::uniform_real_distribution<T> values(-1, 1);
  std::vector<T> x(shape.batch * shape.channels * shape.height * shape.width);
  for (T& value : x) value = values(random);
  std::vector<T> rois = {0, 0, 1, 1, T(0.9), T(0.8), T(0.1), T(0.2), T(-0.5), T(0.5), T(0.5), 2};
  const std::vector<int64_t> images = {1, 0, -1};
  const int64_t pixels = shape.rows * shape.columns;
  ForEachTarget([&] {
    for (const Parallel& par : {OneThread(), TwoThreads()}) {
      Floats scratch(CropScratchBytes(shape, sizeof(T), par.threads) / 4);
      std::vector<T> y(shape.regions * shape.channels * pixels);
      ASSERT_EQ(
          CropAndResize(shape, x.data(), rois.data(), images.data(), y.data(), scratch.get(), par),
          -1);
      ASSERT_TRUE(scratch.Intact());
      for (int64_t i = 0; i < static_cast<int64_t>(y.size()); ++i) {
        const int64_t plane = i / pixels, r = plane / shape.channels;
        const int64_t image = (images[r] + shape.batch) % shape.batch;
        const T* from = x.data() + (image * shape.channels + plane % shape.channels) *
                                       shape.height * shape.width;
        ASSERT_NEAR(
            y[i],
            Plain(shape, from, rois.data() + 4 * r, i % pixels / shape.columns, i % shape.columns),
            1e-5)
            << i;
      }
    }
  });
}

TEST(CropAndResize, ReadsBetweenPixels) {
  for (const bool nearest : {false, true}) {
    for (const auto& [rows, columns] : {std::pair{1, 1}, {4, 7}, {3, 50}, {40, 37}}) {
      const CropShape shape{2, 3, 9, 11, 3, rows, columns, nearest, kOutside};
      Check<float>(shape);
      Check<double>(shape);
    }
  }
}

TEST(CropAndResize, NamesTheRegionWithoutImage) {
  const CropShape shape{2, 1, 2, 2, 3, 1, 1, false, 0};
  const std::vector<float> x(8), rois(12);
  for (const std::vector<int64_t>& images : {std::vector<int64_t>{0, 1, 2}, {0, -2, -3}}) {
    EXPECT_EQ(CropAndResize(shape, x.data(), rois.data(), images.data(),
                            static_cast<float*>(nullptr), nullptr, OneThread()),
              2);
  }
}

}  // namespace
}  // namespace sardonyx
