#include "ir/lasting_tensor.h"

#include <sys/mman.h>

namespace sardonyx {
namespace {

constexpr int64_t kLeast = 256 << 10;

}  // namespace

Tensor LastingTensor(DType dtype, std::vector<int64_t> dims) {
  const int64_t bytes = ByteSize(dtype, ElementCount(dims));
  if (bytes < kLeast || dtype == DType::kString) return Tensor(dtype, std::move(dims));
  const auto size = static_cast<size_t>(bytes);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) Fail(ErrorCode::kOutOfMemory, "cannot allocate {} bytes", bytes);
#if defined(MADV_HUGEPAGE)
  madvise(memory, size, MADV_HUGEPAGE);  // only advice: what it returns changes nothing
#endif
  std::shared_ptr<const void> owner(
      memory, [size](const void* pages) { munmap(const_cast<void*>(pages), size); });
  return Tensor(dtype, std::move(dims), memory, std::move(owner));
}

}  // namespace sardonyx
