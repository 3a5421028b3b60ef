#include <vector>

#include "gtest/gtest.h"
#include "sardonyx/sardonyx.hpp"

namespace sardonyx {
namespace {

TEST(Elements, PackAndUnpack) {
  for (const DType type : {DType::kUInt4, DType::kFloat4E2M1, DType::kInt2, DType::kFloat6E3M2}) {
    const int bits = DTypeBits(type);
    for (const int64_t count : {0, 1, 3, 4, 5, 13}) {
      std::vector<uint8_t> codes(count);
      for (int64_t i = 0; i < count; ++i) codes[i] = static_cast<uint8_t>(0xff - 37 * i);
      const Tensor packed = Packed(type, {count}, codes.data());
      EXPECT_EQ(packed.bytes(), (count * bits + 7) / 8);
      const Tensor loose = Unpacked(packed);
      ASSERT_EQ(loose.dims(), packed.dims());
      for (int64_t i = 0; i < count; ++i) {
        EXPECT_EQ(loose.data<uint8_t>()[i], codes[i] & ((1 << bits) - 1)) << DTypeName(type);
      }
    }
  }
}

TEST(Elements, ConvertAsCast) {
  Tensor x(DType::kFloat32, {4});
  float* values = x.data<float>();
  values[0] = -3, values[1] = 0.4F, values[2] = 6, values[3] = 1e9F;
  const Tensor bytes = Converted(x, DType::kUInt8);
  EXPECT_EQ(std::vector<uint8_t>(bytes.data<uint8_t>(), bytes.data<uint8_t>() + 4),
            (std::vector<uint8_t>{0, 0, 6, 255}));
  const Tensor small = Converted(Converted(x, DType::kFloat4E2M1), DType::kFloat64);
  EXPECT_EQ(std::vector<double>(small.data<double>(), small.data<double>() + 4),
            (std::vector<double>{-3, 0.5, 6, 6}));
  EXPECT_EQ(Converted(x, DType::kFloat32).raw(), x.raw());
  EXPECT_THROW(Converted(x, DType::kComplex64), Error);
}

}  // namespace
}  // namespace sardonyx
