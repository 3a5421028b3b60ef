// GB/s read plus written by the copies that models make most, beside memcpy of the same size.

#include "kernels/strided_copy.h"

#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

namespace sardonyx {
namespace {

void Report(benchmark::State& state, size_t bytes) {
  state.SetBytesProcessed(state.iterations() * 2 * static_cast<int64_t>(bytes));
}

// [a, b, c] -> [a, c, b], float32.
void Transpose(benchmark::State& state) {
  const int64_t a = state.range(0), b = state.range(1), c = state.range(2);
  std::vector<float> in(a * b * c), out(in.size());
  const int64_t dims[] = {a, c, b}, in_strides[] = {b * c, 1, c}, out_strides[] = {b * c, b, 1};
  const StridedCopyPlan plan = PrepareStridedCopy(dims, in_strides, out_strides, 4);
  for (auto _ : state) {
    StridedCopy(plan, in.data(), out.data(), Parallel{});
    benchmark::ClobberMemory();
  }
  Report(state, in.size() * 4);
}
BENCHMARK(Transpose)
    ->Args({1, 3, 640 * 640})
    ->Args({1, 640 * 640, 3})
    ->Args({1, 256, 56 * 56})
    ->Args({1, 56 * 56, 256})
    ->Args({1, 96, 56 * 56})
    ->Args({8, 64, 64 * 64})
    ->Args({8, 64 * 64, 64})
    ->Args({12, 128, 64})
    ->Args({1, 2048, 2048});

// [s, h, d] -> [h, s, d]: the heads of attention.
void SwapOuter(benchmark::State& state) {
  const int64_t s = state.range(0), h = state.range(1), d = state.range(2);
  std::vector<float> in(s * h * d), out(in.size());
  const int64_t dims[] = {h, s, d}, in_strides[] = {d, h * d, 1}, out_strides[] = {s * d, d, 1};
  const StridedCopyPlan plan = PrepareStridedCopy(dims, in_strides, out_strides, 4);
  for (auto _ : state) {
    StridedCopy(plan, in.data(), out.data(), Parallel{});
    benchmark::ClobberMemory();
  }
  Report(state, in.size() * 4);
}
BENCHMARK(SwapOuter)->Args({128, 12, 64})->Args({128, 96, 8})->Args({4096, 16, 2});

void Memcpy(benchmark::State& state) {
  std::vector<float> in(state.range(0)), out(in.size());
  for (auto _ : state) {
    std::memcpy(out.data(), in.data(), in.size() * 4);
    benchmark::ClobberMemory();
  }
  Report(state, in.size() * 4);
}
BENCHMARK(Memcpy)->Arg(98304)->Arg(802816)->Arg(1228800)->Arg(2097152)->Arg(2048 * 2048);

void Plan(benchmark::State& state) {
  const int64_t dims[] = {2, 12, 128, 64}, in_strides[] = {98304, 64, 768, 1},
                out_strides[] = {98304, 8192, 64, 1};
  for (auto _ : state) {
    benchmark::DoNotOptimize(PrepareStridedCopy(dims, in_strides, out_strides, 4));
  }
}
BENCHMARK(Plan);

}  // namespace
}  // namespace sardonyx
