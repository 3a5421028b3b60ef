// GB/s of the rows read and written.

#include "kernels/gather.h"

#include <benchmark/benchmark.h>

#include <vector>

namespace sardonyx {
namespace {

void Rows(benchmark::State& state) {
  const int64_t axis = state.range(0), row = state.range(1), count = state.range(2);
  std::vector<float> data(axis * row), out(count * row);
  std::vector<int64_t> indices(count);
  for (int64_t i = 0; i < count; ++i) indices[i] = i * 7919 % axis;
  for (auto _ : state) {
    GatherRows(data.data(), indices.data(), out.data(), 1, axis, row * 4, count, Parallel{});
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * count * row * 8);
}
BENCHMARK(Rows)->Args({30522, 768, 128})->Args({1000, 1, 100000});

}  // namespace
}  // namespace sardonyx
