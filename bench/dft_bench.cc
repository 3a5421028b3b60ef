// 5 n log2 n operations a line, as a fraction of the machine's peak.

#include "kernels/dft.h"

#include <cmath>

#include "kernel_bench.h"

namespace sardonyx {
namespace {

template <typename T>
void Lines(benchmark::State& state) {
  const int64_t length = state.range(0), lines = 256;
  const DftPlan<T> plan = PlanDft<T>(length);
  const DftShape shape{lines, 1, length, 2, length, 2, false};
  std::vector<float> x(2 * length * lines, 1.0f), y(x.size());
  std::vector<double> scratch(DftScratchBytes(plan, shape, 1) / 8 + 16);
  for (auto _ : state) {
    Dft(plan, shape, x.data(), y.data(), scratch.data(), Parallel{});
    benchmark::ClobberMemory();
  }
  const auto n = static_cast<double>(length);
  ReportFlops(state, 5 * n * std::log2(n) * static_cast<double>(lines), 1);
}
BENCHMARK(Lines<float>)->Arg(400)->Arg(512)->Arg(1024);
BENCHMARK(Lines<double>)->Arg(400)->Arg(512)->Arg(1024);

}  // namespace
}  // namespace sardonyx
