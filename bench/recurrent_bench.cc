// GFLOP/s of the two matrix products.

#include "kernels/recurrent.h"

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "kernels/targets.h"

namespace sardonyx {
namespace {

struct Free {
  void operator()(float* p) const { std::free(p); }
};
std::unique_ptr<float, Free> Buffer(size_t bytes) {
  auto* p = static_cast<float*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64 + 64));
  for (size_t i = 0; i < bytes / 4; ++i) p[i] = 0.01f;
  return std::unique_ptr<float, Free>(p);
}

void Run(benchmark::State& state, RecurrentCell cell, DType r_type = DType::kFloat32) {
  ApplyTargetFromEnvironment();
  const int64_t steps = state.range(0), batch = state.range(1), input = state.range(2),
                hidden = state.range(3), directions = state.range(4);
  const int threads = static_cast<int>(state.range(5));
  const int64_t gates = cell == RecurrentCell::kLstm ? 4 : 3;
  auto options = DefaultRecurrentOptions(
      cell, directions == 2 ? RecurrentDirection::kBidirectional : RecurrentDirection::kForward,
      input, hidden);
  options.r_type = r_type;
  const Parallel par = {&ThreadPool::Process(), threads};
  const std::vector<float> w(directions * gates * hidden * input, 0.01f);
  const std::vector<float> r(directions * gates * hidden * hidden, 0.01f);
  const std::vector<Half> r_halves(r.size(), 0.01f);
  const auto packed = Buffer(RecurrentPackedBytes(options));
  RecurrentPack(options,
                {.w = [&](int64_t row, int64_t) { return w.data() + row * input; },
                 .r = [&](int64_t row, int64_t) -> const void* {
                   if (r_type == DType::kFloat16) return r_halves.data() + row * hidden;
                   return r.data() + row * hidden;
                 }},
                packed.get(), par);
  const auto scratch = Buffer(RecurrentScratchBytes(options, steps, batch, threads));
  const std::vector<float> x(steps * batch * input, 0.5f);
  std::vector<float> y(steps * directions * batch * hidden);
  RecurrentRun run;
  run.steps = steps;
  run.batch = batch;
  run.x = x.data();
  run.y = y.data();
  for (auto _ : state) {
    Recurrent(options, packed.get(), run, scratch.get(), par);
    benchmark::ClobberMemory();
  }
  const double flops = 2.0 * static_cast<double>(steps * batch * directions * gates * hidden) *
                       static_cast<double>(input + hidden);
  state.counters["GFLOP/s"] = benchmark::Counter(
      flops * 1e-9 * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK_CAPTURE(Run, lstm, RecurrentCell::kLstm)
    ->Args({100, 4, 512, 512, 2, 1})
    ->Args({100, 4, 1024, 512, 2, 1})
    ->Args({100, 4, 1024, 512, 2, 2})
    ->Args({100, 4, 512, 512, 1, 1})
    ->Args({100, 4, 512, 512, 1, 2})
    ->Args({50, 1, 1024, 512, 2, 1})
    ->Args({50, 1, 1024, 512, 2, 2})
    ->Args({50, 1, 512, 512, 1, 2})
    ->Args({1, 1, 128, 128, 1, 1})
    ->Args({40, 1, 64, 64, 2, 1})
    ->UseRealTime();
BENCHMARK_CAPTURE(Run, lstm_halves, RecurrentCell::kLstm, DType::kFloat16)
    ->Args({100, 4, 1024, 512, 2, 1})
    ->Args({50, 1, 1024, 512, 2, 1})
    ->Args({50, 1, 1024, 512, 2, 2})
    ->UseRealTime();
BENCHMARK_CAPTURE(Run, gru, RecurrentCell::kGru)
    ->Args({100, 1, 256, 256, 1, 1})
    ->Args({100, 1, 256, 256, 1, 2})
    ->UseRealTime();

}  // namespace
}  // namespace sardonyx
