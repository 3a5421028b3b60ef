#include "runtime/thread_choice.h"

#include <algorithm>

namespace sardonyx {

ThreadChoice::Ticket ThreadChoice::Begin() {
  const Ticket usual{threads(), false};
  if (rest_.load(std::memory_order_relaxed) > 0) {
    rest_.fetch_sub(1, std::memory_order_relaxed);
    return usual;
  }
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || is_timing_) return usual;
  is_timing_ = true;
  const bool is_half = runs_ / kBlockRuns % 2 == 1;
  return {is_half ? more_ / 2 : more_, true};
}

void ThreadChoice::End(const Ticket& ticket, int64_t ns) {
  if (!ticket.is_timed) return;
  const std::lock_guard lock(mutex_);
  is_timing_ = false;
  if (ns < 0) return;
  const int block = runs_ / kBlockRuns, run = runs_ % kBlockRuns;
  const bool is_half = block % 2 == 1;
  if (!is_half && run > 0 && ns > kLongNs) return Settle(most_);
  int64_t& least = (is_half ? of_half_ : of_more_)[static_cast<size_t>(block / 2)];
  if (run > 0) least = run == 1 ? ns : std::min(least, ns);
  if (++runs_ == 2 * kBlocks * kBlockRuns) Compare();
}

void ThreadChoice::Compare() {
  const auto median = [](Times times) {
    std::sort(times.begin(), times.end());
    return times[kBlocks / 2];
  };
  runs_ = 0;
  if (median(of_half_) * 100 >= median(of_more_) * 95) return Settle(more_);
  more_ /= 2;
  if (more_ == 1) Settle(1);
}

// The machine may have other work by the next comparison.
void ThreadChoice::Settle(int threads) {
  threads_.store(threads, std::memory_order_relaxed);
  more_ = most_;
  runs_ = 0;
  rest_.store(next_rest_, std::memory_order_relaxed);
  next_rest_ = std::min(2 * next_rest_, kLongestRest);
}

}  // namespace sardonyx
