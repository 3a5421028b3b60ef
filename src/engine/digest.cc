#include "engine/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <vector>

#include "base/thread_pool.h"

namespace sardonyx::engine {

uint64_t Digest(std::string_view bytes) {
  constexpr size_t kPart = 1 << 20;
  if (bytes.size() <= kPart) return XXH3_64bits(bytes.data(), bytes.size());
  // Asking takes longer than a digest of such a part: the quota stands in files.
  static const int threads = ThreadPool::AvailableThreads();
  std::vector<uint64_t> parts((bytes.size() + kPart - 1) / kPart);
  const Parallel parallel{&ThreadPool::Process(), threads};
  parallel.For(static_cast<int64_t>(parts.size()), [&](int64_t i) {
    const std::string_view part = bytes.substr(static_cast<size_t>(i) * kPart, kPart);
    parts[i] = XXH3_64bits(part.data(), part.size());
  });
  return XXH3_64bits(parts.data(), parts.size() * sizeof(uint64_t));
}

}  // namespace sardonyx::engine
