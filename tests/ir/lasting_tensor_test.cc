#include "ir/lasting_tensor.h"

#include <gtest/gtest.h>

#include <optional>

namespace sardonyx {
namespace {

TEST(LastingMemory, KeepsTensorsApart) {
  std::optional<LastingMemory> memory(std::in_place);
  std::vector<Tensor> tensors;
  for (int64_t i = 0; i < 40; ++i) {
    // From what the allocator gives to what has a region of its own.
    const int64_t size = i == 20 ? (33 << 20) : 3 + i * i * i * 100;
    tensors.push_back(memory->Allocate(DType::kInt8, {size}));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensors.back().raw()) % 64, 0u);
    std::fill_n(tensors.back().data<int8_t>(), size, static_cast<int8_t>(i));
  }
  memory.reset();
  for (int64_t i = 0; i < 40; i += 2) tensors[i] = Tensor();  // gives back whole pages
  for (int64_t i = 1; i < 40; i += 2) {
    const int8_t* data = tensors[i].data<int8_t>();
    EXPECT_TRUE(std::all_of(data, data + tensors[i].size(), [&](int8_t v) { return v == i; })) << i;
  }
}

}  // namespace
}  // namespace sardonyx
