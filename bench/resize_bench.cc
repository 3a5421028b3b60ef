// GB/s of the output, channels-last.

#include "kernels/resize.h"

#include <benchmark/benchmark.h>

#include <vector>

namespace sardonyx {
namespace {

void Upsample(benchmark::State& state, ResizeMode mode) {
  const int64_t size = state.range(0), channels = state.range(1), factor = state.range(2);
  const ResizeAxis axis = {size, size * factor, static_cast<double>(factor), 0, 1};
  const ResizeAxis axes[] = {axis, axis};
  ResizeOptions options;
  options.mode = mode;
  const ResizePlan plan = PrepareResize(axes, options);
  std::vector<float> x(size * size * channels, 0.5f), y(x.size() * factor * factor);
  std::vector<float> scratch(ResizeScratchBytes(plan, 1, channels) / 4);
  for (auto _ : state) {
    Resize(plan, x.data(), y.data(), 1, channels, scratch.data(), Parallel{});
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(y.size()) * 4);
}
BENCHMARK_CAPTURE(Upsample, nearest, ResizeMode::kNearest)
    ->Args({80, 96, 2})
    ->Args({20, 24, 8})
    ->Args({160, 1, 2});
BENCHMARK_CAPTURE(Upsample, linear, ResizeMode::kLinear)->Args({80, 96, 2})->Args({160, 1, 2});

}  // namespace
}  // namespace sardonyx
