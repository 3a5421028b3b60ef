// GB/s of the input.

#include "kernels/reduce.h"

#include <benchmark/benchmark.h>

#include <vector>

namespace sardonyx {
namespace {

void ReduceOver(benchmark::State& state) {
  const auto kind = static_cast<ReduceKind>(state.range(0));
  const ReduceShape shape = {state.range(1), state.range(2), state.range(3), 1};
  std::vector<float> x(shape.outer * shape.reduced * shape.inner, 0.5f);
  std::vector<float> y(shape.outer * shape.inner);
  for (auto _ : state) {
    Reduce(kind, x.data(), y.data(), shape, Parallel{});
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(x.size()) * 4);
}
BENCHMARK(ReduceOver)
    ->Args({static_cast<int>(ReduceKind::kMean), 1, 49, 2048})
    ->Args({static_cast<int>(ReduceKind::kMean), 1, 56 * 56, 96})
    ->Args({static_cast<int>(ReduceKind::kMean), 128, 768, 1})
    ->Args({static_cast<int>(ReduceKind::kSum), 1, 1 << 20, 1})
    ->Args({static_cast<int>(ReduceKind::kMax), 128, 768, 1})
    ->Args({static_cast<int>(ReduceKind::kMax), 1, 49, 2048})
    ->Args({static_cast<int>(ReduceKind::kMean), 1, 4096, 4096})
    ->Args({static_cast<int>(ReduceKind::kMax), 1, 4096, 4096})
    ->Args({static_cast<int>(ReduceKind::kMean), 4, 2048, 1024})
    ->Args({static_cast<int>(ReduceKind::kMean), 1, 50000, 1024})
    ->Args({static_cast<int>(ReduceKind::kMean), 4096, 4096, 1})
    ->Args({static_cast<int>(ReduceKind::kLogSumExp), 128, 768, 1});

void ArgMax(benchmark::State& state) {
  const int64_t outer = state.range(0), n = state.range(1), inner = state.range(2);
  std::vector<float> x(outer * n * inner, 0.5f);
  for (int64_t i = 0; i < outer; ++i) x[(i * n + n / 2) * inner] = 1.0f;
  std::vector<int64_t> y(outer * inner);
  for (auto _ : state) {
    ArgReduce(true, false, x.data(), y.data(), outer, n, inner, Parallel{});
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(x.size()) * 4);
}
BENCHMARK(ArgMax)
    ->Args({40, 6625, 1})
    ->Args({1, 50257, 1})
    ->Args({1, 21, 65536})
    ->Args({1, 4096, 4096});

}  // namespace
}  // namespace sardonyx
