// GB/s of the input once and the output once.

#include "kernels/normalization.h"

#include <benchmark/benchmark.h>

#include <cstddef>
#include <vector>

#include "kernels/group_moments.h"
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

// GB/s of the input alone.
void MomentsOfGroups(benchmark::State& state) {
  const int64_t pixels = state.range(0), channels = state.range(1), groups = state.range(2);
  std::vector<float> x(pixels * channels, 0.5f), mean(channels), factor(channels);
  std::vector<std::byte> scratch(GroupMomentsScratchBytes(1, pixels, channels, groups, 1));
  for (auto _ : state) {
    GroupMoments(GroupMomentsArgs<float>{.x = x.data(),
                                         .scale = nullptr,
                                         .mean = mean.data(),
                                         .factor = factor.data(),
                                         .batch = 1,
                                         .pixels = pixels,
                                         .channels = channels,
                                         .groups = groups,
                                         .epsilon = 1e-5},
                 scratch.data(), Parallel{});
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * pixels * channels * 4);
}
BENCHMARK(MomentsOfGroups)->Args({65536, 64, 32})->Args({1024, 256, 32})->Args({4096, 96, 96});

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
