#include "runtime/buffer_pool.h"

#include <algorithm>

namespace sardonyx {
namespace {

// Below this the system's allocator is as good.
constexpr int64_t kSmallest = 64 << 10;

}  // namespace

Tensor BufferPool::Allocate(DType dtype, const std::vector<int64_t>& dims) {
  const int64_t bytes = ByteSize(dtype, ElementCount(dims));
  if (bytes < kSmallest || dtype == DType::kString) return Tensor(dtype, dims);
  Tensor memory;
  {
    std::lock_guard lock(mutex_);
    auto it = std::find_if(kept_.begin(), kept_.end(),
                           [&](const Kept& kept) { return kept.bytes == bytes; });
    if (it != kept_.end()) {
      memory = std::move(it->memory);
      kept_.erase(it);
    }
  }
  if (!memory.defined()) memory = Tensor(DType::kUInt8, {bytes});
  void* data = memory.raw();
  std::shared_ptr<const void> owner(
      data, [pool = weak_from_this(), memory = std::move(memory), bytes](const void*) mutable {
        auto alive = pool.lock();
        if (!alive) return;
        Kept displaced;
        std::lock_guard lock(alive->mutex_);
        if (alive->kept_.size() == kMaxKept) {
          displaced = std::move(alive->kept_.front());
          alive->kept_.erase(alive->kept_.begin());
        }
        alive->kept_.push_back({bytes, std::move(memory)});
      });
  return Tensor(dtype, dims, data, std::move(owner));
}

}  // namespace sardonyx
