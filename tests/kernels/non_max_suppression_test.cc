#include "kernels/non_max_suppression.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "each_target.h"
#include "random_data.h"

namespace sardonyx {
namespace {

// The intersection of two boxes over their union.
double Overlap(const float* a, const float* b, bool center) {
  const auto sides = [center](const float* box, double(*range)[2]) {
    for (int axis = 0; axis < 2; ++axis) {
      const double p = box[axis], q = box[axis + 2];
      range[axis][0] = center ? p - q / 2 : std::min(p, q);
      range[axis][1] = center ? p + q / 2 : std::max(p, q);
    }
  };
  double p[2][2], q[2][2], common = 1, area_a = 1, area_b = 1;
  sides(a, p), sides(b, q);
  for (int axis = 0; axis < 2; ++axis) {
    common *= std::max(0.0, std::min(p[axis][1], q[axis][1]) - std::max(p[axis][0], q[axis][0]));
    area_a *= p[axis][1] - p[axis][0];
    area_b *= q[axis][1] - q[axis][0];
  }
  return common > 0 ? common / (area_a + area_b - common) : 0;
}

// One row, by the definition: each box against all that were chosen.
std::vector<int32_t> Expected(const NonMaxSuppressionShape& shape, const float* boxes,
                              const float* scores) {
  std::vector<int32_t> order(shape.count), chosen;
  std::iota(order.begin(), order.end(), 0);
  const auto rank = [&](int32_t i) { return scores[i] == scores[i] ? scores[i] : -INFINITY; };
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    if (rank(a) != rank(b)) return rank(a) > rank(b);
    return std::isnan(scores[b]) && !std::isnan(scores[a]);
  });
  for (const int32_t i : order) {
    if (static_cast<int64_t>(chosen.size()) == shape.most) break;
    if (shape.has_least_score && !(scores[i] > shape.least_score)) continue;
    const bool falls = std::any_of(chosen.begin(), chosen.end(), [&](int32_t j) {
      return Overlap(boxes + i * 4, boxes + j * 4, shape.center) > double{shape.overlap};
    });
    if (!falls) chosen.push_back(i);
  }
  return chosen;
}

void Check(const NonMaxSuppressionShape& shape, const std::vector<float>& boxes,
           const std::vector<float>& scores) {
  for (const int threads : {1, 2}) {
    std::vector<uint64_t> scratch(NonMaxSuppressionScratchBytes(shape, threads) / 8 + 8);
    auto* const aligned =
        reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64);
    std::vector<int32_t> chosen(shape.rows() * shape.places(), -1);
    std::vector<int64_t> found(shape.rows());
    NonMaxSuppression(shape, boxes.data(), scores.data(), chosen.data(), found.data(), aligned,
                      test::Threads(threads));
    for (int64_t row = 0; row < shape.rows(); ++row) {
      const auto begin = chosen.begin() + row * shape.places();
      ASSERT_EQ(std::vector<int32_t>(begin, begin + found[row]),
                Expected(shape, boxes.data() + row / shape.classes * shape.count * 4,
                         scores.data() + row * shape.count))
          << "row " << row << ", " << shape.count << " boxes";
    }
  }
}

// Corners and sizes in quarters of a pixel, so that the overlaps of floats are exact enough.
std::vector<float> Boxes(int64_t count, uint32_t seed) {
  std::vector<float> boxes = test::RandomFloats(count * 4, seed, 1, 40);
  for (float& side : boxes) side = std::floor(side * 4) / 4;
  return boxes;
}

TEST(NonMaxSuppression, AsDefined) {
  ForEachTarget([] {
    for (const int64_t count : {1, 15, 16, 17, 100, 777}) {
      for (const int64_t most : {int64_t{0}, int64_t{1}, int64_t{33}, int64_t{1} << 40}) {
        for (int flags = 0; flags < 4; ++flags) {
          NonMaxSuppressionShape shape{.batch = 2, .classes = 3, .count = count, .most = most};
          shape.overlap = 0.31f;
          shape.has_least_score = (flags & 1) != 0;
          shape.least_score = 0.6f;
          shape.center = (flags & 2) != 0;
          std::vector<float> scores = test::RandomFloats(6 * count, 3);
          for (float& score : scores) score = std::floor(score * 20) / 20;  // many are equal
          Check(shape, Boxes(2 * count, static_cast<uint32_t>(count)), scores);
        }
      }
    }
  });
}

TEST(NonMaxSuppression, ScoresAndBoxesThatAreNoNumbers) {
  ForEachTarget([] {
    NonMaxSuppressionShape shape{.count = 6, .most = 6, .overlap = 0.5f};
    std::vector<float> boxes = {0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 2, 5,  // the third has no area
                                2, 2, 2, 5, 9, 9, 8, 8, 8, 8, 9, 9};
    const std::vector<float> scores = {NAN, -INFINITY, 0.0f, -0.0f, INFINITY, NAN};
    Check(shape, boxes, scores);
    shape.has_least_score = true;
    shape.least_score = -1;
    Check(shape, boxes, scores);
  });
}

}  // namespace
}  // namespace sardonyx
