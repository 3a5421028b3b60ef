// Memory that returns to a pool: aligned, nobody else's while it is held, taken again, and given
// back to the system by whoever comes last.

#include "runtime/buffer_pool.h"

#include <gtest/gtest.h>

#include <cstring>

#include "runtime/arena_guard.h"

namespace sardonyx {
namespace {

constexpr int64_t kSizes[] = {0,    1,    63,    64,    65,    127,       128,      129,
                              1000, 4096, 65535, 65536, 65537, 1'000'000, 9'000'000};

TEST(BufferPool, EachHasItsOwn) {
  const auto pool = std::make_shared<BufferPool>();
  for (int round = 0; round < 3; ++round) {
    std::vector<Tensor> held;
    for (int copy = 0; copy < 40; ++copy) {
      for (const int64_t size : kSizes) {
        if (size > 100'000 && copy > 2) continue;
        held.push_back(pool->Allocate(DType::kUInt8, {size}));
        EXPECT_EQ(reinterpret_cast<uintptr_t>(held.back().raw()) % 64, 0u);
        if (size > 0) std::memset(held.back().raw(), static_cast<int>(held.size()), size);
      }
    }
    for (size_t i = 0; i < held.size(); ++i) {
      const uint8_t* const bytes = held[i].data<uint8_t>();
      for (int64_t k = 0; k < held[i].size(); k += 61) {
        ASSERT_EQ(bytes[k], static_cast<uint8_t>(i + 1));
      }
      if (held[i].size() == 0) continue;
      ASSERT_EQ(bytes[held[i].size() - 1], static_cast<uint8_t>(i + 1));
    }
  }
}

TEST(BufferPool, TakenAgain) {
  if (ArenaGuard::kOn) GTEST_SKIP() << "small ones are the system's under the sanitizer";
  const auto pool = std::make_shared<BufferPool>();
  for (const int64_t size : kSizes) {
    const void* const first = pool->Allocate(DType::kUInt8, {size}).raw();
    EXPECT_EQ(pool->Allocate(DType::kUInt8, {size}).raw(), first) << size;
  }
}

TEST(BufferPool, OutlivedByItsTensors) {
  auto pool = std::make_shared<BufferPool>();
  Tensor small = pool->Allocate(DType::kFloat32, {3});
  Tensor large = pool->Allocate(DType::kFloat32, {300'000});
  pool->Allocate(DType::kFloat32, {3});
  pool.reset();
  small.data<float>()[2] = 1;
  large.data<float>()[299'999] = 1;
}

TEST(BufferPool, Strings) {
  const auto pool = std::make_shared<BufferPool>();
  Tensor tensor = pool->Allocate(DType::kString, {2});
  tensor.data<std::string>()[1] = std::string(100, 'x');
}

TEST(BufferPool, TooMuch) {
  const auto pool = std::make_shared<BufferPool>();
  EXPECT_THROW(pool->Allocate(DType::kFloat32, {int64_t{1} << 60}), Error);
}

}  // namespace
}  // namespace sardonyx
