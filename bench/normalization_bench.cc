// GB/s of the input once and the output once.

#include "kernels/normalization.h"

#include <benchmark/benchmark.h>

#include <vector>

#include "kernels/rotary.h"

namespace sardonyx {
namespace {

template <typename T>
void LayerNorm(benchmark::State& state) {
  const int64_t rows = state.range(0), n = state.range(1);
  std::vector<T> x(rows * n, 0.5), y(x.size()), scale(n, 1), bias(n, 0.5);
  for (auto _ : state) {
    NormalizeRows(RowNorm<T>{x.data(), scale.data(), bias.data(), y.data(), rows, n, T(1e-5)},
                  Parallel{});
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * rows * n * 2 * static_cast<int64_t>(sizeof(T)));
}
BENCHMARK(LayerNorm<float>)->Args({128, 768})->Args({197, 384})->Args({3136, 96})->Args({1, 768});
BENCHMARK(LayerNorm<double>)->Args({128, 768});

void RotaryRows(benchmark::State& state) {
  const int64_t rows = state.range(0), features = state.range(1);
  std::vector<float> x(rows * features, 0.5f), y(x.size()), angles(x.size(), 0.5f);
  const RotaryShape shape{
      1, 1, rows, features, features, false, {0, 0, features / 2}, {0, 0, features / 2}};
  for (auto _ : state) {
    Rotate(shape, x.data(), angles.data(), angles.data(), y.data(), Parallel{});
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * rows * features * 8);
}
BENCHMARK(RotaryRows)->Args({1024, 64})->Args({1024, 128});

}  // namespace
}  // namespace sardonyx
