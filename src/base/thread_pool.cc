#include "base/thread_pool.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

#ifdef __unix__
#include <pthread.h>
#endif

#include "base/processors.h"

namespace sardonyx {
namespace {

// A parallel step of a model follows the one before after some microseconds, while waking a thread
// that sleeps costs 5 to 50, and more in virtual machines. Of many workers some have nothing to do
// in several steps: of 60 us, 16 threads took 1.1 times as long (MobileNetV2, DenseNet; Emerald
// Rapids), of 2000 no less.
constexpr std::chrono::microseconds kWorkerSpin{400};
constexpr std::chrono::microseconds kCallerSpin{100};
// How long a caller waits for threads that work before it looks for some that never began.
constexpr std::chrono::microseconds kGrace{2};
constexpr int kMostShares = 64;
constexpr int kTeamSize = 64, kMostTeams = 16;
constexpr int kMostWorkers = kTeamSize * kMostTeams;

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

// Threads of all pools that now use a processor: callers inside ParallelFor, and workers that work
// or spin. Beyond the number of processors, spinning takes time from threads that have work.
std::atomic<int> running{0};

class Running {
 public:
  Running() { Begin(); }
  ~Running() { End(); }
  static void Begin() { running.fetch_add(1, std::memory_order_relaxed); }
  static void End() { running.fetch_sub(1, std::memory_order_relaxed); }
};

bool Crowded(int processors) { return running.load(std::memory_order_relaxed) > processors; }

// Polls until done() or the time is over or processors are short; true if done.
template <typename Done>
bool SpinUntil(int processors, std::chrono::microseconds time, Done&& done) {
  const auto end = std::chrono::steady_clock::now() + time;
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      Pause();
    }
  } while (!Crowded(processors) && std::chrono::steady_clock::now() < end);
  return done();
}

// Guards a few instructions, so waiting for it never goes through the kernel unless its holder lost
// the processor.
class SpinLock {
 public:
  void lock() {
    for (int i = 0; held_.exchange(true, std::memory_order_acquire); ++i) {
      for (; held_.load(std::memory_order_relaxed); ++i) {
        if (i < 200) {
          Pause();
        } else {
          std::this_thread::yield();
        }
      }
    }
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

// Consecutive tasks that one thread begins with. In step after step of a model the same thread has
// the same part of the rows, which its cache still holds.
struct alignas(64) Share {
  std::atomic<int64_t> next;
  int64_t end;

  // Looks before it writes: many threads come by when nothing is left.
  bool Take(int64_t* task) {
    if (next.load(std::memory_order_relaxed) >= end) return false;
    *task = next.fetch_add(1, std::memory_order_relaxed);
    return *task < end;
  }
};

// One ParallelFor. It lives on its caller's stack: the caller returns only after all workers that
// it was handed to have left it.
struct Job {
  TaskRef body;
  int most_workers;
  int share_count;
  Job* following = nullptr;  // of those that wait for workers
  std::exception_ptr error;  // guarded by error_lock
  SpinLock error_lock;
  Share shares[kMostShares];
  alignas(64) std::atomic<int> workers{0};  // that have it, begun or not

  Job(TaskRef body, int64_t tasks, int threads)
      : body(body), most_workers(threads - 1), share_count(std::min(threads, kMostShares)) {
    for (int i = 0; i < share_count; ++i) {
      shares[i].next.store(tasks * i / share_count, std::memory_order_relaxed);
      shares[i].end = tasks * (i + 1) / share_count;
    }
  }

  bool WantsWorker() const {
    if (workers.load(std::memory_order_relaxed) >= most_workers) return false;
    return std::any_of(shares, shares + share_count, [](const Share& share) {
      return share.next.load(std::memory_order_relaxed) < share.end;
    });
  }

  // `thread` counts the caller, 0, and the workers of the pool: its own share first, then what
  // others have left.
  void Work(int thread) {
    for (int i = 0; i < share_count; ++i) {
      Share& share = shares[(thread + i) % share_count];
      for (int64_t task; share.Take(&task);) {
        try {
          body(task);
        } catch (...) {
          for (Share& left : std::span(shares, share_count))
            left.next.store(left.end, std::memory_order_relaxed);
          const std::lock_guard lock(error_lock);
          if (!error) error = std::current_exception();
        }
      }
    }
  }
};

// A line of its own for each worker, so that handing out a job is a store to each, which do not
// wait for each other, and a worker that waits reads nothing that others write.
struct alignas(64) Worker {
  std::atomic<Job*> job{nullptr};   // handed over, not yet begun
  std::atomic<uint32_t> asleep{0};  // 1 while it sleeps, which is until this changes
};

uint64_t LowestBits(uint64_t bits, int count) {
  if (std::popcount(bits) <= count) return bits;
  uint64_t others = bits;
  for (int i = 0; i < count; ++i) others &= others - 1;
  return bits & ~others;
}

// Workers that idle are a word's bits: a caller takes as many as it wants at once.
struct Team {
  alignas(64) std::atomic<uint64_t> idle{0};
  Worker workers[kTeamSize];
};

}  // namespace

// A caller takes idle workers, stores its job in the line of each, does its own share, and waits
// until all have left. The lock and the list are for callers that found too few idle: workers that
// become free look there first.
struct ThreadPool::State {
  std::atomic<bool> stop{false};
  std::atomic<int> started{0};
  std::atomic<int> caller_processor{-1};  // of the last job that woke workers
  int processors = 1;
  std::array<std::atomic<Team*>, kMostTeams> teams{};
  std::mutex start_mutex;
  std::vector<std::thread> threads;          // guarded by start_mutex
  std::vector<std::unique_ptr<Team>> owned;  // guarded by start_mutex
  // Both sides add to this between what they write and what they read, jobs or `asleep`: the second
  // of them sees what the first has written.
  alignas(64) std::atomic<uint32_t> order{0};
  alignas(64) std::atomic<uint32_t> finished{0};  // jobs whose last worker left
  alignas(64) SpinLock lock;
  Job* jobs = nullptr;                // guarded by lock
  std::atomic<int> waiting{0};        // jobs of the list
  std::atomic<uint32_t> listings{0};  // that ever were in it

