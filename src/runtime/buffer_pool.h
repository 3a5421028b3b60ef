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
  struct Kept {
    int64_t bytes;
    Tensor memory;
  };
  void Return(Kept kept);

  std::mutex mutex_;
  std::vector<Kept> kept_;  // oldest first
  int64_t kept_bytes_ = 0;
};

}  // namespace sardonyx
