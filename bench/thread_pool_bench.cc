// What it costs to share work between threads. Arguments: threads, which have a task each, and
// nanoseconds of a task. `over_us`: the time beyond that of one task, in steps one after the other,
// as a model's are.

#include <algorithm>
#include <array>
#include <chrono>

#include "kernel_bench.h"

namespace sardonyx {
namespace {

// Dependent multiplications, which take the same time wherever they run.
float Work(int64_t count) {
  float x = 1;
  for (int64_t i = 0; i < count; ++i) benchmark::DoNotOptimize(x *= 0.999f);
  return x;
}

double Nanoseconds(int64_t count) {
  std::array<double, 101> samples;
  for (double& sample : samples) {
    const auto begin = std::chrono::steady_clock::now();
    Work(count);
    sample =
        std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
  }
  std::nth_element(samples.begin(), samples.begin() + 50, samples.end());
  return samples[50];
}

void BM_ParallelFor(benchmark::State& state) {
  const Parallel par = Threads(static_cast<int>(state.range(0)));
  if (par.threads > ThreadPool::AvailableThreads()) {
    return state.SkipWithError("fewer processors than threads");
  }
  constexpr int64_t kMany = 10'000;
  const auto count = static_cast<int64_t>(static_cast<double>(state.range(1)) * kMany /
                                          std::max(Nanoseconds(kMany), 1.0));
  const double task = Nanoseconds(count);
  const auto begin = std::chrono::steady_clock::now();
  for (auto _ : state) par.For(par.threads, [&](int64_t) { Work(count); });
  const double all =
      std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
  state.counters["over_us"] =
      1e-3 * (all / static_cast<double>(std::max<int64_t>(state.iterations(), 1)) - task);
}
BENCHMARK(BM_ParallelFor)
    ->ArgNames({"threads", "ns"})
    ->ArgsProduct({{1, 2, 4, 8, 16}, {1000, 3000, 10'000, 100'000}})
    ->UseRealTime();

}  // namespace
}  // namespace sardonyx