  void Start(int wanted);
  void WorkerLoop(Team& team, int place, int thread);
  void Sleep(Worker& worker);
  int HandOut(Job* job, int count);
  bool WakeUp(Worker& worker);
  template <typename Visit>
  void EachWorker(const Visit& visit);
  void WakeOthers();
  void AfterWaking();
  void List(Job* job);
  Job* Free(Team& team, int place);
  void Leave(Job* job);
  void TakeBack(Job* job);
  void Withdraw(Job* job, bool is_listed);
};

void ThreadPool::State::Start(int wanted) {
  const std::lock_guard guard(start_mutex);
  if (threads.empty()) processors = AvailableThreads();
  for (auto i = static_cast<int>(threads.size()); i < wanted; ++i) {
    if (i % kTeamSize == 0) {
      owned.push_back(std::make_unique<Team>());
      teams[i / kTeamSize].store(owned.back().get(), std::memory_order_release);
    }
    Team& team = *owned.back();
    try {
      threads.emplace_back([this, &team, i] { WorkerLoop(team, i % kTeamSize, i + 1); });
    } catch (const std::system_error&) {
      break;  // the system grants no more threads: the caller does the work with those there are
    }
    team.idle.fetch_or(uint64_t{1} << i % kTeamSize);
  }
  // Also after a refusal, so that each later call does not ask again.
  started.store(std::max(wanted, started.load()), std::memory_order_release);
}

// Gives the job to at most `count` idle workers; returns to how many.
int ThreadPool::State::HandOut(Job* job, int count) {
  uint64_t taken[kMostTeams];
  int teams_seen = 0, left = count;
  for (; teams_seen < kMostTeams && left > 0; ++teams_seen) {
    Team* team = teams[teams_seen].load(std::memory_order_acquire);
    if (team == nullptr) break;
    uint64_t& mine = taken[teams_seen];
    uint64_t idle = team->idle.load();
    do {
      // The first ones: these had the same parts of the rows in the steps before.
      mine = LowestBits(idle, left);
    } while (!team->idle.compare_exchange_weak(idle, idle & ~mine));
    left -= std::popcount(mine);
    job->workers.fetch_add(std::popcount(mine), std::memory_order_relaxed);
    for (uint64_t bits = mine; bits != 0; bits &= bits - 1) {
      team->workers[std::countr_zero(bits)].job.store(job, std::memory_order_release);
    }
  }
  if (left == count) return 0;
  order.fetch_add(1);
  // Those that wake then wake the others: each takes microseconds, in which the caller has its own
  // share to do.
  constexpr int kMostWoken = 2;
  int woken = 0;
  for (int i = 0; i < teams_seen; ++i) {
    Team* team = teams[i].load(std::memory_order_relaxed);
    for (uint64_t bits = taken[i]; bits != 0 && woken < kMostWoken; bits &= bits - 1) {
      woken += WakeUp(team->workers[std::countr_zero(bits)]);
    }
  }
  if (woken > 0) AfterWaking();
  return count - left;
}

// visit(team, worker, its place)
template <typename Visit>
void ThreadPool::State::EachWorker(const Visit& visit) {
  for (std::atomic<Team*>& entry : teams) {
    Team* team = entry.load(std::memory_order_acquire);
    if (team == nullptr) return;
    for (int place = 0; place < kTeamSize; ++place) visit(*team, team->workers[place], place);
  }
}

void ThreadPool::State::WakeOthers() {
  EachWorker([this](Team&, Worker& worker, int) {
    if (worker.asleep.load() != 0 && worker.job.load() != nullptr) WakeUp(worker);
  });
}

// Returns whether it slept. What it shall see was written before, and then `order`.
bool ThreadPool::State::WakeUp(Worker& worker) {
  if (worker.asleep.load() == 0 || worker.asleep.exchange(0) == 0) return false;
  caller_processor.store(CurrentProcessor(), std::memory_order_relaxed);
  worker.asleep.notify_one();
  return true;
}

// A worker that was put behind this thread (see Sleep) runs now, and moves.
void ThreadPool::State::AfterWaking() {
  if (!Crowded(processors)) std::this_thread::yield();
}

void ThreadPool::State::Sleep(Worker& worker) {
  Running::End();
  worker.asleep.store(1);
  order.fetch_add(1);
  if (worker.job.load() == nullptr && !stop.load()) worker.asleep.wait(1);
  worker.asleep.store(0);
  Running::Begin();
  // Virtual machines may wake a worker behind its caller although another processor idles, and
  // as it never runs for long there, the system leaves it for hundreds of jobs.
  const int processor = Crowded(processors) ? -1 : CurrentProcessor();
  if (processor >= 0 && processor == caller_processor.load(std::memory_order_relaxed)) {
    LeaveProcessor(processor);
  }
  WakeOthers();
}

void ThreadPool::State::WorkerLoop(Team& team, int place, int thread) {
  Worker& mine = team.workers[place];
  const Running counted;
  while (true) {
    const auto wanted = [&] {
      return mine.job.load(std::memory_order_relaxed) != nullptr ||
             stop.load(std::memory_order_relaxed);
    };
    if (!SpinUntil(processors, kWorkerSpin, wanted)) Sleep(mine);
    if (stop.load()) return;
    // Nothing is there if its caller took it back.
    for (Job* job = mine.job.exchange(nullptr); job != nullptr;) {
      job->Work(thread);
      // First free, so that the caller's next job finds it idle.
      Job* next = Free(team, place);
      Leave(job);
      job = next;
    }
  }
}

// What a worker that has no job is to do next: of the jobs that wait the one with the fewest
// workers, so that callers at the same time share them evenly. Otherwise it is idle from here on,
// and nullptr is returned.
Job* ThreadPool::State::Free(Team& team, int place) {
  const uint64_t bit = uint64_t{1} << place;
  while (true) {
    const uint32_t seen = listings.load();
    if (waiting.load() > 0) {
      const std::lock_guard guard(lock);
      Job* next = nullptr;
      for (Job* job = jobs; job != nullptr; job = job->following) {
        if (!job->WantsWorker()) continue;
        if (next == nullptr || job->workers.load(std::memory_order_relaxed) <
                                   next->workers.load(std::memory_order_relaxed)) {
          next = job;
        }
      }
      if (next != nullptr) {
        next->workers.fetch_add(1, std::memory_order_relaxed);
        return next;
      }
    }
    team.idle.fetch_or(bit);
    // A job that was listed in between may not have seen it idle.
    if (listings.load() == seen) return nullptr;
    if ((team.idle.fetch_and(~bit) & bit) == 0) return nullptr;  // it has a job already
  }
}

// From here on workers that become free come to the job; those that did just before it takes.
void ThreadPool::State::List(Job* job) {
  const std::lock_guard guard(lock);
  job->following = jobs;
  jobs = job;
  waiting.fetch_add(1);
  listings.fetch_add(1);
  HandOut(job, job->most_workers - job->workers.load(std::memory_order_relaxed));
}

void ThreadPool::State::Leave(Job* job) {
  if (job->workers.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // `job` may be gone from here on.
  finished.fetch_add(1);
  finished.notify_all();
}

// From workers that have not begun with it: they sleep, or the system runs something else.
void ThreadPool::State::TakeBack(Job* job) {
  EachWorker([&](Team& team, Worker& worker, int place) {
    Job* expected = job;
    if (worker.job.load(std::memory_order_relaxed) != job ||
        !worker.job.compare_exchange_strong(expected, nullptr)) {
      return;
    }
    job->workers.fetch_sub(1, std::memory_order_relaxed);
    if (Job* next = Free(team, place)) {
      worker.job.store(next);
      order.fetch_add(1);
      if (WakeUp(worker)) AfterWaking();
    }
  });
}

void ThreadPool::State::Withdraw(Job* job, bool is_listed) {
  if (is_listed) {
    const std::lock_guard guard(lock);
    // Not an assertion that it is listed: in a child forked by a task the list is empty.
    for (Job** link = &jobs; *link != nullptr; link = &(*link)->following) {
      if (*link != job) continue;
      *link = job->following;
      waiting.fetch_sub(1);
      break;
    }
  }
  const auto all_left = [job] { return job->workers.load(std::memory_order_acquire) == 0; };
  if (SpinUntil(processors, kGrace, all_left)) return;
  TakeBack(job);
  while (!SpinUntil(processors, kCallerSpin, all_left)) {
    const uint32_t seen = finished.load();
    if (all_left()) break;
    finished.wait(seen);
  }
}

namespace {

#ifdef __unix__
// All pools, so that a forked child can give each a fresh state: threads do not survive a fork, and
// what they had locked would stay locked.
struct Registry {
  std::mutex mutex;
  std::vector<std::pair<const void*, void (*)(const void*)>> pools;

  static Registry& Get() {
    static Registry* registry = [] {
      auto* made = new Registry;  // never destroyed: a process may fork in its last moments
      pthread_atfork([] { Get().mutex.lock(); }, [] { Get().mutex.unlock(); },
                     [] {
                       running.store(0);
                       for (const auto& [state, renew] : Get().pools) renew(state);
                       Get().mutex.unlock();
                     });
      return made;
    }();
    return *registry;
  }
};
#endif

}  // namespace

ThreadPool::ThreadPool() : state_(std::make_unique<State>()) {
#ifdef __unix__
  Registry& registry = Registry::Get();
  const std::lock_guard guard(registry.mutex);
  registry.pools.emplace_back(state_.get(), [](const void* state) {
    // In place and without the destructor, which would wait for threads that do not exist here.
    new (const_cast<void*>(state)) State;
  });
#endif
}

ThreadPool::~ThreadPool() {
#ifdef __unix__
  {
    Registry& registry = Registry::Get();
    const std::lock_guard guard(registry.mutex);
    std::erase_if(registry.pools,
                  [this](const auto& entry) { return entry.first == state_.get(); });
  }
#endif
  state_->stop.store(true);
  state_->order.fetch_add(1);
  state_->EachWorker([this](Team&, Worker& worker, int) { state_->WakeUp(worker); });
  for (std::thread& thread : state_->threads) thread.join();
}

ThreadPool& ThreadPool::Process() {
  // Never destroyed: sessions may still run while the process ends.
  static ThreadPool* pool = new ThreadPool;
  return *pool;
}

int ThreadPool::AvailableThreads() {
  const int affinity = AffinityProcessors();
  const int quota = CgroupProcessors();
  return quota > 0 ? std::min(affinity, quota) : affinity;
}

void ThreadPool::ParallelFor(int64_t tasks, int max_threads, TaskRef body) {
  const int64_t threads =
      std::min({tasks, static_cast<int64_t>(max_threads), int64_t{kMostWorkers} + 1});
  if (threads <= 1) {
    for (int64_t i = 0; i < tasks; ++i) body(i);
    return;
  }
  const int most_workers = static_cast<int>(threads) - 1;
  if (state_->started.load(std::memory_order_acquire) < most_workers) state_->Start(most_workers);
  const Running counted;
  Job job(body, tasks, static_cast<int>(threads));
  int missing = most_workers - state_->HandOut(&job, most_workers);
  if (missing > 0) {
    // Others use this pool as well: workers for all, as long as there are processors for them.
    const int has = state_->started.load(std::memory_order_relaxed);
    const int wanted = std::min({has + missing, state_->processors - 1, kMostWorkers});
    if (wanted > has) {
      state_->Start(wanted);
      missing -= state_->HandOut(&job, missing);
    }
  }
  if (missing > 0) state_->List(&job);
  job.Work(0);
  state_->Withdraw(&job, missing > 0);
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace sardonyx
