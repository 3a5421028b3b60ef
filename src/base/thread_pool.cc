#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
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
// that sleeps costs 5 to 50: workers stay awake about as long as a wake-up may cost.
constexpr std::chrono::microseconds kWorkerSpin{60};
constexpr std::chrono::microseconds kCallerSpin{100};
constexpr int kMostWorkers = 1023;
constexpr int kMostShares = 16;

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
  Running() { running.fetch_add(1, std::memory_order_relaxed); }
  ~Running() { running.fetch_sub(1, std::memory_order_relaxed); }
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

  bool Take(int64_t* task) {
    *task = next.fetch_add(1, std::memory_order_relaxed);
    return *task < end;
  }
};

// One ParallelFor. It lives on its caller's stack: workers join under the pool's lock while it is
// listed, and the caller returns only after all that joined have left.
struct Job {
  TaskRef body;
  int most_workers;
  int share_count;
  Job* following = nullptr;
  std::exception_ptr error;  // guarded by error_lock
  SpinLock error_lock;
  Share shares[kMostShares];
  alignas(64) std::atomic<int> workers{0};

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

}  // namespace

struct ThreadPool::State {
  SpinLock lock;
  Job* jobs = nullptr;  // guarded by lock
  std::atomic<bool> stop{false};
  std::atomic<int> spinning{0};
  std::atomic<int> sleeping{0};
  std::atomic<int> started{0};
  std::atomic<int> caller_processor{-1};  // of the last job that woke workers
  int processors = 1;
  std::mutex start_mutex;
  std::vector<std::thread> workers;  // guarded by start_mutex
  // Counts what a sleeper may wait for: new jobs, and jobs whose last worker left.
  alignas(64) std::atomic<uint32_t> posted{0};
  alignas(64) std::atomic<uint32_t> finished{0};

  void Start(int wanted);
  void WorkerLoop(int thread);
  Job* Join();
  void Leave(Job* job);
  void Post(Job* job);
  void Withdraw(Job* job);
  void Wake(int count);
};

void ThreadPool::State::Start(int wanted) {
  const std::lock_guard guard(start_mutex);
  if (workers.empty()) processors = AvailableThreads();
  while (static_cast<int>(workers.size()) < wanted) {
    try {
      workers.emplace_back(
          [this, thread = static_cast<int>(workers.size()) + 1] { WorkerLoop(thread); });
    } catch (const std::system_error&) {
      break;  // the system grants no more threads: the caller does the work with those there are
    }
  }
  // Also after a refusal, so that each later call does not ask again.
  started.store(wanted, std::memory_order_release);
}

// Wakes `count` sleeping workers, fewer if fewer sleep.
void ThreadPool::State::Wake(int count) {
  if (count <= 0 || sleeping.load() == 0) return;
  caller_processor.store(CurrentProcessor(), std::memory_order_relaxed);
  if (count > 2) {
    posted.notify_all();
  } else {
    for (int i = 0; i < count; ++i) posted.notify_one();
  }
  // A worker that was put behind this thread (see WorkerLoop) runs now, and moves.
  if (!Crowded(processors)) std::this_thread::yield();
}

Job* ThreadPool::State::Join() {
  Job* mine = nullptr;
  bool more = false;
  {
    const std::lock_guard guard(lock);
    // The job with the fewest workers, so that callers at the same time share them evenly.
    for (Job* job = jobs; job != nullptr; job = job->following) {
      if (!job->WantsWorker()) continue;
      more |= mine != nullptr;
      if (mine == nullptr || job->workers.load(std::memory_order_relaxed) <
                                 mine->workers.load(std::memory_order_relaxed)) {
        mine = job;
      }
    }
    if (mine != nullptr) mine->workers.fetch_add(1, std::memory_order_relaxed);
  }
  if (more && spinning.load() == 0) Wake(1);
  return mine;
}

void ThreadPool::State::Leave(Job* job) {
  if (job->workers.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // `job` may be gone from here on.
  finished.fetch_add(1);
  finished.notify_all();
}

void ThreadPool::State::Post(Job* job) {
  {
    const std::lock_guard guard(lock);
    job->following = jobs;
    jobs = job;
  }
  posted.fetch_add(1);
  // A spinner that is about to sleep sees that `posted` changed.
  Wake(job->most_workers - spinning.load());
}

void ThreadPool::State::Withdraw(Job* job) {
  {
    const std::lock_guard guard(lock);
    // Not an assertion that it is listed: in a child forked by a task the list is empty.
    for (Job** link = &jobs; *link != nullptr; link = &(*link)->following) {
      if (*link != job) continue;
      *link = job->following;
      break;
    }
  }
  const auto all_left = [job] { return job->workers.load(std::memory_order_acquire) == 0; };
  while (!SpinUntil(processors, kCallerSpin, all_left)) {
    const uint32_t seen = finished.load();
    if (all_left()) break;
    finished.wait(seen);
  }
}

void ThreadPool::State::WorkerLoop(int thread) {
  while (true) {
    const uint32_t seen = posted.load();
    {
      const Running counted;
      while (Job* job = Join()) {
        job->Work(thread);
        Leave(job);
      }
      if (stop.load()) return;
      spinning.fetch_add(1);
      const bool changed =
          SpinUntil(processors, kWorkerSpin, [&] { return posted.load() != seen; });
      spinning.fetch_sub(1);
      if (changed) continue;
    }
    sleeping.fetch_add(1);
    posted.wait(seen);
    sleeping.fetch_sub(1);
    // Virtual machines may wake a worker behind its caller although another processor idles, and
    // as it never runs for long there, the system leaves it for hundreds of jobs.
    const int processor = Crowded(processors) ? -1 : CurrentProcessor();
    if (processor >= 0 && processor == caller_processor.load(std::memory_order_relaxed)) {
      LeaveProcessor(processor);
    }
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
  state_->posted.fetch_add(1);
  state_->posted.notify_all();
  for (std::thread& worker : state_->workers) worker.join();
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
  state_->Post(&job);
  job.Work(0);
  state_->Withdraw(&job);
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace sardonyx
