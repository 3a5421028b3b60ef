// What the machine itself can do: the limits that models are compared with.
//   Arithmetic: float32 operations a second on data in the first-level cache, by thread.
//   Reading: bytes a second that threads read from memory, each its part of a large block.

#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "kernel_bench.h"

namespace sardonyx {
namespace {

void Arithmetic(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(PeakFlops());
  state.counters["per_second"] = PeakFlops() * static_cast<double>(state.range(0));
}
BENCHMARK(Arithmetic)->ArgName("threads")->RangeMultiplier(2)->Range(1, 64)->Iterations(1);

void Reading(benchmark::State& state) {
  constexpr int64_t kPart = int64_t{1} << 17, kParts = 256;  // 256 MiB
  constexpr size_t kBytes = kPart * kParts * sizeof(uint64_t);
  const std::unique_ptr<void, decltype(&std::free)> memory(
      std::aligned_alloc(size_t{2} << 20, kBytes), &std::free);
  madvise(memory.get(), kBytes, MADV_HUGEPAGE);  // as weights are kept: see ir/tensor.cc
  uint64_t* const block = static_cast<uint64_t*>(memory.get());
  std::fill_n(block, kPart * kParts, 1);
  std::vector<uint64_t> sums(kParts);
  const Parallel parallel = Threads(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    parallel.For(kParts, [&](int64_t part) {
      const uint64_t* const end = block + (part + 1) * kPart;
      uint64_t sum = 0;
      for (const uint64_t* line = end - kPart; line < end; line += 8) {
        sum += line[0] ^ line[1] ^ line[2] ^ line[3] ^ line[4] ^ line[5] ^ line[6] ^ line[7];
      }
      sums[part] += sum;
    });
    benchmark::DoNotOptimize(sums.data());
  }
  state.counters["per_second"] =
      benchmark::Counter(static_cast<double>(kBytes) * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
}
BENCHMARK(Reading)->ArgName("threads")->RangeMultiplier(2)->Range(1, 64)->UseRealTime();

}  // namespace
}  // namespace sardonyx
