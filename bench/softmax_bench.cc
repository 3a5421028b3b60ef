// Elements a second, and GB/s of the input once and the output once.

#include "kernels/softmax.h"

#include <benchmark/benchmark.h>

#include <vector>

namespace sardonyx {
namespace {

void SoftmaxOver(benchmark::State& state) {
  const int64_t outer = state.range(0), n = state.range(1), inner = state.range(2);
  std::vector<float> x(outer * n * inner, 0.5f), y(x.size());
  for (auto _ : state) {
    Softmax(x.data(), y.data(), outer, n, inner, false, Parallel{});
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(x.size()));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(x.size()) * 8);
}
BENCHMARK(SoftmaxOver)
    ->Args({12 * 128, 128, 1})
    ->Args({12 * 197, 197, 1})
    ->Args({40, 6625, 1})
    ->Args({1, 1000, 1})
    ->Args({4096, 10, 1})
    ->Args({1, 21, 128 * 128});

}  // namespace
}  // namespace sardonyx
