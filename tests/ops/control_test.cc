// Values that iterations take and give, of element types that are not a whole number of bytes.

#include "ops/core/control.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/cast.h"
#include "ir/tensor.h"

namespace sardonyx {
namespace {

Tensor Packed(std::vector<int64_t> dims, const std::vector<uint32_t>& values) {
  Tensor tensor(DType::kUInt4, std::move(dims));
  for (size_t i = 0; i < values.size(); ++i) {
    WritePacked(tensor.raw(), 4, static_cast<int64_t>(i), values[i]);
  }
  return tensor;
}

std::vector<uint32_t> Codes(const Tensor& tensor) {
  std::vector<uint32_t> values;
  for (int64_t i = 0; i < tensor.size(); ++i) values.push_back(ReadPacked(tensor.raw(), 4, i));
  return values;
}

TEST(Control, StacksPackedElements) {
  const std::vector<Tensor> parts = {Packed({3}, {1, 2, 3}), Packed({3}, {4, 5, 6})};
  const Tensor rows = core::Stack(parts, Fact(), 0);
  EXPECT_EQ(rows.dims(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(Codes(rows), (std::vector<uint32_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Codes(core::Stack(parts, Fact(), 1)), (std::vector<uint32_t>{1, 4, 2, 5, 3, 6}));
}

TEST(Control, SlicesPackedElements) {
  const Tensor x = Packed({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(Codes(core::SliceAt(x, 0, 1)), (std::vector<uint32_t>{4, 5, 6}));
  EXPECT_EQ(Codes(core::SliceAt(x, 1, 1)), (std::vector<uint32_t>{2, 5}));
}

}  // namespace
}  // namespace sardonyx
