#pragma once
// Buffers of outputs and of values whose sizes are found at run, kept when their owners let go of
// them: a large block fresh from the system costs a page fault every 4 KiB, which would be paid
// again at each run, and aligned ones of any size take the system's allocator long to make and
// merge.

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ir/tensor.h"

namespace sardonyx {

class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  BufferPool() = default;
  BufferPool(const BufferPool&) = delete;
  ~BufferPool();
  // A tensor whose memory returns to the pool when its last owner is gone.
  Tensor Allocate(DType dtype, const std::vector<int64_t>& dims);

 private:
  struct Kept {
    int64_t bytes;
    Tensor memory;
  };
  static constexpr size_t kSmallSizes = 11;  // 64 bytes and each twice the one before
  static constexpr size_t kSmallKept = 16;   // of a size
  struct SmallOnes {
    size_t count = 0;
    std::array<void*, kSmallKept> memory;
  };
  Tensor AllocateSmall(DType dtype, const std::vector<int64_t>& dims, int64_t bytes);
  void Return(Kept kept);
  void ReturnSmall(void* memory, size_t size);

  std::mutex mutex_;
  std::array<SmallOnes, kSmallSizes> small_;
  std::vector<Kept> kept_;  // oldest first
  int64_t kept_bytes_ = 0;
};

}  // namespace sardonyx
