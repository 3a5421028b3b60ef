// Casts of tiles to and from floats of 8 and 16 bits, bit for bit those of ConvertElements.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "base/cast.h"
#include "each_target.h"
#include "kernels/elementwise.h"
#include "kernels/packed_cast.h"

namespace sardonyx {
namespace {

constexpr DType kHalves[] = {DType::kFloat16, DType::kBFloat16};
constexpr DType kByteFloats[] = {DType::kFloat8E4M3FN, DType::kFloat8E4M3FNUZ, DType::kFloat8E5M2,
                                 DType::kFloat8E5M2FNUZ};

// Of a value, whatever its width.
template <typename T>
std::vector<std::byte> Bytes(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// A cast by tiles, and one by ConvertElements.
void CheckCast(DType from, const std::vector<std::byte>& in, DType to) {
  const std::string text = fmt::format("({}) cast(0):{}", Name(from), Name(to));
  SCOPED_TRACE(text);
  const int64_t count = static_cast<int64_t>(in.size()) * 8 / BitWidth(from);
  const int64_t dims[] = {count}, strides[] = {1};
  std::string why;
  const ElementwiseKernel kernel = PrepareElementwise(Expression::Parse(text), dims, strides, &why);
  ASSERT_TRUE(kernel) << why;
  std::vector<std::byte> wanted(static_cast<size_t>(ByteSize(to, count))), out(wanted.size());
  ConvertElements(from, in.data(), to, wanted.data(), count, /*saturate=*/true);
  const void* const data[] = {in.data()};
  RunElementwise(kernel, data, out.data(), Parallel{});
  const size_t width = static_cast<size_t>(BitWidth(to)) / 8;
  for (size_t i = 0; i < out.size(); ++i) {
    ASSERT_EQ(static_cast<int>(out[i]), static_cast<int>(wanted[i])) << "element " << i / width;
  }
}

void CheckPacked(DType from, const std::vector<std::byte>& in, DType to, int64_t count) {
  SCOPED_TRACE(fmt::format("{} of {} to {}", count, Name(from), Name(to)));
  const std::optional<PackedCast> cast = PreparePackedCast(from, to);
  ASSERT_TRUE(cast);
  const size_t bytes = static_cast<size_t>(ByteSize(to, count));
  std::vector<std::byte> wanted(bytes), out(bytes + 1, std::byte{0x5a});
  ConvertElements(from, in.data(), to, wanted.data(), count, /*saturate=*/true);
  RunPackedCast(*cast, in.data(), out.data(), count, Parallel{});
  for (size_t i = 0; i < bytes; ++i) {
    ASSERT_EQ(static_cast<int>(out[i]), static_cast<int>(wanted[i])) << "byte " << i;
  }
  ASSERT_EQ(out.back(), std::byte{0x5a});
}

// Numbers halfway between neighbours of a format, and next to these.
std::vector<double> Ties(const std::vector<double>& codes) {
  std::vector<double> values = {0.0, -0.0, INFINITY, -INFINITY, 1e300, -1e300, 1e-300, 5e-324};
  for (const double a : codes) {
    for (const double b : {a, std::nextafter(a, INFINITY), std::nextafter(a, -INFINITY),
                           a + a * 0x1p-40, a - a * 0x1p-40}) {
      values.push_back(b);
      values.push_back(-b);
    }
  }
  return values;
}

// The middles of codes of a format that follow each other.
template <typename Bits>
std::vector<double> Middles(DType type, int step) {
  std::vector<double> middles;
  for (int code = 0; code < std::numeric_limits<Bits>::max() / 2; code += step) {
    const Bits pair[] = {static_cast<Bits>(code), static_cast<Bits>(code + 1)};
    double values[2];
    ConvertElements(type, pair, DType::kFloat64, values, 2, true);
    if (std::isfinite(values[1])) middles.push_back((values[0] + values[1]) / 2);
  }
  return middles;
}

TEST(NarrowCast, DoublesAreRoundedOnce) {
  for (const DType to : kHalves) {
    const std::vector<std::byte> in = Bytes(Ties(Middles<uint16_t>(to, 37)));
    ForEachTarget([&] { CheckCast(DType::kFloat64, in, to); });
  }
  for (const DType to : kByteFloats) {
    const std::vector<std::byte> in = Bytes(Ties(Middles<uint8_t>(to, 1)));
    ForEachTarget([&] { CheckCast(DType::kFloat64, in, to); });
  }
}

TEST(NarrowCast, FloatsToBytes) {
  std::vector<float> every;  // sign, exponent and first bits of the mantissa; what follows: some
  for (uint32_t high = 0; high < 1u << 14; ++high) {
    for (const uint32_t low : {0u, 1u, 0x1ffffu, 0x20000u, 0x20001u, 0x3ffffu}) {
      every.push_back(std::bit_cast<float>(high << 18 | low));
    }
  }
  for (const DType to : kByteFloats) {
    std::vector<float> in = every;
    for (const double tie : Ties(Middles<uint8_t>(to, 1))) {
      in.push_back(static_cast<float>(tie));
      in.push_back(std::nextafter(in.back(), 0.0f));
    }
    ForEachTarget([&] { CheckCast(DType::kFloat32, Bytes(in), to); });
  }
  std::vector<float> powers = every;
  for (uint32_t i = 0; i < 256; ++i) {
    for (const uint32_t bits : {i << 23, (i << 23) + 1, (i << 23) - 1, 0x00400000 + i - 128}) {
      powers.push_back(std::bit_cast<float>(bits));
    }
  }
  const std::vector<double> doubles(powers.begin(), powers.end());
  ForEachTarget([&] {
    CheckCast(DType::kFloat32, Bytes(powers), DType::kFloat8E8M0);
    CheckCast(DType::kFloat64, Bytes(doubles), DType::kFloat8E8M0);
    CheckCast(DType::kFloat64, Bytes(Ties({1.0, 0x1p-127, 0x1p-20})), DType::kFloat8E8M0);
  });
}

TEST(NarrowCast, BytesToNumbersAndBack) {
  std::vector<uint8_t> codes(256);
  std::iota(codes.begin(), codes.end(), uint8_t{0});
  ForEachTarget([&] {
    for (const DType from : kByteFloats) {
      for (const DType to : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16,
                             DType::kInt8, DType::kUInt8, DType::kInt32, DType::kInt64,
                             DType::kBool, DType::kFloat8E4M3FN, DType::kFloat8E5M2FNUZ}) {
        if (from != to) CheckCast(from, Bytes(codes), to);
      }
    }
    CheckCast(DType::kFloat8E8M0, Bytes(codes), DType::kFloat32);
  });
}

TEST(NarrowCast, IntegersToBytes) {
  std::vector<int64_t> in = {0, 1, -1, 17, 100, 447, 448, 464, 465, -57344, 61440, 1ll << 40};
  for (int64_t i = 0; i < 40; ++i) in.push_back((int64_t{1} << i) + i);
  const std::vector<int32_t> narrow(in.begin(), in.end());
  ForEachTarget([&] {
    for (const DType to : kByteFloats) {
      CheckCast(DType::kInt64, Bytes(in), to);
      CheckCast(DType::kInt32, Bytes(narrow), to);
    }
  });
}

constexpr DType kIntegers[] = {DType::kInt8,  DType::kUInt8,  DType::kInt16, DType::kUInt16,
                               DType::kInt32, DType::kUInt32, DType::kInt64, DType::kUInt64};

// Numbers around the ends of all types, infinities and NaN, in an order in which vectors have some
// of each.
TEST(NarrowCast, FloatsToIntegers) {
  std::vector<double> in = {NAN, -NAN, INFINITY, -INFINITY, 0.0, -0.0, 0.9, -0.9};
  for (int power = 0; power < 70; ++power) {
    const double end = std::ldexp(1.0, power);
    for (const double x : {end, end - 1, end + 1, end * 1.25, std::nextafter(end, 0.0),
                           static_cast<double>(std::nextafterf(static_cast<float>(end), 0.0f))}) {
      in.push_back(x);
      in.push_back(-x);
    }
  }
  std::shuffle(in.begin(), in.end(), std::mt19937(3));
  // And whole vectors of numbers that are large for 16 bits.
  for (const double first : {32768.0, 33000.0, 65536.0, -33000.0, 98304.0, 1e9, -1e9}) {
    for (int i = 0; i < 21; ++i) in.push_back(first + 3 * i);
  }
  ASSERT_NE(in.size() % 32, 0u);
  const std::vector<float> narrow(in.begin(), in.end());
  ForEachTarget([&] {
    for (const DType to : kIntegers) {
      CheckCast(DType::kFloat64, Bytes(in), to);
      CheckCast(DType::kFloat32, Bytes(narrow), to);
    }
  });
}

template <typename T>
void CheckWidening(DType from) {
  std::vector<T> in;
  for (int i = -40000; i <= 70000; i += 7) in.push_back(static_cast<T>(i));
  for (const DType to : kIntegers) CheckCast(from, Bytes(in), to);
  for (const DType to : {DType::kFloat32, DType::kFloat64}) CheckCast(from, Bytes(in), to);
}

TEST(NarrowCast, IntegersToWiderOnes) {
  ForEachTarget([] {
    CheckWidening<int8_t>(DType::kInt8);
    CheckWidening<uint8_t>(DType::kUInt8);
    CheckWidening<int16_t>(DType::kInt16);
    CheckWidening<uint16_t>(DType::kUInt16);
    CheckWidening<int32_t>(DType::kInt32);
  });
}

// Numbers of 2 and 4 bits, the last of which share their byte with nothing.
TEST(NarrowCast, PackedNumbers) {
  constexpr DType kPacked[] = {DType::kInt4, DType::kUInt4, DType::kInt2, DType::kUInt2,
                               DType::kFloat4E2M1};
  constexpr DType kOthers[] = {DType::kFloat32,  DType::kFloat64, DType::kFloat16,
                               DType::kBFloat16, DType::kInt8,    DType::kUInt8,
                               DType::kInt16,    DType::kInt32,   DType::kInt64,
                               DType::kUInt64,   DType::kBool,    DType::kFloat8E4M3FN};
  std::mt19937 generator(3);
  for (const int64_t count : {1, 2, 7, 512, 1203}) {
    std::vector<double> numbers;
    for (int64_t i = 0; i < count; ++i) {
      const double number = static_cast<double>(generator() % 4096) / 128 - 16;
      numbers.push_back(i % 50 == 9 ? 1e10 * number : i % 50 == 11 ? NAN : number);
    }
    for (const DType packed : kPacked) {
      for (const DType other : kOthers) {
        std::vector<std::byte> wide(static_cast<size_t>(count) * 8);
        ConvertElements(DType::kFloat64, numbers.data(), other, wide.data(), count, true);
        ForEachTarget([&] {
          CheckPacked(other, wide, packed, count);
          CheckPacked(packed, wide, other, count);
        });
      }
    }
  }
  EXPECT_FALSE(PreparePackedCast(DType::kInt4, DType::kUInt4));
  EXPECT_FALSE(PreparePackedCast(DType::kString, DType::kUInt4));
  EXPECT_FALSE(PreparePackedCast(DType::kFloat6E2M3, DType::kFloat32));
  EXPECT_FALSE(PreparePackedCast(DType::kFloat32, DType::kFloat16));
}

// A value between two casts is rounded.
TEST(NarrowCast, RoundsWithinAnExpression) {
  std::vector<float> x(1000), y(x.size()), wanted(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.37f * static_cast<float>(i) - 100;
  std::vector<uint8_t> codes(x.size());
  const int64_t count = static_cast<int64_t>(x.size()), dims[] = {count}, strides[] = {1};
  for (const DType type : kByteFloats) {
    ConvertElements(DType::kFloat32, x.data(), type, codes.data(), count, true);
    ConvertElements(type, codes.data(), DType::kFloat32, wanted.data(), count, true);
    const Expression e = Expression::Parse(
        fmt::format("(float; 3:float) cast(0):{} cast(2):float mul(3,1):float", Name(type)));
    ForEachTarget([&] {
      const void* const data[] = {x.data()};
      RunElementwise(PrepareElementwise(e, dims, strides), data, y.data(), Parallel{});
      for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], 3 * wanted[i]) << i;
    });
  }
}

}  // namespace
}  // namespace sardonyx
