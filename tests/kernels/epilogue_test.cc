#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "each_target.h"
#include "kernels/elementwise.h"

namespace sardonyx {
namespace {

TEST(Epilogue, MatchesSimpleForms) {
  SimpleEpilogue simple;
  EXPECT_TRUE(MatchSimpleEpilogue(Expression::Parse("(float)"), &simple));
  EXPECT_FALSE(simple.clamps);
  EXPECT_TRUE(MatchSimpleEpilogue(
      Expression::Parse("(float, float, float) add(0,2):float add(1,3):float relu(4):float"),
      &simple));
  EXPECT_EQ(simple.addend[0], 1);
  EXPECT_EQ(simple.addend[1], 0);
  EXPECT_TRUE(simple.clamps);
  EXPECT_EQ(simple.lo, 0.0f);
  EXPECT_TRUE(MatchSimpleEpilogue(
      Expression::Parse("(float; 0:float, 6:float) max(0,1):float min(2,3):float"), &simple));
  EXPECT_EQ(simple.hi, 6.0f);
  using Kind = Activation::Kind;
  const auto activation = [&](const std::string& text) {
    EXPECT_TRUE(MatchSimpleEpilogue(Expression::Parse(text), &simple)) << text;
    return simple.activation;
  };
  EXPECT_EQ(activation("(float, float) add(0,1):float sigmoid(2):float mul(2,3):float").kind,
            Kind::kSwish);
  EXPECT_EQ(simple.addend[0], 0);
  EXPECT_EQ(activation("(float, float) add(1,0):float sigmoid(2):float").kind, Kind::kSigmoid);
  EXPECT_EQ(activation("(float; 1.4142135:float, 1:float, 0.5:float) div(0,1):float erf(4):float "
                       "add(5,2):float mul(0,6):float mul(7,3):float")
                .kind,
            Kind::kGelu);
  EXPECT_EQ(simple.activation.p[0], std::sqrt(0.5f));
  // With constants of bfloat16.
  const Activation near = activation(
      "(float, float; 1.4140625:float, 1:float, 0.5:float) add(1,0):float div(5,2):float "
      "erf(6):float add(7,3):float mul(5,8):float mul(9,4):float cast(10):bfloat16 cast(11):float");
  EXPECT_EQ(near.kind, Kind::kGelu);
  EXPECT_FALSE(near.affine);
  EXPECT_EQ(near.p[0], static_cast<float>(1 / 1.4140625));
  EXPECT_EQ(near.rounding, DType::kBFloat16);
  const Activation scale = activation("(float, float; 3:float) add(0,1):float mul(2,3):float");
  EXPECT_EQ(scale.kind, Kind::kIdentity);
  EXPECT_EQ(scale.scale, 3.0f);
  EXPECT_EQ(simple.addend[0], 0);
  // x * clip(x + 3, 0, 6) / 6, then a scale and a shift.
  const Activation hard = activation(
      "(float, float, float; 3:float, 0:float, 6:float, 0.5:float, 7:float) add(0,2):float "
      "add(8,1):float add(9,3):float max(10,4):float min(11,5):float mul(9,12):float "
      "div(13,5):float mul(6,14):float add(15,7):float");
  EXPECT_EQ(hard.kind, Kind::kHardSwish);
  EXPECT_EQ(hard.p[1], 3 * hard.p[0]);
  EXPECT_EQ(hard.p[2], 0.0f);
  EXPECT_EQ(hard.p[3], 6 * hard.p[0]);
  EXPECT_TRUE(hard.affine);
  EXPECT_NEAR(1.0 * hard.scale * hard.p[0], 0.5 / 6, 4e-10);  // nearer than a float32
  EXPECT_EQ(hard.shift, 7.0f);
  EXPECT_EQ(simple.addend[0], 1);
  EXPECT_EQ(simple.addend[1], 0);
  const Activation leaky = activation(
      "(float, float; 0:float, 0.25:float) add(0,1):float lt(4,2):bool mul(4,3):float "
      "where(5,6,4):float");
  EXPECT_EQ(leaky.kind, Kind::kLeakyRelu);
  EXPECT_EQ(leaky.p[0], 0.25f);
  EXPECT_EQ(simple.addend[0], 0);
  const char* const softplus =
      "add(0,1):float relu(2):float abs(2):float neg(4):float exp(5):float log1p(6):float "
      "add(3,7):float";
  EXPECT_EQ(activation("(float, float) " + std::string(softplus)).kind, Kind::kSoftplus);
  EXPECT_EQ(
      activation("(float, float) " + std::string(softplus) + " tanh(8):float mul(2,9):float").kind,
      Kind::kMish);
  const Activation elu = activation(
      "(float, float; 0:float, 1:float, 0.5:float, 2:float) add(0,1):float relu(6):float "
      "min(6,2):float exp(8):float sub(9,3):float mul(4,10):float add(7,11):float mul(5,12):float");
  EXPECT_EQ(elu.kind, Kind::kElu);
  EXPECT_EQ(elu.p[0], 0.5f);
  EXPECT_EQ(elu.scale, 2.0f);
  EXPECT_FALSE(simple.HasBehind());
  // A residual behind an activation.
  EXPECT_EQ(
      activation(
          "(float, float, float) add(0,2):float sigmoid(3):float mul(3,4):float add(1,5):float")
          .kind,
      Kind::kSwish);
  EXPECT_EQ(simple.addend[0], 1);
  EXPECT_EQ(simple.last[0], 0);
  EXPECT_EQ(simple.last[1], -1);
  EXPECT_EQ(simple.scale, -1);
  EXPECT_EQ(activation("(float, float, float) add(0,2):float relu(3):float add(1,4):float").kind,
            Kind::kClamp);
  EXPECT_EQ(simple.addend[0], 1);
  EXPECT_EQ(simple.last[0], 0);
  // A normalisation and a residual behind an activation.
  EXPECT_EQ(activation("(float, float, float, float, float) add(0,4):float relu(5):float "
                       "mul(6,2):float add(7,1):float add(3,8):float")
                .kind,
            Kind::kClamp);
  EXPECT_EQ(simple.addend[0], 3);
  EXPECT_EQ(simple.scale, 1);
  EXPECT_EQ(simple.last[0], 2);
  EXPECT_EQ(simple.last[1], 0);
  EXPECT_EQ(activation("(float, float, float) relu(0):float mul(3,2):float add(4,1):float").kind,
            Kind::kClamp);
  EXPECT_EQ(simple.addend[0], -1);
  EXPECT_EQ(simple.scale, 1);
  EXPECT_EQ(simple.last[0], 0);
  EXPECT_EQ(simple.last[1], -1);
  EXPECT_EQ(activation("(float, float) sigmoid(0):float mul(1,2):float").kind, Kind::kSigmoid);
  EXPECT_EQ(simple.scale, 0);
  EXPECT_EQ(simple.last[0], -1);
  const Activation shifted =
      activation("(float, float; 0.5:float) add(1,0):float relu(3):float add(4,2):float");
  EXPECT_EQ(shifted.kind, Kind::kClamp);
  EXPECT_EQ(shifted.p[0], 0.0f);
  EXPECT_EQ(shifted.shift, 0.5f);
  EXPECT_EQ(simple.addend[0], 0);
  EXPECT_FALSE(simple.HasBehind());
  EXPECT_EQ(activation("(float, float) relu(0):float add(2,1):float").kind, Kind::kClamp);
  EXPECT_EQ(simple.last[0], 0);
  // Scores that are rounded before and after their mask.
  EXPECT_TRUE(MatchSimpleEpilogue(
      Expression::Parse("(float, float) cast(0):bfloat16 cast(2):float add(3,1):float "
                        "cast(4):bfloat16 cast(5):float"),
      &simple));
  EXPECT_EQ(simple.sum_rounding, DType::kBFloat16);
  EXPECT_EQ(simple.rounding, DType::kBFloat16);
  EXPECT_EQ(simple.addend[0], 0);
  for (const char* text :
       {"(float) add(0,0):float", "(float) exp(0):float",
        "(float, float) sigmoid(1):float mul(0,2):float",
        "(float, float) sigmoid(0):float mul(1,2):float cast(3):float16 cast(4):float",
        "(float; 2:float) add(0,1):float sigmoid(2):float", "(float, float) mul(0,1):float",
        "(float, float) add(0,1):float exp(0):float",
        "(float, float, float) sigmoid(0):float add(3,1):float add(4,2):float",
        "(float; 6:float) min(1,0):float add(0,2):float", "(float, float16) add(0,1):float",
        "(float; 1:float, 0:float) max(0,1):float min(3,2):float"}) {
    EXPECT_FALSE(MatchSimpleEpilogue(Expression::Parse(text), &simple)) << text;
  }
}

TEST(Epilogue, AppliesToBlocks) {
  const Expression e = Expression::Parse(
      "(float, float, float, float, int8; 2:float) add(0,1):float mul(6,3):float add(7,2):float "
      "cast(4):float mul(9,5):float sub(8,10):float relu(11):float");
  const int64_t rows = 7, columns = 3000, ldc = 3010;
  ForEachTarget([&] {
    std::vector<float> c(rows * ldc), bias(columns), residual(rows * columns), scale(rows);
    std::vector<int8_t> row_shift(columns * 2);
    std::mt19937 rng(5);
    for (auto* values : {&c, &bias, &residual, &scale}) {
      for (float& value : *values)
        value = static_cast<float>(static_cast<int>(rng() % 65) - 32) / 4;
    }
    for (int8_t& value : row_shift) value = static_cast<int8_t>(rng());
    const std::vector<float> before = c;
    const EpilogueOperand operands[] = {{bias.data(), DType::kFloat32, 0, 1, {0, 0}},
                                        {residual.data(), DType::kFloat32, columns, 1, {0, 0}},
                                        {scale.data(), DType::kFloat32, 1, 0, {0, 0}},
                                        {row_shift.data(), DType::kInt8, 0, 2, {0, 0}}};
    const Epilogue epilogue{&e, operands};
    ASSERT_TRUE(CanPrepareEpilogue(epilogue));
    EpilogueKernel kernel;
    PrepareEpilogue(epilogue, &kernel);
    for (int64_t i = 0; i < rows; i += 3) {
      for (int64_t j = 0; j < columns; j += 1700) {
        ApplyEpilogue(kernel, epilogue, 0, 0, i, j, std::min<int64_t>(3, rows - i),
                      std::min<int64_t>(1700, columns - j), c.data() + i * ldc + j, ldc);
      }
    }
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < ldc; ++j) {
        const float x = before[i * ldc + j];
        float wanted = x;
        if (j < columns) {
          wanted = (x + bias[j]) * scale[i] + residual[i * columns + j] - 2.0f * row_shift[2 * j];
          wanted = std::max(wanted, 0.0f);
        }
        ASSERT_EQ(c[i * ldc + j], wanted) << i << ", " << j;
      }
    }
  });
}

}  // namespace
}  // namespace sardonyx
