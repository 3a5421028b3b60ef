#include "kernels/slices.h"

#include <atomic>

#include "base/thread_pool.h"

namespace sardonyx {

namespace {

std::atomic<int> task_processors{0};  // 0: not asked yet

}  // namespace

int TaskProcessors() {
  int processors = task_processors.load(std::memory_order_relaxed);
  if (processors == 0) {
    processors = ThreadPool::AvailableThreads();
    task_processors.store(processors, std::memory_order_relaxed);
  }
  return processors;
}

void SetTaskProcessorsForTest(int processors) {
  task_processors.store(processors, std::memory_order_relaxed);
}

}  // namespace sardonyx
