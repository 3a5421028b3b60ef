#include "kernels/dft.h"

#include <cmath>
#include <numbers>

#include "each_target.h"

namespace sardonyx {
namespace {

// Against the sum by which the transform is defined.
template <typename T>
void Check(int64_t length, const DftShape& shape, double tolerance) {
  const DftPlan<T> plan = PlanDft<T>(length);
  ASSERT_FALSE(plan.factors.empty());
  const Floats x = Floats::Random(shape.outer * shape.size * shape.inner * shape.parts, 1);
  std::vector<double> expected;
  for (int64_t outer = 0; outer < shape.outer; ++outer) {
    for (int64_t k = 0; k < shape.out_size; ++k) {
      for (int64_t inner = 0; inner < shape.inner; ++inner) {
        double re = 0, im = 0;
        for (int64_t j = 0; j < std::min(shape.size, length); ++j) {
          const float* at =
              x.get() + ((outer * shape.size + j) * shape.inner + inner) * shape.parts;
          const double angle = (shape.inverse ? 2 : -2) * std::numbers::pi *
                               static_cast<double>(j * k % length) / static_cast<double>(length);
          const double b = shape.parts == 2 ? at[1] : 0;
          re += at[0] * std::cos(angle) - b * std::sin(angle);
          im += at[0] * std::sin(angle) + b * std::cos(angle);
        }
        const double scale = shape.inverse ? 1 / static_cast<double>(length) : 1;
        expected.push_back(re * scale);
        if (shape.out_parts == 2) expected.push_back(im * scale);
      }
    }
  }
  ForEachTarget([&] {
    std::vector<Floats> results;
    for (const Parallel& par : {OneThread(), TwoThreads()}) {
      Floats y(static_cast<int64_t>(expected.size()));
      Floats scratch(DftScratchBytes(plan, shape, par.threads) / 4);
      Dft(plan, shape, x.get(), y.get(), scratch.get(), par);
      ASSERT_TRUE(y.Intact() && scratch.Intact());
      for (int64_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], tolerance) << length;
      results.push_back(std::move(y));
    }
    ASSERT_TRUE(results[0].SameBits(results[1]));
  });
}

TEST(Dft, Lengths) {
  for (int64_t length : {2, 3, 4, 5, 7, 8, 12, 16, 30, 31, 60, 64, 77, 100, 128, 400, 961}) {
    const double tolerance = 4e-6 * std::sqrt(static_cast<double>(length));
    Check<float>(length, {3, 7, length, 2, length, 2, false}, tolerance);
    Check<float>(length, {5, 1, length, 2, length, 2, true}, tolerance);
    Check<double>(length, {19, 1, length, 1, length / 2 + 1, 2, false}, tolerance);
  }
}

TEST(Dft, CutOrFilledLines) {
  Check<double>(24, {2, 3, 10, 1, 13, 2, false}, 1e-5);
  Check<float>(24, {9, 1, 40, 2, 24, 2, false}, 2e-5);
  EXPECT_TRUE(PlanDft<float>(37 * 2).factors.empty());
}

}  // namespace
}  // namespace sardonyx
