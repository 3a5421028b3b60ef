#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/processors.h"

namespace sardonyx {
namespace {

TEST(ThreadPool, RunsEachTaskOnce) {
  ThreadPool pool;
  for (const int threads : {1, 2, 3, 8, 200}) {  // more than a team
    for (const int tasks : {0, 1, 2, 7, 1000}) {
      std::vector<int> runs(tasks, 0);
      pool.ParallelFor(tasks, threads, [&](int64_t task) { ++runs[task]; });
      EXPECT_EQ(std::count(runs.begin(), runs.end(), 1), tasks);
    }
  }
}

TEST(ThreadPool, ManyShortCalls) {
  ThreadPool pool;
  int64_t sums[2] = {0, 0};
  for (int i = 0; i < 20000; ++i) pool.ParallelFor(2, 2, [&](int64_t task) { sums[task] += i; });
  EXPECT_EQ(sums[0], 199990000);
  EXPECT_EQ(sums[1], 199990000);
}

TEST(ThreadPool, NeverUsesMoreThreadsThanAllowed) {
  ThreadPool pool;
  pool.ParallelFor(64, 6, [](int64_t) {});
  std::atomic<int> now{0};
  std::atomic<int> most{0};
  pool.ParallelFor(40, 3, [&](int64_t) {
    const int count = ++now;
    for (int seen = most.load(); seen < count && !most.compare_exchange_weak(seen, count);) {
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    --now;
  });
  EXPECT_LE(most.load(), 3);
}

TEST(ThreadPool, EachThreadBeginsWithItsShare) {
  ThreadPool pool;
  std::atomic<int64_t> other{-1};
  const auto caller = std::this_thread::get_id();
  pool.ParallelFor(8, 2, [&](int64_t task) {
    if (std::this_thread::get_id() == caller) {
      while (other.load() < 0) std::this_thread::yield();
    } else if (other.load() < 0) {
      other.store(task);
    }
  });
  EXPECT_EQ(other.load(), 4);
}

TEST(ThreadPool, NestedCalls) {
  ThreadPool pool;
  std::atomic<int> count{0};
  pool.ParallelFor(5, 3, [&](int64_t) {
    pool.ParallelFor(7, 3, [&](int64_t) { pool.ParallelFor(3, 2, [&](int64_t) { ++count; }); });
  });
  EXPECT_EQ(count.load(), 105);
}

TEST(ThreadPool, ManyCallers) {
  ThreadPool pool;
  std::vector<int64_t> sums(6, 0);
  std::vector<std::thread> callers;
  for (size_t caller = 0; caller < sums.size(); ++caller) {
    callers.emplace_back([&, caller] {
      for (int i = 0; i < 500; ++i) {
        int64_t values[9] = {};
        pool.ParallelFor(9, 3, [&](int64_t task) { values[task] = task; });
        sums[caller] += std::accumulate(values, values + 9, int64_t{0});
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const int64_t sum : sums) EXPECT_EQ(sum, 500 * 36);
}

TEST(ThreadPool, ManyCallersOfManyThreads) {
  ThreadPool pool;
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&, caller] {
      for (int i = 0; i < 50; ++i) {
        // Some find all workers idle, some find none, and some leave them asleep.
        if (i % 10 == caller) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        pool.ParallelFor(100, 70, [&](int64_t task) { sum += task; });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum.load(), 4 * 50 * 4950);
}

TEST(ThreadPool, RethrowsAndGoesOn) {
  ThreadPool pool;
  for (int i = 0; i < 100; ++i) {
    EXPECT_THROW(pool.ParallelFor(8, 2,
                                  [](int64_t task) {
                                    if (task == 3) throw std::runtime_error("third");
                                  }),
                 std::runtime_error);
  }
  std::atomic<int> count{0};
  pool.ParallelFor(8, 2, [&](int64_t) { ++count; });
  EXPECT_EQ(count.load(), 8);
}

TEST(ThreadPool, WakesSleepers) {
  ThreadPool pool;
  for (int i = 0; i < 20; ++i) {
    std::atomic<int> count{0};
    pool.ParallelFor(16, 4, [&](int64_t) { ++count; });
    EXPECT_EQ(count.load(), 16);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

// The sanitizer does not follow threads that start after a fork.
#ifndef __SANITIZE_THREAD__
TEST(ThreadPool, SurvivesFork) {
  ThreadPool pool;
  pool.ParallelFor(4, 2, [](int64_t) {});
  std::atomic<bool> stop{false};
  std::thread other([&] {  // holds the pool's locks at some of the forks
    while (!stop) pool.ParallelFor(4, 2, [](int64_t) {});
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      std::atomic<int> count{0};
      for (int j = 0; j < 10; ++j) pool.ParallelFor(5, 2, [&](int64_t) { ++count; });
      _exit(count.load() == 50 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  stop = true;
  other.join();
}
#endif

TEST(Processors, AtLeastOne) {
  EXPECT_GE(AffinityProcessors(), 1);
  EXPECT_GE(ThreadPool::AvailableThreads(), 1);
  EXPECT_LE(ThreadPool::AvailableThreads(), AffinityProcessors());
}

class Cgroup : public testing::Test {
 protected:
  Cgroup() : root_(testing::TempDir() + "cgroup_test_" + std::to_string(getpid())) {}
  ~Cgroup() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = root_ + "/" + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  int Read() { return CgroupProcessors(root_ + "/proc", root_ + "/sys"); }
  const std::string root_;
};

TEST_F(Cgroup, NoFilesNoLimit) { EXPECT_EQ(Read(), 0); }

TEST_F(Cgroup, Version2TakesTightestAncestor) {
  Write("proc/self/cgroup", "0::/a/b\n");
  Write("sys/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(Read(), 0);
  Write("sys/a/cpu.max", "250000 100000\n");
  EXPECT_EQ(Read(), 3);
  Write("sys/cpu.max", "50000 100000\n");
  EXPECT_EQ(Read(), 1);
}

TEST_F(Cgroup, Version1) {
  Write("proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/host/path\n");
  Write("sys/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  Write("sys/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Read(), 0);
  Write("sys/cpu,cpuacct/cpu.cfs_quota_us", "400000\n");
  EXPECT_EQ(Read(), 4);
}

}  // namespace
}  // namespace sardonyx
