// Attention as one operation. Arguments: queries, keys, heads, heads that share keys, causal,
// threads, whether all is bfloat16. The fraction of the peak, that of float32, counts the two
// products, without what a causal form leaves out.

#include "kernel_bench.h"
#include "kernels/attention.h"

namespace sardonyx {
namespace {

constexpr int64_t kSize = 64;

void BM_Attention(benchmark::State& state) {
  ApplyTargetFromEnvironment();
  AttentionShape s;
  s.queries = state.range(0);
  s.keys = state.range(1);
  s.heads = state.range(2);
  s.group = state.range(3);
  s.causal = state.range(4) != 0;
  s.ahead = s.keys - s.queries;
  s.size = s.width = kSize;
  s.scale = 0.125f;
  const bool is_bf16 = state.range(6) != 0;
  if (is_bf16) s.rounding = DType::kBFloat16;
  const Parallel par = Threads(static_cast<int>(state.range(5)));
  const int64_t shared = s.heads / s.group;
  for (int64_t* stride : {s.q_stride, s.y_stride}) {
    stride[1] = kSize;
    stride[2] = s.heads * kSize;
  }
  for (int64_t* stride : {s.k_stride, s.v_stride}) {
    stride[1] = s.keys * kSize;
    stride[2] = kSize;
  }
  const auto operand = [&](int64_t size) {
    AlignedFloats values = RandomFloats(size);
    for (int64_t i = 0; is_bf16 && i < size; ++i) values[i] = BFloat16(values[i]);
    return values;
  };
  const AlignedFloats q = operand(s.queries * s.heads * kSize);
  const AlignedFloats k = operand(s.keys * shared * kSize);
  const AlignedFloats v = operand(s.keys * shared * kSize);
  const AlignedFloats y = RandomFloats(s.queries * s.heads * kSize);
  const AlignedFloats scratch =
      RandomFloats(static_cast<int64_t>(AttentionScratchBytes(s, par.threads) / 4));
  for (auto _ : state) {
    Attention(s, q.get(), k.get(), v.get(), {}, y.get(), scratch.get(), par);
    benchmark::ClobberMemory();
  }
  double seen = static_cast<double>(s.queries * s.keys);
  if (s.causal) seen -= static_cast<double>(s.queries * (s.queries - 1) / 2);
  ReportFlops(state, 4.0 * kSize * seen * static_cast<double>(s.heads), par.threads);
  state.SetBytesProcessed(state.iterations() * 2 * s.keys * shared * kSize * 4);
}

void Shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"queries", "keys", "heads", "group", "causal", "threads", "bf16"})
      ->UseRealTime();
  for (const int threads : {1, 2}) {
    for (const int causal : {0, 1}) {
      for (const int length : {16, 64, 128, 197, 512, 2048}) {
        bench->Args({length, length, 12, 1, causal, threads, 0});
        bench->Args({length, length, 12, 1, causal, threads, 1});
      }
    }
    for (const int keys : {128, 1024, 8192}) {
      bench->Args({1, keys, 12, 1, 0, threads, 0});
      bench->Args({1, keys, 32, 4, 0, threads, 0});
    }
  }
}
BENCHMARK(BM_Attention)->Apply(Shapes);

}  // namespace
}  // namespace sardonyx
