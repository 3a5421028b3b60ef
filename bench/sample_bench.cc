// Reading between pixels: GB/s of the taps that are read, and of the columns that are summed.

#include "kernels/sample.h"

#include "kernel_bench.h"
#include "kernels/col2im.h"
#include "kernels/grid_sample.h"

namespace sardonyx {
namespace {

void Grid(benchmark::State& state) {
  const int64_t channels = state.range(0), side = state.range(1);
  const GridSampleShape shape{.batch = 1,
                              .channels = channels,
                              .points = side * side,
                              .rank = 2,
                              .sizes = {side, side, 1},
                              .mode = GridSampleShape::Mode::kLinear,
                              .padding = GridSampleShape::Padding::kZeros,
                              .align_corners = false};
  std::vector<float> x(channels * side * side, 1.0f), grid(side * side * 2), y(x.size());
  for (size_t i = 0; i < grid.size(); ++i) {
    grid[i] = static_cast<float>(i * 7919 % 1000) / 500.0f - 1.0f;
  }
  std::vector<double> scratch(GridSampleScratchBytes<float>(shape, 1) / 8 + 16);
  for (auto _ : state) {
    GridSample(shape, x.data(), grid.data(), y.data(), scratch.data(), Parallel{});
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * channels * side * side * 16);
}
BENCHMARK(Grid)->Args({64, 128})->Args({3, 512});

void Columns(benchmark::State& state) {
  const int64_t images = state.range(0), side = state.range(1);
  const Col2ImAxis axis{side, 3, side, 1, 1, 1};
  std::vector<float> x(images * 9 * side * side, 1.0f), y(images * side * side);
  for (auto _ : state) {
    Col2Im(images, axis, axis, x.data(), y.data(), Parallel{});
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(x.size()) * 4);
}
BENCHMARK(Columns)->Args({32, 64});

}  // namespace
}  // namespace sardonyx
