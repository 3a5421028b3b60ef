#include "kernels/conv_planes.h"

#include <cmath>
#include <string>
#include <vector>

#include "conv_shape.h"
#include "each_target.h"

namespace sardonyx {
namespace {

// The sum of each output, and of its products' magnitudes.
struct Sums {
  std::vector<double> sum, size;
};

Sums Direct(const ConvShape& s, const float* x, const float* w) {
  Sums sums;
  for (int64_t plane = 0; plane < s.batch * s.cin; ++plane) {
    const float* const from = x + plane * s.in[1] * s.in[2];
    const float* const weights = w + plane % s.cin * s.KernelSize();
    for (int64_t i = 0; i < s.out[1] * s.out[2]; ++i) {
      double sum = 0, size = 0;
      for (int64_t k = 0; k < s.KernelSize(); ++k) {
        const int64_t row = i / s.out[2] * s.stride[1] + k / s.kernel[2] * s.dilation[1];
        const int64_t column = i % s.out[2] * s.stride[2] + k % s.kernel[2] * s.dilation[2];
        const int64_t at[2] = {row - s.pad_begin[1], column - s.pad_begin[2]};
        if (at[0] < 0 || at[0] >= s.in[1] || at[1] < 0 || at[1] >= s.in[2]) continue;
        const double product = static_cast<double>(from[at[0] * s.in[2] + at[1]]) * weights[k];
        sum += product;
        size += std::abs(product);
      }
      sums.sum.push_back(sum);
      sums.size.push_back(size);
    }
  }
  return sums;
}

void Check(int64_t batch, int64_t channels, std::vector<Axis> axes) {
  const ConvShape s = Shape(batch, channels, channels, axes, channels);
  ASSERT_EQ(ConvPlanesRefusal(s), "");
  const int64_t pixels = s.out[1] * s.out[2], count = batch * channels * pixels;
  SCOPED_TRACE(std::to_string(s.in[1]) + "x" + std::to_string(s.in[2]) + " kernel " +
               std::to_string(s.kernel[1]) + "x" + std::to_string(s.kernel[2]));
  const Floats x = Floats::Random(s.InPixels() * channels, 1);
  const Floats w = Floats::Random(channels * s.KernelSize(), 2);
  const Floats bias = Floats::Random(channels, 3), residual = Floats::Random(count, 4);
  const Sums sums = Direct(s, x.get(), w.get());
  const Expression sum_up =
      Expression::Parse("(float, float, float) add(0,1):float add(3,2):float relu(4):float");
  const EpilogueOperand operands[2] = {
      {bias.get(), DType::kFloat32, 1, 0, {0, 0}},
      {residual.get(), DType::kFloat32, pixels, 1, {channels * pixels, 0}}};
  ForEachTarget([&] {
    for (const bool fused : {false, true}) {
      const Epilogue epilogue = fused ? Epilogue{&sum_up, operands} : Epilogue{};
      std::vector<Floats> results;
      for (const Parallel& par : {OneThread(), TwoThreads()}) {
        Floats y(count);
        ConvPlanes(s, x.get(), w.get(), y.get(), epilogue, par);
        ASSERT_TRUE(y.Intact());
        for (int64_t i = 0; i < count; ++i) {
          double expected = sums.sum[i];
          if (fused) expected += bias[i / pixels % channels] + residual[i];
          if (fused) expected = std::max(expected, 0.0);
          ASSERT_NEAR(y[i], expected, 1e-6 + 4e-7 * sums.size[i]) << "element " << i;
        }
        results.push_back(std::move(y));
      }
      ASSERT_TRUE(results[0].SameBits(results[1]));
    }
  });
}

TEST(ConvPlanes, Sizes) {
  for (const int64_t width : {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 56, 64, 65, 100}) {
    Check(2, 3, {{width / 2 + 1, 3, 1, 1, 1, 1}, {width, 3, 1, 1, 1, 1}});
  }
  for (const int64_t height : {1, 2, 3, 5, 9, 40}) {
    Check(1, 5, {{height, 5, 1, 1, 2, 2}, {20, 3, 1, 1, 0, 2}});
  }
  for (const int64_t size : {1, 4, 7, 8, 9, 14, 16, 17, 28, 33, 56, 100}) {
    Check(1, 3, {{size, 3, 1, 1, 1, 1}, {size + 3, 3, 1, 1, 1, 1}});
    Check(1, 3, {{size, 5, 1, 1, 2, 2}, {size + 3, 5, 1, 1, 2, 2}});
  }
  Check(1, 2, {{700, 3, 1, 1, 1, 1}, {9, 3, 1, 1, 1, 1}});   // many blocks of lines
  Check(1, 2, {{5, 3, 1, 1, 1, 1}, {9001, 3, 1, 1, 1, 1}});  // and of columns
  Check(40, 64, {{8, 3, 1, 1, 1, 1}, {8, 3, 1, 1, 1, 1}});   // and of tasks
}

TEST(ConvPlanes, StridesAndDilations) {
  for (const int64_t stride : {1, 2, 3, 4}) {
    for (const int64_t dilation : {1, 2, 3}) {
      Check(1, 3, {{23, 3, stride, dilation, 2, 1}, {41, 4, stride, dilation, 1, 3}});
      Check(2, 2, {{17, 2, 1, 1, 0, 0}, {60, 5, stride, dilation, 4, 4}});
      Check(2, 2, {{30, 3, stride, dilation, 1, 1}, {16, 1, 1, 1, 0, 0}});
    }
  }
  Check(1, 4, {{1, 1, 1, 1, 0, 0}, {3000, 31, 1, 1, 15, 15}});  // one axis
  Check(1, 4, {{1, 1, 1, 1, 0, 0}, {500, 9, 2, 4, 16, 16}});
  // Wider than those of several lines, of more products than one chain has.
  Check(2, 1, {{1, 1, 1, 1, 0, 0}, {3000, 65, 1, 1, 0, 0}});
  Check(1, 2, {{3, 1, 1, 1, 0, 0}, {2500, 1000, 1, 1, 500, 499}});
  Check(1, 1, {{1, 1, 1, 1, 0, 0}, {4000, 512, 8, 2, 0, 7}});
  Check(1, 1, {{1, 1, 1, 1, 0, 0}, {5000, 1024, 16, 1, 100, 0}});
}

// Windows that reach beyond what one block of lines can hold, or are all padding.
TEST(ConvPlanes, Windows) {
  for (const int64_t stride : {1, 2, 3, 4}) {
    Check(1, 2, {{70, 64, stride, 1, 0, 3}, {150, 64, stride, 1, 31, 32}});
    Check(1, 2, {{70, 2, stride, 63, 5, 5}, {90, 22, stride, 3, 31, 32}});
  }
  Check(1, 2, {{4, 3, 1, 1, 6, 6}, {5, 3, 1, 1, 7, 9}});
  Check(1, 2, {{9, 3, 1, 1, -2, -1}, {40, 3, 1, 1, -3, -4}});
}

TEST(ConvPlanes, RefusesWhatItCannotHold) {
  const Axis row{90, 3, 1, 1, 1, 1};
  EXPECT_EQ(ConvPlanesRefusal(Shape(1, 4, 4, {row, {90, 65}}, 4)), "its window is wide");
  EXPECT_EQ(ConvPlanesRefusal(Shape(1, 4, 4, {{90, 2, 1, 64}, row}, 4)), "its window is wide");
  EXPECT_EQ(ConvPlanesRefusal(Shape(1, 4, 4, {row, {90, 3, 5}}, 4)), "its stride is long");
  EXPECT_EQ(ConvPlanesRefusal(Shape(1, 4, 4, {row, row, row}, 4)), "it has three axes");
  EXPECT_NE(ConvPlanesRefusal(Shape(1, 4, 8, {row, row}, 4)), "");
  EXPECT_NE(ConvPlanesRefusal(Shape(1, 4, 4, {row, row}, 2)), "");
}

}  // namespace
}  // namespace sardonyx
