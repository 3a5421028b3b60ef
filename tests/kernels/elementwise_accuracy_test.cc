// How far the functions of tiles are from the true ones.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "each_target.h"
#include "kernels/elementwise.h"

namespace sardonyx {
namespace {

// Largest distance from the double function in units in the last place of the float result.
double WorstUlp(const char* text, const std::vector<float>& x, double (*truth)(double),
                float* worst_at) {
  const int64_t dims[] = {static_cast<int64_t>(x.size())}, strides[] = {1};
  const ElementwiseKernel kernel = PrepareElementwise(Expression::Parse(text), dims, strides);
  const void* const in[] = {x.data()};
  std::vector<float> out(x.size());
  RunElementwise(kernel, in, out.data(), Parallel{});
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double wanted = truth(x[i]);
    const float rounded = static_cast<float>(wanted);
    if (std::isnan(wanted) || std::isinf(rounded) || rounded == 0) {
      const bool same = std::isnan(wanted) ? std::isnan(out[i]) : out[i] == rounded;
      // Just beside the threshold of overflow or underflow either is right.
      const bool edge = !std::isnan(wanted) && std::isfinite(wanted) &&
                        (std::abs(wanted) > 3.4e38 || std::abs(wanted) < 2e-45);
      if (!same && !edge) {
        ADD_FAILURE() << text << " at " << x[i] << ": " << out[i] << ", not " << wanted;
        return 1e9;
      }
      continue;
    }
    const float magnitude = std::abs(rounded);
    const double ulp = static_cast<double>(std::nextafter(magnitude, INFINITY)) - magnitude;
    const double error = std::abs(out[i] - wanted) / ulp;
    if (!(error <= worst)) {
      worst = error;
      *worst_at = x[i];
    }
  }
  return worst;
}

std::vector<float> Sweep(float lo, float hi) {
  std::vector<float> x = {0.0f,   -0.0f,   INFINITY, -INFINITY, std::nanf(""), 1.0f,  -1.0f,
                          1e-40f, -1e-40f, 1e-20f,   -1e-20f,   3e38f,         -3e38f};
  for (int i = 0; i <= 300000; ++i) x.push_back(lo + (hi - lo) * static_cast<float>(i) / 300000);
  for (float v = 1e-37f; v < 1e37f; v *= 1.0043f) {
    if (v < hi) x.push_back(v);
    if (-v > lo) x.push_back(-v);
  }
  return x;
}

double Gelu(double x) { return 0.5 * x * std::erfc(-x * std::sqrt(0.5)); }
double GeluTanh(double x) {
  return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST(ElementwiseAccuracy, Functions) {
  struct Row {
    const char* text;
    double (*truth)(double);
    float lo, hi;
    double ulp;
  };
  const Row rows[] = {
      {"(float) exp(0):float", std::exp, -105, 90, 1.5},
      {"(float) log(0):float", std::log, 0, 20, 1.5},
      {"(float) log1p(0):float", std::log1p, -1, 20, 2},
      {"(float) tanh(0):float", std::tanh, -12, 12, 2},
      {"(float) erf(0):float", std::erf, -5, 5, 2},
      {"(float) sigmoid(0):float", [](double x) { return 1 / (1 + std::exp(-x)); }, -88, 30, 3},
      {"(float) sin(0):float", std::sin, -100, 100, 4},
      {"(float) cos(0):float", std::cos, -100, 100, 4},
      {"(float) tan(0):float", std::tan, -100, 100, 2},
      {"(float) asin(0):float", std::asin, -1, 1, 2.5},
      {"(float) acos(0):float", std::acos, -1, 1, 2},
      {"(float) atan(0):float", std::atan, -50, 50, 2.5},
      {"(float) sinh(0):float", std::sinh, -90, 90, 2},
      {"(float) cosh(0):float", std::cosh, -90, 90, 2},
      {"(float) asinh(0):float", std::asinh, -50, 50, 2},
      {"(float) acosh(0):float", std::acosh, 1, 50, 2},
      {"(float) atanh(0):float", std::atanh, -1, 1, 2},
      {"(float) sqrt(0):float", std::sqrt, 0, 100, 0.51},
      {"(float) reciprocal(0):float", [](double x) { return 1 / x; }, -9, 9, 0.51},
      {"(float; 3:float) pow(0,1):float", [](double x) { return x * x * x; }, -9, 9, 1.5},
      {"(float; -1.7:float) pow(0,1):float", [](double x) { return std::pow(x, -1.7f); }, 0, 90, 1},
      {"(float; 2.5:float) pow(0,1):float", [](double x) { return std::pow(x, 2.5); }, 0, 9, 1},
  };
  ForEachTarget([&] {
    for (const Row& row : rows) {
      float at = 0;
      const double worst = WorstUlp(row.text, Sweep(row.lo, row.hi), row.truth, &at);
      EXPECT_LE(worst, row.ulp) << row.text << " at " << at;
      printf("%-36s %-9s %6.2f ulp at %g\n", row.text, std::string(TargetName()).c_str(), worst,
             at);
    }
  });
}

TEST(ElementwiseAccuracy, DoubleFunctions) {
  using Function = double (*)(double);
  const std::pair<const char*, Function> rows[] = {
      {"(double) sqrt(0):double", std::sqrt},
      {"(double) exp(0):double", std::exp},
      {"(double) log(0):double", std::log},
      {"(double) tanh(0):double", std::tanh},
      {"(double) sin(0):double", std::sin},
      {"(double) cos(0):double", std::cos},
      {"(double; 3:double) pow(0,1):double", [](double x) { return x * x * x; }},
      {"(double; 0.5:double) pow(0,1):double", std::sqrt},
      {"(double; -1:double) pow(0,1):double", [](double x) { return 1 / x; }}};
  std::vector<double> x = {0.0, -0.0, INFINITY, -INFINITY, std::nan(""), 1e-300, 1e300, 5e5};
  for (int i = -5003; i <= 5003; ++i) x.push_back(i * 0.01);
  const int64_t dims[] = {static_cast<int64_t>(x.size())}, strides[] = {1};
  ForEachTarget([&] {
    for (const auto& [text, truth] : rows) {
      const ElementwiseKernel kernel = PrepareElementwise(Expression::Parse(text), dims, strides);
      const void* const in[] = {x.data()};
      std::vector<double> out(x.size());
      RunElementwise(kernel, in, out.data(), Parallel{});
      for (size_t i = 0; i < x.size(); ++i) {
        const double wanted = truth(x[i]);
        if (std::isnan(wanted)) {
          EXPECT_TRUE(std::isnan(out[i])) << text << " at " << x[i];
        } else if (out[i] != wanted) {
          EXPECT_NEAR(out[i], wanted, 1e-15 * (std::abs(wanted) + 0.1)) << text << " at " << x[i];
        }
      }
    }
  });
}

// Each pair, at each place of a vector beside ordinary ones; among doubles, where rounding hides
// nothing, the standard library's.
TEST(ElementwiseAccuracy, PowersOfAllKinds) {
  const std::vector<float> kinds = {
      0.0f,   -0.0f,    1.0f,      -1.0f,         0.5f,   -0.5f,       2.0f,       -2.0f,
      3.0f,   -3.0f,    2.5f,      -2.5f,         1e-40f, -1e-40f,     7e4f,       3e38f,
      -3e38f, INFINITY, -INFINITY, std::nanf(""), 1e10f,  16777217.0f, 8388609.0f, -127.0f};
  std::vector<float> x, y;
  for (const bool alone : {false, true}) {
    for (const float a : kinds) {
      for (const float b : kinds) {
        x.insert(x.end(), {a, 1.5f});
        y.insert(y.end(), {b, 1.25f});
        if (alone) x.insert(x.end(), 29, 0.25f), y.insert(y.end(), 29, -3.0f);
      }
    }
  }
  const int64_t dims[] = {static_cast<int64_t>(x.size())}, strides[] = {1, 1};
  ForEachTarget([&] {
    const auto kernel =
        PrepareElementwise(Expression::Parse("(float, float) pow(0,1):float"), dims, strides);
    const void* const in[] = {x.data(), y.data()};
    std::vector<float> out(x.size());
    RunElementwise(kernel, in, out.data(), Parallel{});
    for (size_t i = 0; i < x.size(); ++i) {
      const auto wanted = static_cast<float>(std::pow(double{x[i]}, double{y[i]}));
      SCOPED_TRACE(testing::Message() << x[i] << " to the power " << y[i]);
      if (std::isnan(wanted)) {
        ASSERT_TRUE(std::isnan(out[i]));
      } else if (out[i] != wanted || std::signbit(out[i]) != std::signbit(wanted)) {
        ASSERT_NEAR(out[i], wanted, 1e-6f * std::abs(wanted) + 2e-45f);
        ASSERT_EQ(std::signbit(out[i]), std::signbit(wanted));
      }
    }
  });
}

TEST(ElementwiseAccuracy, ActivationsInAllSpellings) {
  struct Row {
    const char* text;
    double (*truth)(double);
  };
  const auto silu = [](double x) { return x / (1 + std::exp(-x)); };
  const auto softplus = [](double x) {
    return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
  };
  const auto hard = [](double x) { return x * std::min(std::max(x / 6 + 0.5, 0.0), 1.0); };
  const Row rows[] = {
      {"(float; 1.4142135381698608:float, 1:float, 0.5:float) div(0,1):float erf(4):float "
       "add(5,2):float mul(0,6):float mul(7,3):float",
       Gelu},
      {"(float; 0.7071067811865476:float, 1:float, 0.5:float) mul(1,0):float erf(4):float "
       "add(2,5):float mul(0,3):float mul(7,6):float",
       Gelu},
      {"(float; 0.7071067811865476:float, 1:float, 0.5:float) mul(0,1):float erf(4):float "
       "add(5,2):float mul(6,3):float mul(0,7):float",
       Gelu},
      {"(float; 3:float, 0.044715:float, 0.7978845608028654:float, 1:float, 0.5:float) "
       "pow(0,1):float mul(2,6):float add(0,7):float mul(3,8):float tanh(9):float add(4,10):float "
       "mul(5,0):float mul(12,11):float",
       GeluTanh},
      {"(float; 0.044715:float, 0.7978845608028654:float, 1:float, 0.5:float) mul(0,0):float "
       "mul(5,1):float add(6,3):float mul(0,2):float mul(8,7):float tanh(9):float "
       "add(10,3):float mul(0,4):float mul(12,11):float",
       GeluTanh},
      {"(float; 0.5:float, 0.79788458:float, 0.044715:float, 1:float) mul(0,1):float "
       "mul(0,2):float mul(0,3):float mul(7,0):float add(8,4):float mul(6,9):float "
       "tanh(10):float add(11,4):float mul(5,12):float",
       GeluTanh},
      {"(float) sigmoid(0):float mul(0,1):float", silu},
      {"(float; 1.702:float) mul(0,1):float sigmoid(2):float mul(3,0):float",
       [](double x) { return x / (1 + std::exp(-1.702 * x)); }},
      {"(float; -1:float) mul(0,1):float sigmoid(2):float mul(0,3):float",
       [](double x) { return x / (1 + std::exp(x)); }},
      {"(float; 0.16666666666666666:float, 0.5:float, 0:float, 1:float) mul(0,1):float "
       "add(5,2):float min(6,4):float max(7,3):float mul(0,8):float",
       hard},
      {"(float; 3:float, 0:float, 6:float) add(0,1):float max(4,2):float min(5,3):float "
       "mul(0,6):float div(7,3):float",
       hard},
      {"(float; 1:float) abs(0):float add(2,1):float div(0,3):float",
       [](double x) { return x / (1 + std::abs(x)); }},
      {"(float) relu(0):float abs(0):float neg(2):float exp(3):float log1p(4):float "
       "add(1,5):float",
       softplus},
      {"(float) abs(0):float neg(1):float exp(2):float log1p(3):float relu(0):float "
       "add(4,5):float tanh(6):float mul(7,0):float",
       [](double x) { return x * std::tanh(std::log1p(std::exp(std::min(x, 50.0)))); }},
      {"(float; 0:float, 1:float) relu(0):float min(0,1):float exp(4):float sub(5,2):float "
       "add(3,6):float",
       [](double x) { return x < 0 ? std::expm1(x) : x; }},
      {"(float; 0:float, 1:float, 1.6733:float, 1.0507:float) min(0,1):float exp(5):float "
       "sub(6,2):float mul(3,7):float relu(0):float add(8,9):float mul(4,10):float",
       [](double x) { return 1.0507 * (x < 0 ? 1.6733 * std::expm1(x) : x); }},
      {"(float; 6:float) min(0,1):float relu(2):float",
       [](double x) { return std::min(std::max(x, 0.0), 6.0); }},
  };
  ForEachTarget([&] {
    for (const Row& row : rows) {
      const Expression expression = Expression::Parse(row.text);
      std::vector<float> x;
      for (int i = -40000; i <= 40000; ++i) x.push_back(static_cast<float>(i) / 4000);
      for (int i = -4000; i <= 4000; ++i) x.push_back(static_cast<float>(i) / 100);
      for (const float large : {1e8f, -1e8f}) x.push_back(large);
      x.push_back(std::nanf(""));
      const int64_t dims[] = {static_cast<int64_t>(x.size())}, strides[] = {1};
      const ElementwiseKernel kernel = PrepareElementwise(expression, dims, strides);
      const void* const in[] = {x.data()};
      std::vector<float> out(x.size());
      RunElementwise(kernel, in, out.data(), Parallel{});
      EXPECT_TRUE(std::isnan(out.back())) << row.text;
      for (size_t i = 0; i + 1 < x.size(); ++i) {
        const double wanted = row.truth(x[i]);
        ASSERT_NEAR(out[i], wanted, 4e-7 * std::max(std::abs(wanted), 0.5))
            << row.text << " at " << x[i];
      }
      // A single element, where every operand is uniform.
      const ElementwiseKernel of_one = PrepareElementwise(expression, {}, {});
      for (const float at : {-3.0f, 0.25f, 1.5f}) {
        const void* const one[] = {&at};
        float y = NAN;
        RunElementwise(of_one, one, &y, Parallel{});
        EXPECT_NEAR(y, row.truth(at), 4e-7) << row.text << " of one element, " << at;
      }
    }
  });
}

// x[i] fn y[i] of any type; of the only x or y, if it is one.
template <typename T>
std::vector<T> Binary(const std::string& text, const std::vector<T>& x, const std::vector<T>& y) {
  const size_t size = std::max(x.size(), y.size());
  const std::vector<int64_t> dims = {static_cast<int64_t>(size)};
  const int64_t strides[] = {x.size() == 1 ? 0 : 1, y.size() == 1 ? 0 : 1};
  std::vector<T> out(size);
  const void* in[] = {x.data(), y.data()};
  RunElementwise(PrepareElementwise(Expression::Parse(text), dims, strides), in, out.data(),
                 Parallel{});
  return out;
}

// Remainders are exact: of quotients of all sizes, small ones by multiples that are hard to tell.
template <typename T>
void ExpectRemainders(const std::string& type, const std::vector<T>& x, const std::vector<T>& y) {
  const auto run = [&](const char* fn) {
    return Binary<T>(fmt::format("({0}, {0}) {1}(0,1):{0}", type, fn), x, y);
  };
  const std::vector<T> rest = run("fmod"), modulo = run("mod");
  for (size_t i = 0; i < rest.size(); ++i) {
    const T of = x[x.size() == 1 ? 0 : i], by = y[y.size() == 1 ? 0 : i];
    const T expected = std::fmod(of, by);
    SCOPED_TRACE(fmt::format("{} and {}", of, by));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(rest[i]) && std::isnan(modulo[i]));
      continue;
    }
    ASSERT_TRUE(rest[i] == expected && std::signbit(rest[i]) == std::signbit(expected));
    const bool moves = expected != 0 && (expected < 0) != (by < 0);
    const T moved = moves ? expected + by : expected;
    ASSERT_TRUE(modulo[i] == moved && (moved != 0 || std::signbit(modulo[i]) == std::signbit(by)));
  }
}

