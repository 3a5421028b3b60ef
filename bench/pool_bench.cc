// GB/s of the input once and the output once.

#include "kernels/pool.h"

#include <benchmark/benchmark.h>

#include <vector>

namespace sardonyx {
namespace {

void Pool(benchmark::State& state, bool max) {
  const int64_t size = state.range(0), channels = state.range(1), kernel = state.range(2),
                stride = state.range(3), pad = kernel / 2;
  const int64_t out = (size + 2 * pad - kernel) / stride + 1;
  const PoolShape shape = {1,
                           channels,
                           {1, size, size},
                           {1, out, out},
                           {1, kernel, kernel},
                           {1, stride, stride},
                           {1, 1, 1},
                           {0, pad, pad},
                           {0, pad, pad}};
  std::vector<float> x(size * size * channels, 0.5f), y(out * out * channels);
  for (auto _ : state) {
    if (max) {
      MaxPool<float>(shape, x.data(), y.data(), nullptr, PoolIndexOrder::kRowMajor, Parallel{});
    } else {
      AveragePool<float>(shape, x.data(), y.data(), false, Parallel{});
    }
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 4 * static_cast<int64_t>(x.size() + y.size()));
}
BENCHMARK_CAPTURE(Pool, max, true)
    ->Args({112, 64, 3, 2})
    ->Args({64, 64, 2, 2})
    ->Args({40, 3, 2, 2})
    ->Args({56, 64, 3, 1})
    ->Args({14, 256, 3, 1})
    ->Args({20, 128, 5, 1})
    ->Args({13, 512, 13, 1})
    ->Args({120, 8, 3, 1});
BENCHMARK_CAPTURE(Pool, average, false)
    ->Args({56, 128, 3, 1})
    ->Args({35, 192, 3, 1})
    ->Args({14, 512, 3, 1})
    ->Args({64, 64, 2, 2});

}  // namespace
}  // namespace sardonyx
