#pragma once
// Buffers of outputs, kept when the caller lets go of them: a large block fresh from the system
// costs a page fault every 4 KiB, which would be paid again at each run.

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ir/tensor.h"

namespace sardonyx {

class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  // A tensor whose memory returns to the pool when its last owner is gone.
  Tensor Allocate(DType dtype, const std::vector<int64_t>& dims);

 private:
  static constexpr size_t kMaxKept = 8;

  struct Kept {
    int64_t bytes;
    Tensor memory;
  };
  std::mutex mutex_;
  std::vector<Kept> kept_;
};

}  // namespace sardonyx
