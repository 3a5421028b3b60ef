// What the machine itself can do: the limits that models are compared with.
//   Arithmetic, Bytes: operations a second, of float32 in registers and of bytes in the first-level
//   cache that are summed in int32, by threads at once.
//   Reading: bytes a second that threads read from memory, each its part of a large block, as
//   several streams.
//   Rested: the same of a thread and 1 MiB, behind so many milliseconds in which it multiplied:
//   caches and memory that serve nobody slow down, and find a layer's weights so.
//   SmallSteps, LargeSteps: bytes a second where each thread reads 512 KiB or 4 MiB again and
//   again, as the steps of a recurrent cell read its weights.
//   HandOver: how often a second a line goes from the cache of one thread's processor to the
//   next's.

#include <benchmark/benchmark.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "base/huge_page.h"
#include "kernel_bench.h"

namespace sardonyx {
namespace {

// What so many threads reach together, each with its own data.
void AtOnce(benchmark::State& state, double (*rate)(Often)) {
  ApplyTargetFromEnvironment();
  const int64_t threads = state.range(0);
  std::vector<double> rates(threads);
  for (auto _ : state) {
    std::barrier all_began(threads);
    std::vector<std::jthread> running;
    for (double& of_one : rates) {
      running.emplace_back([&] {
        all_began.arrive_and_wait();
        of_one = rate(Often::kMostly);
      });
    }
  }
  state.counters["per_second"] = std::accumulate(rates.begin(), rates.end(), 0.0);
}
void Arithmetic(benchmark::State& state) { AtOnce(state, RateOfFlops); }
void Bytes(benchmark::State& state) { AtOnce(state, RateOfByteOperations); }
BENCHMARK(Arithmetic)->ArgName("threads")->RangeMultiplier(2)->Range(1, 64)->Iterations(1);
BENCHMARK(Bytes)->ArgName("threads")->RangeMultiplier(2)->Range(1, 64)->Iterations(1);

using Block = std::unique_ptr<uint64_t, decltype(&std::free)>;

// Words in huge pages, as weights are kept: see ir/lasting_tensor.cc.
Block Words(int64_t count) {
  const size_t bytes = static_cast<size_t>(count) * sizeof(uint64_t);
  Block block(static_cast<uint64_t*>(
                  std::aligned_alloc(kHugePage, (bytes + kHugePage - 1) / kHugePage * kHugePage)),
              &std::free);
  madvise(block.get(), bytes, MADV_HUGEPAGE);
  std::fill_n(block.get(), count, 1);
  return block;
}

// A word of each line, which moves all of it: of four streams side by side, which memory gives
// faster than one.
uint64_t SumLines(const uint64_t* from, int64_t words) {
  const int64_t apart = words / 4;
  uint64_t sum = 0;
  for (const uint64_t* line = from; line < from + apart; line += 8) {
    sum += line[0] + line[apart] + line[2 * apart] + line[3 * apart];
  }
  return sum;
}

// Threads read `parts` parts of so many KiB, each `turns` times.
void Read(benchmark::State& state, int64_t parts, int64_t kib, int turns) {
  const int64_t words = kib * 128;
  const size_t bytes = static_cast<size_t>(words * parts) * sizeof(uint64_t);
  const Block block = Words(words * parts);
  std::vector<uint64_t> sums(parts);
  const Parallel parallel = Threads(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    parallel.For(parts, [&](int64_t part) {
      uint64_t sum = 0;
      for (int turn = 0; turn < turns; ++turn) {
        sum += SumLines(block.get() + part * words, words);
        benchmark::ClobberMemory();
      }
      sums[part] += sum;
    });
    benchmark::DoNotOptimize(sums.data());
  }
  state.counters["per_second"] = benchmark::Counter(
      static_cast<double>(bytes) * turns * static_cast<double>(state.iterations()),
      benchmark::Counter::kIsRate);
}
void Reading(benchmark::State& state) { Read(state, 256, 1024, 1); }
void SmallSteps(benchmark::State& state) { Read(state, state.range(0), 512, 64); }
void LargeSteps(benchmark::State& state) { Read(state, state.range(0), 4096, 8); }
BENCHMARK(Reading)->ArgName("threads")->RangeMultiplier(2)->Range(1, 64)->UseRealTime();
BENCHMARK(SmallSteps)->ArgName("threads")->RangeMultiplier(2)->Range(1, 64)->UseRealTime();
BENCHMARK(LargeSteps)->ArgName("threads")->RangeMultiplier(2)->Range(1, 64)->UseRealTime();

void Rested(benchmark::State& state) {
  ApplyTargetFromEnvironment();
  constexpr int64_t kPart = 1 << 17, kParts = 32;
  const Block block = Words(kPart * kParts);
  // Memory is awake when the first turn begins; behind no rest it stays so.
  for (int turn = 0; turn < 100; ++turn) {
    benchmark::DoNotOptimize(SumLines(block.get(), kPart * kParts));
  }
  int64_t part = 0;
  for (auto _ : state) {
    const auto rest = std::chrono::milliseconds(state.range(0));
    const auto end = std::chrono::steady_clock::now() + rest;
    while (std::chrono::steady_clock::now() < end) MultiplyAndAdd(100);
    const auto begin = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(SumLines(block.get() + part++ % kParts * kPart, kPart));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    state.SetIterationTime(seconds.count());
  }
  state.counters["per_second"] = benchmark::Counter(
      static_cast<double>(kPart * 8 * state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK(Rested)->ArgName("ms")->Arg(0)->Arg(1)->Arg(5)->Arg(20)->Iterations(64)->UseManualTime();

// Threads on processors of their own pass a number on, each adding one to what the last one wrote.
void HandOver(benchmark::State& state) {
  constexpr int64_t kRounds = 10'000;
  const int64_t threads = state.range(0);
  cpu_set_t allowed;
  sched_getaffinity(0, sizeof(allowed), &allowed);
  if (CPU_COUNT(&allowed) < threads) return state.SkipWithError("fewer processors than threads");
  std::chrono::duration<double> seconds{};
  for (auto _ : state) {
    alignas(64) std::atomic<int64_t> number{-1};
    std::barrier all_began(threads + 1);
    std::vector<std::jthread> running;
    for (int64_t i = 0, cpu = 0; i < threads; ++i, ++cpu) {
      while (!CPU_ISSET(cpu, &allowed)) ++cpu;
      running.emplace_back([&, i, cpu] {
        cpu_set_t own;
        CPU_ZERO(&own);
        CPU_SET(cpu, &own);
        pthread_setaffinity_np(pthread_self(), sizeof(own), &own);
        all_began.arrive_and_wait();
        for (int64_t round = 0; round < kRounds; ++round) {
          const int64_t wanted = round * threads + i - 1;
          while (number.load(std::memory_order_acquire) != wanted) {
          }
          number.store(wanted + 1, std::memory_order_release);
        }
      });
    }
    all_began.arrive_and_wait();
    const auto begin = std::chrono::steady_clock::now();
    running.clear();
    seconds += std::chrono::steady_clock::now() - begin;
  }
  const auto passed = static_cast<double>(kRounds * threads * state.iterations());
  state.counters["per_second"] = passed / seconds.count();
}
BENCHMARK(HandOver)->ArgName("threads")->RangeMultiplier(2)->Range(2, 64)->Iterations(1);

}  // namespace
}  // namespace sardonyx
