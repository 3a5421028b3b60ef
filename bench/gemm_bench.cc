// Matrix products of transformers and classifiers. Arguments: M, N, K, items of the batch, threads,
// and how B comes (0: packed once, 1: [K, N], 2: [N, K]).

#include "kernel_bench.h"
#include "kernels/gemm.h"

namespace sardonyx {
namespace {

void BM_Gemm(benchmark::State& state) {
  ApplyTargetFromEnvironment();
  GemmShape shape;
  shape.m = state.range(0);
  shape.n = state.range(1);
  shape.k = state.range(2);
  shape.batch[1] = state.range(3);
  const Parallel par = Threads(static_cast<int>(state.range(4)));
  const bool packed = state.range(5) == 0;
  shape.b_transposed = state.range(5) == 2;
  shape.lda = shape.k;
  shape.ldb = shape.b_transposed ? shape.k : shape.n;
  shape.ldc = shape.n;
  shape.a_stride[1] = shape.m * shape.k;
  shape.c_stride[1] = shape.m * shape.n;
  const auto packed_floats = static_cast<int64_t>(GemmPackedBytes(shape.k, shape.n) / 4);
  shape.b_stride[1] = packed ? packed_floats : shape.k * shape.n;
  const AlignedFloats a = RandomFloats(shape.batch[1] * shape.a_stride[1]);
  const AlignedFloats b = RandomFloats(shape.batch[1] * shape.b_stride[1]);
  const AlignedFloats c = RandomFloats(shape.batch[1] * shape.c_stride[1]);
  const AlignedFloats scratch =
      RandomFloats(static_cast<int64_t>(GemmScratchBytes(shape, packed, par.threads) / 4));
  for (auto _ : state) {
    Gemm(shape, a.get(), packed ? nullptr : b.get(), packed ? b.get() : nullptr, c.get(), {},
         scratch.get(), par);
    benchmark::ClobberMemory();
  }
  const double flops =
      2.0 * static_cast<double>(shape.m * shape.n * shape.k) * static_cast<double>(shape.batch[1]);
  ReportFlops(state, flops, par.threads);
  state.SetBytesProcessed(state.iterations() * shape.batch[1] * shape.k * shape.n * 4);
}

void Shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"m", "n", "k", "items", "threads", "b"})->UseRealTime();
  for (const int threads : {1, 2}) {
    for (const int side : {256, 512, 1024}) bench->Args({side, side, side, 1, threads, 0});
    bench->Args({512, 512, 512, 1, threads, 1});
    bench->Args({512, 512, 512, 1, threads, 2});
    for (const int tokens : {1, 3, 8, 16, 128}) {
      bench->Args({tokens, 768, 768, 1, threads, 0});
      bench->Args({tokens, 3072, 768, 1, threads, 0});
      bench->Args({tokens, 768, 3072, 1, threads, 0});
    }
    bench->Args({1, 50257, 768, 1, threads, 0});
    bench->Args({1, 4096, 9216, 1, threads, 0});
    bench->Args({197, 1536, 384, 1, threads, 0});
    bench->Args({197, 384, 1536, 1, threads, 0});
    bench->Args({197, 384, 384, 1, threads, 0});
    bench->Args({128, 128, 64, 12, threads, 2});
    bench->Args({128, 64, 128, 12, threads, 1});
    bench->Args({1, 128, 64, 12, threads, 2});
    bench->Args({1, 64, 128, 12, threads, 1});
    // Panels that are not full.
    for (const int columns : {8, 16, 24, 40, 56}) {
      bench->Args({3136, columns, 27, 1, threads, 0});
      bench->Args({3136, columns, 96, 1, threads, 0});
      bench->Args({784, columns, 240, 1, threads, 0});
    }
  }
}
BENCHMARK(BM_Gemm)->Apply(Shapes);

}  // namespace
}  // namespace sardonyx