// `least`, `most`: a subnormal number and a large one; `exponents` of those in between.
template <typename T>
void CheckRemainders(const std::string& type, T least, T most, int exponents) {
  std::mt19937_64 rng(3);
  std::vector<T> x, y;
  const T special[] = {0, -T{0}, 1, -3, least, most, INFINITY, -INFINITY, NAN};
  for (const T a : special) {
    for (const T b : special) x.push_back(a), y.push_back(b);
  }
  for (int i = 0; i < 200000; ++i) {
    const int range = 1 + i % exponents;
    const auto number = [&] {
      const T mantissa = 1 + static_cast<T>(rng() >> 11) * static_cast<T>(0x1p-53);
      const T value = std::ldexp(mantissa, static_cast<int>(rng() % range) - range / 2);
      return rng() % 2 == 0 ? value : -value;
    };
    y.push_back(number());
    x.push_back(i % 2 == 0 ? number() : y.back() * static_cast<T>(rng() % 5000));
    if (i % 4 == 1) x.back() = std::nextafter(x.back(), i % 8 == 1 ? T{0} : T{INFINITY});
  }
  ForEachTarget([&] {
    ExpectRemainders(type, x, y);
    for (const T single : special) {
      ExpectRemainders<T>(type, x, {single});
      ExpectRemainders<T>(type, {single}, y);
    }
  });
}

