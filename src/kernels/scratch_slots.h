#pragma once
// Scratch for tasks that do not know which thread runs them.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sardonyx {

// Of the bytes that runs with so many threads need, with half of them, a fourth and so on
// (runtime/thread_choice.h), the most: with fewer threads parts are larger.
template <typename Bytes>
size_t MostScratchBytes(int threads, Bytes&& bytes) {
  size_t most = 0;
  for (; threads >= 1; threads /= 2) most = std::max<size_t>(most, bytes(threads));
  return most;
}

// Hands out `count` pieces of `bytes` each from one buffer. A task takes one and returns it with
// Lease; with as many pieces as threads nobody waits.
class ScratchSlots {
 public:
  static constexpr int kMaxSlots = 256;

  static int CountFor(int threads) {
    return threads < 1 ? 1 : threads < kMaxSlots ? threads : kMaxSlots;
  }

  ScratchSlots(void* base, size_t bytes, int count)
      : base_(static_cast<std::byte*>(base)), bytes_(bytes), count_(count) {}

  class Lease {
   public:
    explicit Lease(ScratchSlots& slots) : slots_(slots), index_(slots.Take()) {}
    ~Lease() { slots_.taken_[index_].store(false, std::memory_order_release); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    int index() const { return index_; }  // of the piece, below count
    float* floats() const {
      return reinterpret_cast<float*>(slots_.base_ + static_cast<size_t>(index_) * slots_.bytes_);
    }

   private:
    ScratchSlots& slots_;
    int index_;
  };

 private:
  // A thread looks for the piece that it had before first: its cache holds that one, and would have
  // to fetch another from the cache of the thread that wrote it.
  int Take() {
    static std::atomic<uint32_t> threads{0};
    thread_local const uint32_t mine = threads.fetch_add(1, std::memory_order_relaxed);
    const auto count = static_cast<uint32_t>(count_);
    for (uint32_t i = mine % count;; i = i + 1 == count ? 0 : i + 1) {
      if (!taken_[i].load(std::memory_order_relaxed) &&
          !taken_[i].exchange(true, std::memory_order_acquire)) {
        return static_cast<int>(i);
      }
    }
  }

  std::byte* base_;
  size_t bytes_;
  int count_;
  std::atomic<bool> taken_[kMaxSlots] = {};
};

}  // namespace sardonyx
