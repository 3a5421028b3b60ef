#include "ir/lasting_tensor.h"

#include <gtest/gtest.h>

#include <cstring>
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
    if (i % 9 == 0) memory->Trim();  // what is behind comes back when it is written
  }
  memory.reset();
  for (int64_t i = 0; i < 40; i += 2) tensors[i] = Tensor();  // gives back whole pages
  for (int64_t i = 1; i < 40; i += 2) {
    const int8_t* data = tensors[i].data<int8_t>();
    EXPECT_TRUE(std::all_of(data, data + tensors[i].size(), [&](int8_t v) { return v == i; })) << i;
  }
}

TEST(StagingMemory, CopiesWhatIsNotAligned) {
  StagingMemory memory;
  std::vector<char> bytes(4001);
  for (const size_t offset : {1, 0, 2}) {
    char* at = bytes.data() + (16 - reinterpret_cast<uintptr_t>(bytes.data()) % 16) % 16 + offset;
    for (int32_t i = 0; i < 900; ++i) std::memcpy(at + 4 * i, &i, sizeof(i));
    const Tensor given(DType::kInt32, {30, 30}, at, nullptr);
    const Tensor aligned = memory.Aligned(given);
    EXPECT_EQ(aligned.raw() == given.raw(), offset == 0);
    EXPECT_EQ(aligned.dims(), given.dims());
    for (int32_t i = 0; i < 900; ++i) EXPECT_EQ(aligned.data<int32_t>()[i], i);
  }
  memory.Drop();  // made again when it is needed
  EXPECT_EQ(memory.Aligned(Tensor(DType::kInt32, {1}, bytes.data() + 1, nullptr)).size(), 1);
}

}  // namespace
}  // namespace sardonyx
