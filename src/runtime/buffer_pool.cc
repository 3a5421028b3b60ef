#include "runtime/buffer_pool.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "base/error.h"
#include "runtime/arena_guard.h"

namespace sardonyx {
namespace {

constexpr int64_t kLeast = 64;        // bytes of the smallest ones
constexpr int64_t kLarge = 64 << 10;  // and more: rare enough to look for the best
// Always kept, and kept as long as all together are no larger.
constexpr size_t kFewKept = 8;
constexpr int64_t kBytesKept = 64 << 20;

// Room for an output that grows from run to run, as a cache does. Pages that nothing touches cost
// nothing.
int64_t Roomy(int64_t bytes) { return (bytes + bytes / 8 + 4095) / 4096 * 4096; }

}  // namespace

Tensor BufferPool::Allocate(DType dtype, const std::vector<int64_t>& dims) {
  const int64_t bytes = ByteSize(dtype, ElementCount(dims));
  if (dtype == DType::kString) return Tensor(dtype, dims);
  if (bytes <= kLarge) {
    // A sanitizer is to see the ends of each.
    return ArenaGuard::kOn ? Tensor(dtype, dims) : AllocateSmall(dtype, dims, bytes);
  }
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

Tensor BufferPool::AllocateSmall(DType dtype, const std::vector<int64_t>& dims, int64_t bytes) {
  const auto units = static_cast<uint64_t>(std::max(bytes, kLeast) - 1) / kLeast;
  const auto size = static_cast<size_t>(std::bit_width(units));
  void* memory = nullptr;
  {
    std::lock_guard lock(mutex_);
    SmallOnes& kept = small_[size];
    if (kept.count > 0) memory = kept.memory[--kept.count];
  }
  if (memory == nullptr) memory = std::aligned_alloc(64, static_cast<size_t>(kLeast) << size);
  if (memory == nullptr) Fail(ErrorCode::kOutOfMemory, "cannot allocate {} bytes", bytes);
  std::shared_ptr<const void> owner(memory, [pool = weak_from_this(), size](const void* data) {
    void* const own = const_cast<void*>(data);
    if (auto alive = pool.lock()) return alive->ReturnSmall(own, size);
    std::free(own);
  });
  return Tensor(dtype, dims, memory, std::move(owner));
}

BufferPool::~BufferPool() {
  for (const SmallOnes& kept : small_) {
    for (size_t i = 0; i < kept.count; ++i) std::free(kept.memory[i]);
  }
}

void BufferPool::ReturnSmall(void* memory, size_t size) {
  {
    std::lock_guard lock(mutex_);
    SmallOnes& kept = small_[size];
    if (kept.count < kSmallKept) return void(kept.memory[kept.count++] = memory);
  }
  std::free(memory);
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
