// Products with weights of fewer bits. Arguments: M, N, K, bits (16: float16; 4, 8 in blocks),
// block, whether rows are rounded to bytes, threads. `weights` is how fast packed weights are read.

#include <cstring>

#include "kernel_bench.h"
#include "kernels/gemm_narrow.h"

namespace sardonyx {
namespace {

void BM_GemmNarrow(benchmark::State& state) {
  ApplyTargetFromEnvironment();
  const int64_t m = state.range(0), bits = state.range(3);
  const NarrowMatrix b{bits == 16  ? DType::kFloat16
                       : bits == 8 ? DType::kUInt8
                                   : DType::kUInt4,
                       state.range(2), state.range(1), state.range(4), state.range(5) != 0};
  const Parallel par = Threads(static_cast<int>(state.range(6)));
  const AlignedFloats a = RandomFloats(m * b.k), c = RandomFloats(m * b.n);
  const auto bytes = static_cast<int64_t>(NarrowPackedBytes(b));
  const AlignedFloats packed = RandomFloats(bytes / 4);
  // Small halves, and floats as scales: no infinities.
  std::memset(packed.get(), 0x24, static_cast<size_t>(bytes));
  const AlignedFloats scratch =
      RandomFloats(static_cast<int64_t>(GemmNarrowScratchBytes(b, m, b.k, par.threads) / 4));
  for (auto _ : state) {
    GemmNarrow(b, packed.get(), m, a.get(), b.k, c.get(), b.n, {}, scratch.get(), par);
    benchmark::ClobberMemory();
  }
  ReportFlops(state, 2.0 * static_cast<double>(m * b.n * b.k), par.threads);
  state.counters["weights"] =
      benchmark::Counter(static_cast<double>(bytes) * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
}

void Shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"m", "n", "k", "bits", "block", "rounded", "threads"})->UseRealTime();
  for (const int threads : {1, 2}) {
    for (const int rows : {8, 16, 32, 64}) {
      bench->Args({rows, 1024, 512, 8, 128, 0, threads});
      bench->Args({rows, 1024, 512, 4, 32, 0, threads});
    }
    for (const int rows : {1, 4, 16, 128, 512}) {
      bench->Args({rows, 4096, 4096, 16, 0, 0, threads});
      bench->Args({rows, 768, 3072, 16, 0, 0, threads});
      for (const int rounded : {0, 1}) {
        bench->Args({rows, 4096, 4096, 4, 32, rounded, threads});
        bench->Args({rows, 4096, 4096, 4, 128, rounded, threads});
        bench->Args({rows, 4096, 4096, 8, 32, rounded, threads});
      }
    }
  }
}
BENCHMARK(BM_GemmNarrow)->Apply(Shapes);

}  // namespace
}  // namespace sardonyx
