#include "runtime/buffer_pool.h"

namespace sardonyx {
namespace {

// Below this the system's allocator is as good.
constexpr int64_t kSmallest = 64 << 10;
// Always kept, and kept as long as all together are no larger.
constexpr size_t kFewKept = 8;
constexpr int64_t kBytesKept = 64 << 20;

// Room for an output that grows from run to run, as a cache does. Pages that nothing touches cost
// nothing.
int64_t Roomy(int64_t bytes) { return (bytes + bytes / 8 + 4095) / 4096 * 4096; }

}  // namespace

Tensor BufferPool::Allocate(DType dtype, const std::vector<int64_t>& dims) {
  const int64_t bytes = ByteSize(dtype, ElementCount(dims));
  if (bytes < kSmallest || dtype == DType::kString) return Tensor(dtype, dims);
  Kept taken;
  {
    std::lock_guard lock(mutex_);
    // The smallest that is large enough, but not much larger than needed.
    auto best = kept_.end();
    for (auto it = kept_.begin(); it != kept_.end(); ++it) {
      if (it->bytes < bytes || it->bytes > bytes + bytes / 2) continue;
      if (best == kept_.end() || it->bytes < best->bytes) best = it;
    }
    if (best != kept_.end()) {
      taken = std::move(*best);
      kept_bytes_ -= taken.bytes;
      kept_.erase(best);
    }
  }
  if (!taken.memory.defined()) taken = {Roomy(bytes), Tensor(DType::kUInt8, {Roomy(bytes)})};
  void* data = taken.memory.raw();
  std::shared_ptr<const void> owner(
      data, [pool = weak_from_this(), taken = std::move(taken)](const void*) mutable {
        if (auto alive = pool.lock()) alive->Return(std::move(taken));
      });
  return Tensor(dtype, dims, data, std::move(owner));
}

void BufferPool::Return(Kept kept) {
  std::vector<Kept> displaced;  // freed when the lock is gone
  std::lock_guard lock(mutex_);
  kept_bytes_ += kept.bytes;
  kept_.push_back(std::move(kept));
  while (kept_.size() > kFewKept && kept_bytes_ > kBytesKept) {
    kept_bytes_ -= kept_.front().bytes;
    displaced.push_back(std::move(kept_.front()));
    kept_.erase(kept_.begin());
  }
}

}  // namespace sardonyx
