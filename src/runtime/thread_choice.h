#pragma once
// How many of its threads a plan takes. To share a step costs about a microsecond, and leaves what
// it writes in several caches: where steps take few microseconds fewer threads, or one, are faster.
// How many depends on the machine, so the first runs find out; results are the same with any.

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

namespace sardonyx {

class ThreadChoice {
 public:
  explicit ThreadChoice(int most) : most_(most), threads_(most), more_(most) {}

  struct Ticket {
    int threads;
    bool is_timed;  // End must be told how long the run took
  };
  // For a run that begins; any number may be under way.
  Ticket Begin();
  // After a timed run: its time, below 0 if it failed.
  void End(const Ticket& ticket, int64_t ns);

  int threads() const { return threads_.load(std::memory_order_relaxed); }

 private:
  // Runs of either number take turns in blocks, whose first run finds other caches than it left.
  static constexpr int kBlocks = 3, kBlockRuns = 4;
  static constexpr int64_t kLongNs = 2'000'000;  // from here on all threads
  static constexpr int64_t kFirstRest = 2, kRest = 1000, kLongestRest = 32'000;
  using Times = std::array<int64_t, kBlocks>;  // the least of each block

  void Compare();
  void Settle(int threads);

  const int most_;
  std::atomic<int> threads_;
  std::atomic<int64_t> rest_{kFirstRest};  // runs before the next comparison
  std::mutex mutex_;                       // of what follows
  bool is_timing_ = false;
  int more_;  // compared with half of it
  int runs_ = 0;
  Times of_more_ = {}, of_half_ = {};
  int64_t next_rest_ = kRest;
};

}  // namespace sardonyx
