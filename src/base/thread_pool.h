#pragma once
// One pool of worker threads a process, shared by all sessions.

#include <cstdint>
#include <memory>
#include <type_traits>

namespace sardonyx {

// Non-owning reference to a callable `void(int64_t task)`; it must outlive the call it is given to.
class TaskRef {
 public:
  template <typename Body>
    requires(!std::is_same_v<std::remove_cvref_t<Body>, TaskRef>)
  TaskRef(Body&& body)  // NOLINT: implicit by purpose
      : object_(const_cast<void*>(static_cast<const void*>(&body))),
        call_([](void* object, int64_t task) {
          (*static_cast<std::remove_reference_t<Body>*>(object))(task);
        }) {}
  void operator()(int64_t task) const { call_(object_, task); }

 private:
  void* object_;
  void (*call_)(void*, int64_t);
};

class ThreadPool {
 public:
  // Threads are not started before the first ParallelFor that wants them.
  ThreadPool();
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // The pool that sessions share.
  static ThreadPool& Process();

  // Processors that this process may really use: the least of the affinity mask and the container's
  // CPU quota, at least 1.
  static int AvailableThreads();

  // Runs body(0) ... body(tasks - 1), each once, on at most `max_threads` threads including the
  // caller's, and returns when all are done. Which thread runs a task is not determined, so a task
  // must not depend on it. Nested calls and calls from several threads are allowed. An exception of
  // a task is rethrown here after the running ones ended; those not begun are then left out.
  // Allocates nothing once the threads run.
  void ParallelFor(int64_t tasks, int max_threads, TaskRef body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A pool together with the number of threads a caller may take from it. Kernels see this alone.
struct Parallel {
  ThreadPool* pool = nullptr;
  int threads = 1;

  void For(int64_t tasks, TaskRef body) const {
    if (threads <= 1 || tasks <= 1 || pool == nullptr) {
      for (int64_t i = 0; i < tasks; ++i) body(i);
    } else {
      pool->ParallelFor(tasks, threads, body);
    }
  }
};

}  // namespace sardonyx
