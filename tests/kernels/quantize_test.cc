// Chains that quantise and dequantise, as tiles do them, on every SIMD target.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "each_target.h"
#include "kernels/elementwise.h"

namespace sardonyx {
namespace {

template <typename T>
std::string TypeName() {
  return (std::is_signed_v<T> ? "int" : "uint") + std::to_string(8 * sizeof(T));
}

template <typename T>
T Quantized(float x, float scale, int zero) {
  const float value = std::nearbyint(x / scale) + static_cast<float>(zero);
  if (std::isnan(value)) return 0;
  return static_cast<T>(
      std::clamp<float>(value, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
}

// Steps of the scale by columns, rows or not at all; the same for zero points.
template <typename T>
void CheckQuantize(const std::vector<float>& x, int64_t columns, const std::vector<float>& scales,
                   bool by_row) {
  const int64_t rows = static_cast<int64_t>(x.size()) / columns;
  const std::vector<T> zeros = {T{3}, T(-100), T{100}, T{0}, T(77)};
  const int64_t steps = static_cast<int64_t>(scales.size());
  std::vector<T> zero;
  for (int64_t i = 0; i < steps; ++i) zero.push_back(zeros[static_cast<size_t>(i) % zeros.size()]);
  const std::string range = fmt::format("{}:float, {}:float", std::numeric_limits<T>::min(),
                                        std::numeric_limits<T>::max());
  const Expression expression = Expression::Parse(
      "(float, float, " + TypeName<T>() + "; " + range +
      ") div(0,1):float round(5):float cast(2):float add(6,7):float max(8,3):float "
      "min(9,4):float cast(10):" +
      TypeName<T>());
  const int64_t step = steps == 1 ? 0 : 1;
  const std::vector<int64_t> strides = {
      columns, 1, by_row ? step : 0, by_row ? 0 : step, by_row ? step : 0, by_row ? 0 : step};
  ForEachTarget([&] {
    const auto kernel =
        PrepareElementwise(expression, std::array<int64_t, 2>{rows, columns}, strides);
    ASSERT_TRUE(kernel);
    std::vector<T> y(x.size(), T{99});
    const void* in[] = {x.data(), scales.data(), zero.data()};
    RunElementwise(kernel, in, y.data(), OneThread());
    for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i) {
      const auto at = static_cast<size_t>(i);
      const auto j = static_cast<size_t>(steps == 1 ? 0 : by_row ? i / columns : i % columns);
      ASSERT_EQ(static_cast<int>(y[at]), static_cast<int>(Quantized<T>(x[at], scales[j], zero[j])))
          << x[at] << " / " << scales[j] << " + " << static_cast<int>(zero[j]);
    }
  });
}

// Values next to ties above all, where a quotient that is not rounded as division shows.
std::vector<float> HardValues(float scale, int first, int last, std::mt19937& generator) {
  std::vector<float> x = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1e38f, -1e38f, 1e-44f, -3e-39f};
  for (int k = first; k < last; ++k) {
    float value = (static_cast<float>(k) + 0.5f) * scale;
    for (int i = 0; i < 2; ++i) value = std::nextafter(value, -INFINITY);
    for (int i = 0; i < 5; ++i) {
      x.push_back(value);
      value = std::nextafter(value, INFINITY);
    }
    x.push_back(static_cast<float>(generator() % 65536) * scale / 256);
  }
  return x;
}

TEST(Quantize, IsExactAtTies) {
  std::mt19937 generator(5);
  std::vector<float> scales = {0.05f, 0.1f, 1.0f / 3, 0.03125f, 7.7f, 1e-20f, 1e20f, -0.3f};
  for (int i = 0; i < 40; ++i) {
    scales.push_back(
        std::ldexp(static_cast<float>(generator()), static_cast<int>(generator() % 30) - 45));
  }
  for (const float scale : scales) {
    std::vector<float> x = HardValues(scale, -150, 270, generator);
    CheckQuantize<uint8_t>(x, static_cast<int64_t>(x.size()), {scale}, false);
    CheckQuantize<int8_t>(x, static_cast<int64_t>(x.size()), {scale}, false);
    for (const int near : {-33000, 32500, 65300}) {
      const std::vector<float> more = HardValues(scale, near, near + 350, generator);
      x.insert(x.end(), more.begin(), more.end());
    }
    CheckQuantize<uint16_t>(x, static_cast<int64_t>(x.size()), {scale}, false);
    CheckQuantize<int16_t>(x, static_cast<int64_t>(x.size()), {scale}, false);
  }
}

// Numbers whose 16th bit is set and those above their 8th not, in vectors of every kind and in
// rests.
TEST(Quantize, BoundsWhatIsFarTooLarge) {
  for (const int64_t count : {3, 21, 70}) {
    for (const int first : {32768, 33000, -33000, 65536, 98304}) {
      std::vector<float> x;
      for (int64_t i = 0; i < count; ++i) x.push_back(static_cast<float>(first + 3 * i));
      CheckQuantize<uint8_t>(x, count, {1.0f}, false);
      CheckQuantize<int8_t>(x, count, {1.0f}, false);
      CheckQuantize<uint16_t>(x, count, {1.0f}, false);
    }
  }
}

TEST(Quantize, ByRowsAndColumns) {
  std::mt19937 generator(6);
  for (const int64_t columns : {1, 7, 150}) {
    for (const int64_t rows : {1, 9, 33}) {
      std::vector<float> x, by_row, by_column;
      for (int64_t i = 0; i < rows * columns; ++i) {
        x.push_back(static_cast<float>(generator() % 2001) - 1000);
      }
      for (int64_t i = 0; i < rows; ++i) by_row.push_back(static_cast<float>(i + 3) * 0.5f);
      for (int64_t i = 0; i < columns; ++i) by_column.push_back(static_cast<float>(i + 3) * 0.1f);
      CheckQuantize<uint8_t>(x, columns, by_row, true);
      CheckQuantize<int8_t>(x, columns, by_column, false);
      CheckQuantize<uint16_t>(x, columns, by_column, false);
      CheckQuantize<int16_t>(x, columns, by_row, true);
    }
  }
}

template <typename T>
void CheckDequantize(const std::string& widened) {
  std::mt19937 generator(8);
  const float scale = 0.043f;
  for (const int64_t count : {1, 15, 64, 1000}) {
    std::vector<T> codes(static_cast<size_t>(count));
    for (T& code : codes) code = static_cast<T>(generator());
    const void* in[] = {codes.data(), &scale};
    const Expression expression =
        Expression::Parse("(" + TypeName<T>() + ", float; 300:int32) " + widened);
    ForEachTarget([&] {
      const auto kernel = PrepareElementwise(expression, std::array<int64_t, 1>{count},
                                             std::array<int64_t, 2>{1, 0});
      ASSERT_TRUE(kernel);
      std::vector<float> y(codes.size());
      RunElementwise(kernel, in, y.data(), OneThread());
      for (size_t i = 0; i < y.size(); ++i) {
        const auto centred = static_cast<uint32_t>(codes[i]) - 300u;
        ASSERT_EQ(y[i], static_cast<float>(static_cast<int32_t>(centred)) * scale) << i;
      }
    });
  }
}

TEST(Quantize, WideCodesToFloats) {
  CheckDequantize<uint16_t>("cast(0):int32 sub(3,2):int32 cast(4):float mul(5,1):float");
  CheckDequantize<int16_t>("cast(0):int32 sub(3,2):int32 cast(4):float mul(5,1):float");
  CheckDequantize<int32_t>("sub(0,2):int32 cast(3):float mul(4,1):float");
}

// (x - 7) * scale + t, rounded once or twice; t is one value for all, or one for each.
template <typename T>
void CheckDequantizedSum(int64_t count, bool single) {
  const Expression expression =
      Expression::Parse("(" + TypeName<T>() +
                        ", float, float; 7:int32) "
                        "cast(0):int32 sub(4,3):int32 cast(5):float mul(6,1):float add(7,2):float");
  std::mt19937 generator(8);
  const float scale = 0.043f;
  std::vector<T> codes(static_cast<size_t>(count));
  for (T& code : codes) code = static_cast<T>(generator());
  std::vector<float> t(single ? 1 : codes.size());
  for (float& each : t) each = static_cast<float>(generator() % 1000) / 64.0f;
  const void* in[] = {codes.data(), &scale, t.data()};
  ForEachTarget([&] {
    const auto kernel = PrepareElementwise(expression, std::array<int64_t, 1>{count},
                                           std::array<int64_t, 3>{1, 0, single ? 0 : 1});
    ASSERT_TRUE(kernel);
    std::vector<float> y(codes.size());
    RunElementwise(kernel, in, y.data(), OneThread());
    for (size_t i = 0; i < y.size(); ++i) {
      const double product = (static_cast<double>(codes[i]) - 7) * static_cast<double>(scale);
      const double sum = product + static_cast<double>(t[single ? 0 : i]);
      ASSERT_NEAR(y[i], sum, 1e-6 * (std::abs(product) + std::abs(sum))) << i << " of " << count;
    }
  });
}

TEST(Quantize, DequantizesAndAdds) {
  for (const bool single : {true, false}) {
    for (const int64_t count : {1, 15, 64, 1000, 3136}) {
      CheckDequantizedSum<uint8_t>(count, single);
      CheckDequantizedSum<int8_t>(count, single);
      CheckDequantizedSum<int16_t>(count, single);
    }
  }
}

// (a - za) * sa + (b - zb) * sb, quantised to [10, 200].
TEST(Quantize, SumsOfBytes) {
  const Expression expression = Expression::Parse(
      "(uint8, uint8, float, float, uint8; 10:float, 200:float, 0.07:float, 7:int32) "
      "cast(0):int32 cast(4):int32 sub(9,10):int32 cast(11):float mul(12,2):float "
      "cast(1):int32 sub(14,8):int32 cast(15):float mul(3,16):float add(13,17):float "
      "div(18,7):float round(19):float max(20,5):float min(21,6):float cast(22):uint8");
  for (const int64_t count : {1, 15, 64, 1000, 70001}) {
    std::mt19937 generator(7);
    std::vector<uint8_t> a(static_cast<size_t>(count)), b(a.size());
    for (uint8_t& byte : a) byte = static_cast<uint8_t>(generator());
    for (uint8_t& byte : b) byte = static_cast<uint8_t>(generator());
    const float scale_a = 0.043f, scale_b = 0.031f;
    const uint8_t zero = 99;
    const void* in[] = {a.data(), b.data(), &scale_a, &scale_b, &zero};
    ForEachTarget([&] {
      const auto kernel = PrepareElementwise(expression, std::array<int64_t, 1>{count},
                                             std::array<int64_t, 5>{1, 1, 0, 0, 0});
      ASSERT_TRUE(kernel);
      std::vector<uint8_t> y(a.size()), again(a.size());
      RunElementwise(kernel, in, y.data(), OneThread());
      RunElementwise(kernel, in, again.data(), TwoThreads());
      EXPECT_EQ(y, again);
      for (size_t i = 0; i < y.size(); ++i) {
        const double sum =
            (a[i] - 99) * static_cast<double>(scale_a) + (b[i] - 7) * static_cast<double>(scale_b);
        ASSERT_NEAR(y[i], std::clamp(sum / 0.07, 10.0, 200.0), 0.5001) << i;
      }
    });
  }
}

// round((a - za) * fa + (b - zb) * fb) + zero and round((a - za) * (b - zb) * f) + zero, all
// constant: one operation. `single`: b is one byte for all.
template <typename T>
void CheckOfBytes(bool product, double factor_a, double factor_b, int64_t count, bool single) {
  const int za = std::is_signed_v<T> ? -3 : 128, zb = 7, zero = std::is_signed_v<T> ? -11 : 99;
  const auto text = [](double value) { return fmt::format("{:.9g}", value); };
  const std::string type = TypeName<T>();
  const Expression expression = Expression::Parse(
      "(" + type + ", " + type + "; " + text(factor_a) + ":float, " + text(factor_b) + ":float, " +
      std::to_string(za) + ":int32, " + std::to_string(zb) + ":int32, " + std::to_string(zero) +
      ":float, " + (std::is_signed_v<T> ? "-128:float, 127:float) " : "0:float, 255:float) ") +
      "cast(0):int32 sub(9,4):int32 cast(10):float cast(1):int32 sub(12,5):int32 cast(13):float " +
      (product ? "mul(11,14):float mul(15,2):float round(16):float add(17,6):float "
                 "max(18,7):float min(19,8):float cast(20):"
               : "mul(11,2):float mul(14,3):float add(15,16):float round(17):float "
                 "add(18,6):float max(19,7):float min(20,8):float cast(21):") +
      type);
  std::mt19937 generator(7);
  std::vector<T> a(static_cast<size_t>(count)), b(single ? 1 : a.size());
  for (T& byte : a) byte = static_cast<T>(generator());
  for (T& byte : b) byte = static_cast<T>(generator());
  const void* in[] = {a.data(), b.data()};
  ForEachTarget([&] {
    const auto kernel = PrepareElementwise(expression, std::array<int64_t, 1>{count},
                                           std::array<int64_t, 2>{1, single ? 0 : 1});
    ASSERT_TRUE(kernel);
    std::vector<T> y(a.size()), again(a.size());
    RunElementwise(kernel, in, y.data(), OneThread());
    RunElementwise(kernel, in, again.data(), TwoThreads());
    EXPECT_EQ(y, again);
    for (size_t i = 0; i < y.size(); ++i) {
      const double x = a[i] - za, other = b[single ? 0 : i] - zb;
      const double fa = static_cast<float>(factor_a), fb = static_cast<float>(factor_b);
      const double real = (product ? x * other * fa : x * fa + other * fb) + zero;
      const double least = std::numeric_limits<T>::min();
      ASSERT_NEAR(y[i], std::clamp(real, least, least + 255), 0.5001) << i << " of " << count;
    }
  });
}

TEST(Quantize, OfTwoBytes) {
  for (const int64_t count : {1, 3, 15, 17, 64, 131, 5000, 70001}) {
    for (const bool single : {false, true}) {
      for (const double factor : {0.5, 0.031, -0.25, 300.0, 1e30}) {
        CheckOfBytes<uint8_t>(false, 0.5, factor, count, single);
        CheckOfBytes<int8_t>(false, factor, 0.7, count, single);
        CheckOfBytes<uint8_t>(true, factor / 100, 1, count, single);
        CheckOfBytes<int8_t>(true, factor / 100, 1, count, single);
      }
    }
  }
}

}  // namespace
}  // namespace sardonyx
