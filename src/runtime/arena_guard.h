#pragma once
// Under the address sanitizer a bound step finds nothing in the arena but its operands and scratch:
// the sanitizer takes the arena for one block, in which it would not see a step go astray.

#include <cstdint>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace sardonyx {

#ifdef __SANITIZE_ADDRESS__
class ArenaGuard {
 public:
  static constexpr bool kOn = true;

  ArenaGuard(const void* arena, int64_t bytes) : arena_(arena), bytes_(bytes) {
    ASAN_POISON_MEMORY_REGION(arena_, bytes_);
  }
  ~ArenaGuard() { ASAN_UNPOISON_MEMORY_REGION(arena_, bytes_); }
  ArenaGuard(const ArenaGuard&) = delete;
  ArenaGuard& operator=(const ArenaGuard&) = delete;
  void Open(const void* data, int64_t bytes) { ASAN_UNPOISON_MEMORY_REGION(data, bytes); }

 private:
  const void* arena_;
  int64_t bytes_;
};
#else
struct ArenaGuard {
  static constexpr bool kOn = false;

  ArenaGuard(const void*, int64_t) {}
  void Open(const void*, int64_t) {}
};
#endif

}  // namespace sardonyx
