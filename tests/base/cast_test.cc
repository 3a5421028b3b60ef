#include "base/cast.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace sardonyx {
namespace {

template <typename T>
uint32_t Code(T value, DType to, bool saturate = true,
              ScaleRounding rounding = ScaleRounding::kUp) {
  uint8_t byte = 0;
  ConvertElements(kDTypeOf<T>, &value, to, &byte, 1, saturate, rounding);
  return byte;
}

double Value(DType from, uint8_t code) {
  double value = 0;
  ConvertElements(from, &code, DType::kFloat64, &value, 1, true);
  return value;
}

template <typename From, typename To>
To Convert(From from) {
  To to{};
  ConvertElements(kDTypeOf<From>, &from, kDTypeOf<To>, &to, 1, true);
  return to;
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Cast, Numbers) {
  EXPECT_EQ((Convert<float, int32_t>(-2.9f)), -2);
  EXPECT_EQ((Convert<int16_t, int8_t>(200)), -56);
  EXPECT_EQ((Convert<double, int64_t>(1e300)), std::numeric_limits<int64_t>::max());
  EXPECT_EQ((Convert<float, int32_t>(NAN)), 0);
  EXPECT_TRUE((Convert<float, bool>(0.1f)));
  EXPECT_EQ((Convert<uint64_t, float>(UINT64_MAX)), 0x1p64f);
  EXPECT_TRUE(std::isinf(static_cast<float>(Convert<double, Half>(1e9))));
}

TEST(Cast, Float8Values) {
  EXPECT_EQ(Value(DType::kFloat8E4M3FN, 0x7e), 448);
  EXPECT_TRUE(std::isnan(Value(DType::kFloat8E4M3FN, 0x7f)));
  EXPECT_EQ(Value(DType::kFloat8E4M3FN, 0x01), std::ldexp(1.0, -9));
  EXPECT_EQ(Value(DType::kFloat8E4M3FNUZ, 0x7f), 240);
  EXPECT_TRUE(std::isnan(Value(DType::kFloat8E4M3FNUZ, 0x80)));
  EXPECT_EQ(Value(DType::kFloat8E5M2, 0x7b), 57344);
  EXPECT_TRUE(std::isinf(Value(DType::kFloat8E5M2, 0x7c)));
  EXPECT_EQ(Value(DType::kFloat8E5M2FNUZ, 0x7f), 57344);
  EXPECT_EQ(Value(DType::kFloat4E2M1, 0x7), 6);
  EXPECT_EQ(Value(DType::kFloat4E2M1, 0x9), -0.5);
  EXPECT_EQ(Value(DType::kFloat6E2M3, 0x1f), 7.5);
  EXPECT_EQ(Value(DType::kFloat6E3M2, 0x1f), 28);
  EXPECT_EQ(Value(DType::kFloat8E8M0, 128), 2);
}

// Every code comes back from its value, and the middle between two neighbours rounds to the even.
TEST(Cast, SmallFloatsRoundTrip) {
  for (const DType type :
       {DType::kFloat8E4M3FN, DType::kFloat8E4M3FNUZ, DType::kFloat8E5M2, DType::kFloat8E5M2FNUZ,
        DType::kFloat4E2M1, DType::kFloat6E2M3, DType::kFloat6E3M2, DType::kFloat8E8M0}) {
    const int codes = 1 << BitWidth(type);
    for (int code = 0; code < codes; ++code) {
      const double value = Value(type, static_cast<uint8_t>(code));
      if (std::isnan(value)) continue;
      EXPECT_EQ(Code(value, type, false), static_cast<uint32_t>(code))
          << Name(type) << " " << value;
      const int half = codes / 2;
      if (type == DType::kFloat8E8M0 || code % half == half - 1) continue;
      const double next = Value(type, static_cast<uint8_t>(code + 1));
      if (!std::isfinite(next)) continue;
      const uint32_t even = static_cast<uint32_t>(code % 2 == 0 ? code : code + 1);
      EXPECT_EQ(Code((value + next) / 2, type, false), even) << Name(type) << " " << value;
    }
  }
}

TEST(Cast, SaturationAsInTheStandardsTable) {
  EXPECT_EQ(Code(kInfinity, DType::kFloat8E4M3FN), 0x7eu);
  EXPECT_EQ(Code(-kInfinity, DType::kFloat8E4M3FNUZ), 0xffu);
  EXPECT_EQ(Code(1e9f, DType::kFloat8E5M2), 0x7bu);
  EXPECT_EQ(Code(kInfinity, DType::kFloat8E4M3FN, false), 0x7fu);
  EXPECT_EQ(Code(-kInfinity, DType::kFloat8E4M3FN, false), 0xffu);
  EXPECT_EQ(Code(1e9f, DType::kFloat8E4M3FNUZ, false), 0x80u);
  EXPECT_EQ(Code(-1e9f, DType::kFloat8E5M2, false), 0xfcu);
  EXPECT_EQ(Code(kInfinity, DType::kFloat8E5M2FNUZ, false), 0x80u);
  EXPECT_EQ(Code(-0.0f, DType::kFloat8E4M3FNUZ), 0u);
  EXPECT_EQ(Code(-0.0f, DType::kFloat8E4M3FN), 0x80u);
  // Just beyond the largest, but rounding to it.
  EXPECT_EQ(Code(460.0f, DType::kFloat8E4M3FN, false), 0x7eu);
  EXPECT_EQ(Code(465.0f, DType::kFloat8E4M3FN, false), 0x7fu);
}

TEST(Cast, Scales) {
  EXPECT_EQ(Code(3.0f, DType::kFloat8E8M0), 129u);
  EXPECT_EQ(Code(3.0f, DType::kFloat8E8M0, true, ScaleRounding::kDown), 128u);
  EXPECT_EQ(Code(2.9f, DType::kFloat8E8M0, true, ScaleRounding::kNearest), 128u);
  EXPECT_EQ(Code(3.0f, DType::kFloat8E8M0, true, ScaleRounding::kNearest), 129u);
  EXPECT_EQ(Code(kInfinity, DType::kFloat8E8M0), 254u);
  EXPECT_EQ(Code(0.0f, DType::kFloat8E8M0), 0u);
  EXPECT_EQ(Code(0.0f, DType::kFloat8E8M0, false, ScaleRounding::kNearest), 255u);
}

TEST(Cast, PackedIntegers) {
  const std::vector<float> values = {-8, 7, 3, -1, 0, 5.9f, 9};
  uint8_t packed[4] = {};
  ConvertElements(DType::kFloat32, values.data(), DType::kInt4, packed, 7, true);
  std::vector<int32_t> back(7);
  ConvertElements(DType::kInt4, packed, DType::kInt32, back.data(), 7, true);
  EXPECT_EQ(back, (std::vector<int32_t>{-8, 7, 3, -1, 0, 5, -7}));
  for (const int bits : {2, 4, 6}) {
    uint8_t bytes[16] = {};
    for (int i = 0; i < 16; ++i) WritePacked(bytes, bits, i, static_cast<uint32_t>(i * 5));
    for (int i = 0; i < 16; ++i) {
      EXPECT_EQ(ReadPacked(bytes, bits, i), static_cast<uint32_t>(i * 5) & ((1u << bits) - 1));
    }
  }
}

TEST(Cast, Strings) {
  EXPECT_EQ((Convert<std::string, float>("3.14")), 3.14f);
  EXPECT_EQ((Convert<std::string, double>("1e-5")), 1e-5);
  EXPECT_EQ((Convert<std::string, double>("+INF")), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(Convert<std::string, float>("NaN")));
  EXPECT_EQ((Convert<std::string, int32_t>("1000")), 1000);
  EXPECT_EQ((Convert<std::string, int32_t>("100.5")), 100);
  EXPECT_EQ((Convert<float, std::string>(0.1f)), "0.1");
  EXPECT_EQ((Convert<float, std::string>(1.0f)), "1.0");
  EXPECT_EQ((Convert<Half, std::string>(Half(0.1f))), "0.1");
  EXPECT_EQ((Convert<int64_t, std::string>(-12)), "-12");
  EXPECT_THROW((Convert<std::string, float>("Hello")), Error);
}

}  // namespace
}  // namespace sardonyx
