// Casts of tiles to and from floats of 8 and 16 bits, bit for bit those of ConvertElements.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/cast.h"
#include "each_target.h"
#include "kernels/elementwise.h"

namespace sardonyx {
namespace {

constexpr DType kHalves[] = {DType::kFloat16, DType::kBFloat16};

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

// The middles of codes of a format of 16 bits that follow each other.
std::vector<double> Middles(DType type) {
  std::vector<double> middles;
  for (uint32_t code = 0; code < 0x7c00; code += 37) {
    const uint16_t pair[] = {static_cast<uint16_t>(code), static_cast<uint16_t>(code + 1)};
    double values[2];
    ConvertElements(type, pair, DType::kFloat64, values, 2, true);
    middles.push_back((values[0] + values[1]) / 2);
  }
  return middles;
}

TEST(NarrowCast, DoublesAreRoundedOnce) {
  for (const DType to : kHalves) {
    const std::vector<std::byte> in = Bytes(Ties(Middles(to)));
    ForEachTarget([&] { CheckCast(DType::kFloat64, in, to); });
  }
}

}  // namespace
}  // namespace sardonyx
