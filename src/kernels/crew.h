#pragma once
// Threads that go through many short phases together: one fork for all of them, and between two
// phases no more than a look at a counter.

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/thread_pool.h"
#include "hwy/cache_control.h"

namespace sardonyx {

inline constexpr int kMostCrew = 16;  // parts

// Runs body(phase, part) for all parts of a phase, then all of the next. A thread does its own part
// in each phase, which its cache then holds; until it comes, somebody else does. So any number of
// threads will do, one too.
template <typename Body>
class Crew {
 public:
  Crew(int64_t phases, int parts, const Body& body) : phases_(phases), parts_(parts), body_(body) {
    for (auto& owner : owners_) owner.store(-1, std::memory_order_relaxed);
  }

  void Run(const Parallel& par) {
    par.For(parts_, [&](int64_t member) { Join(static_cast<int>(member)); });
  }

 private:
  void Join(int member) {
    owners_[member].store(member);
    for (int part = 0; part < parts_; ++part) {
      int nobody = -1;
      owners_[part].compare_exchange_strong(nobody, member);
    }
    for (int64_t phase = done_.load() / parts_; phase < phases_; ++phase) {
      for (int part = 0; part < parts_; ++part) {
        if (owners_[part].load() != member) continue;
        int64_t next = phase;
        if (!begun_[part].compare_exchange_strong(next, phase + 1)) continue;
        body_(phase, part);
        done_.fetch_add(1);
        if (sleeping_.load() > 0) done_.notify_all();
      }
      Wait((phase + 1) * parts_);
    }
  }

  void Wait(int64_t target) {
    constexpr int kSpins = 2'000;  // some 30 us: more than the parts of a phase differ
    for (int spin = 0; spin < kSpins; ++spin) {
      if (done_.load(std::memory_order_acquire) >= target) return;
      hwy::Pause();
    }
    // Somebody has lost the processor, and gets this one if it is not taken up by waiting.
    sleeping_.fetch_add(1);
    for (int64_t done; (done = done_.load()) < target;) done_.wait(done);
    sleeping_.fetch_sub(1);
  }

  const int64_t phases_;
  const int parts_;
  const Body& body_;
  std::atomic<int> owners_[kMostCrew];
  std::atomic<int64_t> begun_[kMostCrew] = {};  // of each part, phases
  alignas(64) std::atomic<int64_t> done_{0};    // parts of all phases
  std::atomic<int> sleeping_{0};
};

}  // namespace sardonyx
