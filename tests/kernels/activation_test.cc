#include "kernels/activation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "each_target.h"
#include "kernels/elementwise.h"

namespace sardonyx {
namespace {

using Kind = Activation::Kind;

double Wanted(const Activation& a, double x) {
  switch (a.kind) {
    case Kind::kNone: return x;
    case Kind::kIdentity: break;
    case Kind::kClamp: x = std::min<double>(std::max<double>(x, a.p[0]), a.p[1]); break;
    case Kind::kSwish: x = x / (1 + std::exp(a.p[0] * x)); break;
    case Kind::kHardSwish:
      x *= std::min<double>(std::max<double>(x * a.p[0] + a.p[1], a.p[2]), a.p[3]);
      break;
    case Kind::kSigmoid: x = 1 / (1 + std::exp(-x)); break;
    case Kind::kTanh: x = std::tanh(x); break;
    case Kind::kGelu: x = 0.5 * x * (1 + std::erf(x * a.p[0])); break;
    case Kind::kGeluTanh:
      x = 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
      break;
    case Kind::kLeakyRelu: x = x < 0 ? a.p[0] * x : x; break;
    case Kind::kSoftplus: x = std::log1p(std::exp(x)); break;
    case Kind::kMish: x *= std::tanh(std::log1p(std::exp(x))); break;
    case Kind::kElu: x = x < 0 ? a.p[0] * std::expm1(x) : x; break;
  }
  return a.affine ? x * a.scale + a.shift : x;
}

TEST(Activation, OfRows) {
  ForEachTarget([] {
    for (int kind = 0; kind <= static_cast<int>(Kind::kElu); ++kind) {
      for (const bool affine : {false, true}) {
        Activation a;
        a.kind = static_cast<Kind>(kind);
        a.affine = affine;
        if (affine) a.scale = 0.75f, a.shift = -0.5f;
        if (a.kind == Kind::kClamp) a.p[0] = -1, a.p[1] = 2.5f;
        if (a.kind == Kind::kSwish) a.p[0] = -1.5f;
        if (a.kind == Kind::kLeakyRelu) a.p[0] = 0.2f;
        if (a.kind == Kind::kElu) a.p[0] = 0.8f;
        if (a.kind == Kind::kGelu) a.p[0] = affine ? 0.625f : 0.70710678f;
        if (a.kind == Kind::kHardSwish) a.p[0] = 1.0f / 6, a.p[1] = 0.5f, a.p[3] = 1;
        for (const int64_t columns : {1, 3, 8, 17, 24, 33}) {
          const int64_t rows = 5;
          for (const int64_t ld : {columns, columns + 3}) {
            std::vector<float> x(static_cast<size_t>(rows * ld));
            for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(0.7f * i) * 0.1f * (i % 100);
            std::vector<float> y = x;
            ApplyActivation(a, y.data(), ld, rows, columns);
            for (int64_t i = 0; i < rows * ld; ++i) {
              const auto at = static_cast<size_t>(i);
              if (i % ld >= columns || a.kind == Kind::kNone) {
                ASSERT_EQ(y[at], x[at]);
              } else {
                const double wanted = Wanted(a, x[at]);
                ASSERT_NEAR(y[at], wanted, 2e-7 + 4e-7 * std::fabs(wanted))
                    << "kind " << kind << " of " << x[at];
              }
            }
          }
        }
      }
    }
  });
}

TEST(Activation, BetweenOperands) {
  ForEachTarget([] {
    for (const bool affine : {false, true}) {
      Activation a;
      a.kind = Kind::kSwish;
      a.p[0] = -1;
      a.affine = affine;
      if (affine) a.scale = 0.75f, a.shift = -0.5f;
      for (const int64_t columns : {1, 3, 8, 17, 40}) {
        const int64_t rows = 3, ld = columns + 2, addend_ld = columns + 5;
        std::vector<float> x, row, matrix;
        for (int64_t i = 0; i < rows * ld; ++i) x.push_back(std::sin(0.7f * i) * 3);
        for (int64_t i = 0; i < columns; ++i) row.push_back(std::cos(0.3f * i));
        for (int64_t i = 0; i < rows * addend_ld; ++i) matrix.push_back(std::cos(0.9f * i));
        // Each of the five operands is none, a row or a matrix.
        for (int which = 0; which < 243; ++which) {
          AroundActivation::Operand operands[5];
          for (int i = 0, left = which; i < 5; ++i, left /= 3) {
            if (left % 3 == 1) operands[i] = {row.data(), 0};
            if (left % 3 == 2) operands[i] = {matrix.data(), addend_ld};
          }
          const AroundActivation around = {.added = {operands[0], operands[1]},
                                           .scale = operands[2],
                                           .then = {operands[3], operands[4]}};
          std::vector<float> y = x;
          ActivateBetween(a, around, y.data(), ld, rows, columns);
          for (int64_t i = 0; i < rows * ld; ++i) {
            const auto at = static_cast<size_t>(i);
            if (i % ld >= columns) {
              ASSERT_EQ(y[at], x[at]);
              continue;
            }
            const auto of = [&](int operand, double none) -> double {
              if (operands[operand].data == nullptr) return none;
              return operands[operand].data[i / ld * operands[operand].ld + i % ld];
            };
            const double inner = Wanted(a, x[at] + of(0, 0) + of(1, 0));
            const double wanted = inner * of(2, 1) + of(3, 0) + of(4, 0);
            ASSERT_NEAR(y[at], wanted, 3e-6) << which << ", " << columns << " columns, " << i;
          }
        }
      }
    }
  });
}

// Errors in units of the last place: none is large, and they do not add up over many values.
TEST(Activation, HardSwishIsAsExactAsItsSteps) {
  const char* const gate =
      "(float; 3:float, 0:float, 6:float) add(0,1):float max(4,2):float "
      "min(5,3):float ";
  const std::string spellings[] = {gate + std::string("mul(0,6):float div(7,3):float"),
                                   gate + std::string("div(6,3):float mul(0,7):float")};
  std::vector<float> x;
  for (int i = -40000; i <= 40000; ++i) x.push_back(static_cast<float>(i) * 1.2345e-4f);
  const int64_t dims[] = {static_cast<int64_t>(x.size())}, strides[] = {1};
  const void* const in[] = {x.data()};
  std::vector<float> y(x.size());
  const auto check = [&](const std::string& text) {
    double mean = 0, largest = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double wanted = x[i] * std::clamp(x[i] + 3.0, 0.0, 6.0) / 6;
      const double unit = std::ldexp(1.0, std::max(std::ilogb(wanted), -1) - 23);
      const double error = (y[i] - wanted) / unit;
      mean += error / static_cast<double>(x.size());
      largest = std::max(largest, std::abs(error));
    }
    EXPECT_LT(largest, 2) << text;
    EXPECT_LT(std::abs(mean), 0.02) << text;
  };
  ForEachTarget([&] {
    for (const std::string& text : spellings) {
      const Expression expression = Expression::Parse(text);
      RunElementwise(PrepareElementwise(expression, dims, strides), in, y.data(), Parallel{});
      check(text);
      SimpleEpilogue simple;
      ASSERT_TRUE(MatchSimpleEpilogue(expression, &simple)) << text;
      y = x;
      ApplyActivation(simple.activation, y.data(), dims[0], 1, dims[0]);
      check(text + " as an epilogue");
    }
  });
}

}  // namespace
}  // namespace sardonyx
