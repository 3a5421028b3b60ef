// What the machine itself can do: the limits that models are compared with.
//   Arithmetic, Bytes: operations a second on data in the first-level cache, of float32 and of
//   bytes that are summed in int32, by threads.
//   Reading: bytes a second that threads read from memory, each its part of a large block.
//   SmallSteps, LargeSteps: bytes a second where each thread reads 512 KiB or 4 MiB again and
//   again, as the steps of a recurrent cell read its weights.

#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/huge_page.h"
#include "kernel_bench.h"

namespace sardonyx {
namespace {

void Arithmetic(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(PeakFlops());
  state.counters["per_second"] = PeakFlops() * static_cast<double>(state.range(0));
}
void Bytes(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(PeakByteOperations());
  state.counters["per_second"] = PeakByteOperations() * static_cast<double>(state.range(0));
}
BENCHMARK(Bytes)->ArgName("threads")->RangeMultiplier(2)->Range(1, 64)->Iterations(1);
BENCHMARK(Arithmetic)->ArgName("threads")->RangeMultiplier(2)->Range(1, 64)->Iterations(1);

// Threads read `parts` parts of so many KiB, each `turns` times: a word of each line, which moves
// all of it.
void Read(benchmark::State& state, int64_t parts, int64_t kib, int turns) {
  const int64_t words = kib * 128;
  const size_t bytes = static_cast<size_t>(words * parts) * sizeof(uint64_t);
  const std::unique_ptr<void, decltype(&std::free)> memory(
      std::aligned_alloc(kHugePage, (bytes + kHugePage - 1) / kHugePage * kHugePage), &std::free);
  madvise(memory.get(), bytes, MADV_HUGEPAGE);  // as weights are kept: see ir/tensor.cc
  uint64_t* const block = static_cast<uint64_t*>(memory.get());
  std::fill_n(block, words * parts, 1);
  std::vector<uint64_t> sums(parts);
  const Parallel parallel = Threads(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    parallel.For(parts, [&](int64_t part) {
      uint64_t sum = 0;
      for (int turn = 0; turn < turns; ++turn) {
        const uint64_t* const end = block + (part + 1) * words;
        for (const uint64_t* line = end - words; line < end; line += 8) sum += *line;
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

}  // namespace
}  // namespace sardonyx
