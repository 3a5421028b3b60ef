// Products with weights of bfloat16. Arguments: M, N, K, threads, and whether A holds bfloat16 too.
// The peak is that of float32, of which pairs of bfloat16 reach up to 2.

#include "base/dtype.h"
#include "kernel_bench.h"
#include "kernels/gemm_bf16.h"

namespace sardonyx {
namespace {

void BM_GemmBf16(benchmark::State& state) {
  ApplyTargetFromEnvironment();
  Bf16Gemm shape{state.range(0), state.range(1), state.range(2), state.range(2), state.range(1)};
  const Parallel par = Threads(static_cast<int>(state.range(3)));
  const AlignedFloats a = RandomFloats(shape.m * shape.k);
  const AlignedFloats c = RandomFloats(shape.m * shape.n);
  if (state.range(4) != 0) {
    for (int64_t i = 0; i < shape.m * shape.k; ++i) a[i] = BFloat16ToFloat(FloatToBFloat16(a[i]));
  }
  const AlignedFloats numbers = RandomFloats(shape.k * shape.n);
  std::vector<uint16_t> b;
  for (int64_t i = 0; i < shape.k * shape.n; ++i) b.push_back(FloatToBFloat16(numbers[i]));
  const AlignedFloats packed =
      RandomFloats(static_cast<int64_t>(GemmBf16PackedBytes(shape.k, shape.n) / 4));
  GemmBf16Pack(shape.k, shape.n, b.data(), shape.n, false, packed.get(), par);
  const AlignedFloats scratch = RandomFloats(static_cast<int64_t>(GemmBf16ScratchBytes(shape) / 4));
  for (auto _ : state) {
    GemmBf16(shape, a.get(), packed.get(), c.get(), {}, scratch.get(), par);
    benchmark::ClobberMemory();
  }
  ReportFlops(state, 2.0 * static_cast<double>(shape.m * shape.n * shape.k), par.threads);
  state.SetBytesProcessed(state.iterations() * shape.k * shape.n * 2);
}

void Shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"m", "n", "k", "threads", "bf16"})->UseRealTime();
  for (const int threads : {1, 2}) {
    for (const int is_bf16 : {1, 0}) {
      for (const int tokens : {1, 4, 16, 128, 1024}) {
        bench->Args({tokens, 768, 768, threads, is_bf16});
        bench->Args({tokens, 3072, 768, threads, is_bf16});
        bench->Args({tokens, 768, 3072, threads, is_bf16});
      }
    }
  }
}
BENCHMARK(BM_GemmBf16)->Apply(Shapes);

}  // namespace
}  // namespace sardonyx
