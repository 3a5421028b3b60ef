// GB/s of the input once and the output once.

#include "kernels/normalization.h"

#include <benchmark/benchmark.h>

#include <vector>

#include "kernels/rotary.h"

namespace sardonyx {
namespace {

void Report(benchmark::State& state, size_t elements) {
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(elements) * 8);
}

void LayerNormRows(benchmark::State& state) {
  const int64_t rows = state.range(0), n = state.range(1);
  std::vector<float> x(rows * n, 0.5f), y(x.size()), scale(n, 1.0f), bias(n, 0.5f);
  for (auto _ : state) {
    LayerNorm(x.data(), scale.data(), bias.data(), y.data(), rows, n, 1e-5f, nullptr, nullptr,
              Parallel{});
    benchmark::ClobberMemory();
  }
  Report(state, x.size());
}
BENCHMARK(LayerNormRows)->Args({128, 768})->Args({197, 384})->Args({3136, 96})->Args({1, 768});

void GroupNormLast(benchmark::State& state) {
  const int64_t spatial = state.range(0), channels = state.range(1), groups = state.range(2);
  std::vector<float> x(spatial * channels, 0.5f), y(x.size()), scale(channels, 1.0f);
  std::vector<float> scratch(GroupNormScratchBytes(1, spatial, channels) / 4);
  for (auto _ : state) {
    GroupNormChannelsLast(x.data(), scale.data(), scale.data(), y.data(), 1, spatial, channels,
                          groups, 1e-5f, scratch.data(), Parallel{});
    benchmark::ClobberMemory();
  }
  Report(state, x.size());
}
BENCHMARK(GroupNormLast)->Args({64 * 64, 320, 32})->Args({128 * 128, 64, 64});

void RotaryRows(benchmark::State& state) {
  const int64_t rows = state.range(0), features = state.range(1);
  std::vector<float> x(rows * features, 0.5f), y(x.size()), angles(x.size(), 0.5f);
  const RotaryShape shape{
      1, 1, rows, features, features, false, {0, 0, features / 2}, {0, 0, features / 2}};
  for (auto _ : state) {
    Rotate(shape, x.data(), angles.data(), angles.data(), y.data(), Parallel{});
    benchmark::ClobberMemory();
  }
  Report(state, x.size());
}
BENCHMARK(RotaryRows)->Args({1024, 64})->Args({1024, 128});

}  // namespace
}  // namespace sardonyx