TEST(ElementwiseAccuracy, RemaindersOfFloats) {
  CheckRemainders<float>("float", 1e-40f, 3e38f, 30);
  CheckRemainders<double>("double", 1e-310, 1e308, 60);
}

template <typename T>
void CheckIntegerRemainders(const std::string& type) {
  std::mt19937_64 rng(5);
  constexpr T kLeast = std::numeric_limits<T>::min(), kMost = std::numeric_limits<T>::max();
  std::vector<T> x, y;
  const T special[] = {0, 1, 2, 7, kLeast, kMost, kMost - 1, static_cast<T>(-1)};
  for (const T a : special) {
    for (const T b : special) x.push_back(a), y.push_back(b);
  }
  for (int i = 0; i < 100000; ++i) {
    const auto number = [&] {
      return static_cast<T>(static_cast<T>(rng()) >> rng() % (8 * sizeof(T)));
    };
    y.push_back(number());
    const auto multiple = static_cast<uint64_t>(y.back()) * static_cast<uint64_t>(number());
    x.push_back(i % 2 == 0 ? number() : static_cast<T>(multiple - rng() % 2));
  }
  ForEachTarget([&] {
    const auto run = [&](const char* fn) {
      return Binary<T>(fmt::format("({0}, {0}) {1}(0,1):{0}", type, fn), x, y);
    };
    const std::vector<T> rest = run("fmod"), modulo = run("mod");
    for (size_t i = 0; i < x.size(); ++i) {
      SCOPED_TRACE(fmt::format("{} and {}", x[i], y[i]));
      const bool is_zero = y[i] == 0 || (std::is_signed_v<T> && y[i] == static_cast<T>(-1));
      const T expected = is_zero ? T{0} : static_cast<T>(x[i] % y[i]);
      ASSERT_EQ(rest[i], expected);
      const bool moves = expected != 0 && (expected < 0) != (y[i] < 0);
      ASSERT_EQ(modulo[i], moves ? static_cast<T>(expected + y[i]) : expected);
    }
  });
}

TEST(ElementwiseAccuracy, RemaindersOfIntegers) {
  CheckIntegerRemainders<int8_t>("int8");
  CheckIntegerRemainders<uint8_t>("uint8");
  CheckIntegerRemainders<int16_t>("int16");
  CheckIntegerRemainders<uint16_t>("uint16");
  CheckIntegerRemainders<int32_t>("int32");
  CheckIntegerRemainders<uint32_t>("uint32");
  CheckIntegerRemainders<int64_t>("int64");
  CheckIntegerRemainders<uint64_t>("uint64");
}

}  // namespace
}  // namespace sardonyx
