// The gated delta rule with a decay a head. Arguments: tokens, heads of keys, queries that share
// one, threads. The fraction of the peak counts a multiplication and an addition of every element
// of the state for what is known of the key, what is written and each query; bytes are the state,
// read and written once.

#include <cmath>

#include "kernel_bench.h"
#include "kernels/linear_attention.h"

namespace sardonyx {
namespace {

constexpr int64_t kSize = 128;

void BM_LinearAttention(benchmark::State& state) {
  ApplyTargetFromEnvironment();
  LinearAttentionShape s;
  s.tokens = state.range(0);
  s.heads = state.range(1);
  s.group = state.range(2);
  s.keys = s.values = kSize;
  s.q_stride = s.y_stride = s.heads * s.group * kSize;
  s.k_stride = s.v_stride = s.heads * kSize;
  s.decay = LinearAttentionShape::Decay::kHead;
  s.has_beta = s.beta_per_head = true;
  s.decay_stride = s.beta_stride = s.heads;
  const Parallel par = Threads(static_cast<int>(state.range(3)));
  const AlignedFloats q = RandomFloats(s.tokens * s.q_stride);
  const AlignedFloats k = RandomFloats(s.tokens * s.k_stride);
  for (int64_t i = 0; i < s.tokens * s.k_stride; ++i) k[i] *= 0.1f;
  const AlignedFloats v = RandomFloats(s.tokens * s.v_stride);
  const AlignedFloats decay = RandomFloats(s.tokens * s.heads);
  const AlignedFloats beta = RandomFloats(s.tokens * s.heads);
  for (int64_t i = 0; i < s.tokens * s.heads; ++i) {
    decay[i] = -std::abs(decay[i]);
    beta[i] = std::abs(beta[i]);
  }
  const AlignedFloats past = RandomFloats(s.heads * kSize * kSize);
  const AlignedFloats present = RandomFloats(s.heads * kSize * kSize);
  const AlignedFloats y = RandomFloats(s.tokens * s.y_stride);
  const AlignedFloats scratch =
      RandomFloats(static_cast<int64_t>(LinearAttentionScratchBytes(s, par.threads) / 4));
  for (auto _ : state) {
    LinearAttention(s,
                    {.q = q.get(),
                     .k = k.get(),
                     .v = v.get(),
                     .past = past.get(),
                     .decay = decay.get(),
                     .beta = beta.get(),
                     .y = y.get(),
                     .present = present.get()},
                    scratch.get(), par);
    benchmark::ClobberMemory();
  }
  const double elements = static_cast<double>(s.tokens * s.heads * kSize * kSize);
  ReportFlops(state, 2.0 * elements * static_cast<double>(2 + s.group), par.threads);
  state.SetBytesProcessed(state.iterations() * 2 * s.heads * kSize * kSize * 4);
}

void Shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"tokens", "heads", "group", "threads"})->UseRealTime();
  for (const int threads : {1, 2}) {
    bench->Args({1, 16, 1, threads})
        ->Args({1, 16, 2, threads})
        ->Args({128, 16, 1, threads})
        ->Args({128, 16, 2, threads})
        ->Args({128, 4, 8, threads});
  }
}
BENCHMARK(BM_LinearAttention)->Apply(Shapes);

}  // namespace
}  // namespace sardonyx
