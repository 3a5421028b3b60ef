#include "ir/lasting_tensor.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "base/huge_page.h"

namespace sardonyx {
namespace {

constexpr size_t kLeast = 16 << 10;           // what is smaller comes from the allocator
constexpr size_t kUsual = kHugePage / 2;      // bytes in pages of the usual size, used first
constexpr size_t kRegion = size_t{64} << 20;  // of addresses; pages come when they are written
constexpr size_t kAlignment = 64;

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Addresses of which those of bytes [huge_from, huge_to) are huge pages. Of these two numbers the
// one inside of the region is the border of a huge page, if there is one.
std::shared_ptr<char> MapRegion(size_t bytes, size_t huge_from, size_t huge_to) {
  const size_t size = bytes + kHugePage, border = huge_from > 0 ? huge_from : huge_to % bytes;
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) Fail(ErrorCode::kOutOfMemory, "cannot allocate {} bytes", bytes);
  const uintptr_t huge = RoundUp(reinterpret_cast<uintptr_t>(memory) + border, kHugePage);
  char* begin = reinterpret_cast<char*>(huge - border);
#if defined(MADV_HUGEPAGE)
  madvise(begin + huge_from, huge_to - huge_from, MADV_HUGEPAGE);  // only advice
#endif
  return {begin, [memory, size](char*) { munmap(memory, size); }};
}

void DropPages(char* data, size_t bytes) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = RoundUp(reinterpret_cast<uintptr_t>(data), page);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + bytes) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace

Tensor LastingMemory::Allocate(DType dtype, std::vector<int64_t> dims) {
  const auto bytes = static_cast<size_t>(ByteSize(dtype, ElementCount(dims)));
  if (bytes < kLeast || dtype == DType::kString) return Tensor(dtype, std::move(dims));
  if (bytes >= kRegion / 2) {
    std::shared_ptr<char> own = MapRegion(bytes, 0, bytes);
    return Tensor(dtype, std::move(dims), own.get(), own);
  }
  const size_t size = RoundUp(bytes, kAlignment);
  if (size > left_) {
    Trim();
    // A small model is not to take a huge page that it does not fill.
    region_ = MapRegion(kRegion, 0, region_ == nullptr ? kRegion - kUsual : kRegion);
    left_ = kRegion;
  }
  left_ -= size;
  char* data = region_.get() + left_;
  std::shared_ptr<const void> owner(data, [region = region_, bytes](void* freed) {
    DropPages(static_cast<char*>(freed), bytes);
  });
  return Tensor(dtype, std::move(dims), data, std::move(owner));
}

void LastingMemory::Trim() {
  if (region_ != nullptr) DropPages(region_.get(), left_);
}

Tensor StagingMemory::Aligned(const Tensor& tensor) {
  constexpr int64_t kMost = 32 << 20;
  if (IsAligned(tensor) || tensor.bytes() > kMost || tensor.dtype() == DType::kString) {
    return sardonyx::Aligned(tensor);
  }
  if (region_ == nullptr) region_ = MapRegion(kMost, kUsual, kMost);
  std::memcpy(region_.get(), tensor.raw(), static_cast<size_t>(tensor.bytes()));
  return Tensor(tensor.dtype(), tensor.dims(), region_.get(), region_);
}

}  // namespace sardonyx
