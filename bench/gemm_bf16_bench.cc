// Products with weights of bfloat16. Arguments: M, N, K, threads, whether A holds bfloat16 too, and
// matrices B in turn: with many, B comes from memory as the weights of a model do. The peak is that
// of float32, of which pairs of bfloat16 reach up to 2.

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
  std::vector<AlignedFloats> packed;
  for (int64_t i = 0; i < state.range(5); ++i) {
    packed.push_back(RandomFloats(static_cast<int64_t>(GemmBf16PackedBytes(shape.k, shape.n) / 4)));
    GemmBf16Pack(shape.k, shape.n, b.data(), shape.n, false, packed.back().get(), par);
  }
  const AlignedFloats scratch = RandomFloats(static_cast<int64_t>(GemmBf16ScratchBytes(shape) / 4));
  size_t turn = 0;
  for (auto _ : state) {
    GemmBf16(shape, a.get(), packed[turn++ % packed.size()].get(), c.get(), {}, scratch.get(), par);
    benchmark::ClobberMemory();
  }
  ReportFlops(state, 2.0 * static_cast<double>(shape.m * shape.n * shape.k), par.threads);
  state.SetBytesProcessed(state.iterations() * shape.k * shape.n * 2);
}

void Shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"m", "n", "k", "threads", "bf16", "matrices"})->UseRealTime();
  for (const int threads : {1, 2}) {
    bench->Args({128, 768, 768, threads, 1, 64});
    bench->Args({128, 768, 3072, threads, 1, 16});
    for (const int is_bf16 : {1, 0}) {
      for (const int tokens : {1, 4, 16, 128, 1024}) {
        bench->Args({tokens, 768, 768, threads, is_bf16, 1});
        bench->Args({tokens, 3072, 768, threads, is_bf16, 1});
        bench->Args({tokens, 768, 3072, threads, is_bf16, 1});
      }
    }
  }
}
BENCHMARK(BM_GemmBf16)->Apply(Shapes);

}  // namespace
}  // namespace sardonyx
