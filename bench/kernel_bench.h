#pragma once
// What the kernel benchmarks share: the machine's peak, threads, data.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/gemm_block.h"
#include "kernels/gemm_int8.h"
#include "kernels/targets.h"

namespace sardonyx {

struct AlignedFree {
  void operator()(float* p) const { std::free(p); }
};
using AlignedFloats = std::unique_ptr<float[], AlignedFree>;

// `count` floats in [-1, 1), 64-byte aligned.
inline AlignedFloats RandomFloats(int64_t count) {
  const size_t bytes = static_cast<size_t>(count * 4 + 127) / 64 * 64;
  AlignedFloats data(static_cast<float*>(std::aligned_alloc(64, bytes)));
  if (data == nullptr) throw std::bad_alloc();
  uint32_t state = 12345;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    data[i] = static_cast<float>(state >> 8) * (2.0f / 16777216.0f) - 1.0f;
  }
  return data;
}

inline Parallel Threads(int threads) { return {&ThreadPool::Process(), threads}; }

// Calls of `block`, which takes about a microsecond, that one thread makes in a second at best.
template <typename Block>
double BestRate(const Block& block) {
  constexpr int kCalls = 100;
  double best = 1e9;
  for (int i = 0; i < 200; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    for (int j = 0; j < kCalls; ++j) block();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    best = std::min(best, seconds.count());
  }
  return kCalls / best;
}

// Float32 operations a second that one thread reaches now: the register tile on data in the
// first-level cache.
inline double RateOfFlops() {
  ApplyTargetFromEnvironment();
  const int64_t rows = GemmTileRows(), width = GemmPanelWidth(), k = 128;
  const AlignedFloats a = RandomFloats(rows * k), b = RandomFloats(width * k);
  const AlignedFloats c = RandomFloats(rows * width);
  GemmBlockArgs args{};
  args.a = a.get();
  args.lda = k;
  args.rows = rows;
  args.b = b.get();
  args.k_total = args.kc = k;
  args.n_total = args.n1 = args.ldc = width;
  args.c = c.get();
  return 2.0 * static_cast<double>(rows * width * k) * BestRate([&] { GemmBlock(args); });
}
inline double PeakFlops() {
  static const double peak = RateOfFlops();
  return peak;
}

// Likewise of bytes, summed in int32.
inline double RateOfByteOperations() {
  ApplyTargetFromEnvironment();
  const int64_t rows = Int8TileRows(), width = Int8PanelWidth(), groups = 256;
  const AlignedFloats a = RandomFloats(rows * (groups + 16)), b = RandomFloats(width * groups);
  const AlignedFloats y = RandomFloats(rows * width), init = RandomFloats(2 * width);
  Int8BlockArgs args{};
  args.a = a.get();
  args.a_bytes = (groups + 16) * 4;
  args.rows = rows;
  args.b = b.get();
  args.groups = groups;
  args.n1 = args.store.y_stride = width;
  args.init = reinterpret_cast<const int32_t*>(init.get());
  args.store.y = y.get();
  return 2.0 * static_cast<double>(rows * width * groups * Int8GroupSize()) *
         BestRate([&] { Int8Block(args); });
}
inline double PeakByteOperations() {
  static const double peak = RateOfByteOperations();
  return peak;
}

// Reports GFLOP/s, and as a fraction of `threads` times the peak.
inline void ReportFlops(benchmark::State& state, double flops, int threads) {
  const double total = flops * static_cast<double>(state.iterations());
  state.counters["GFLOP/s"] = benchmark::Counter(total * 1e-9, benchmark::Counter::kIsRate);
  state.counters["of_peak"] =
      benchmark::Counter(total / (PeakFlops() * threads), benchmark::Counter::kIsRate);
}

}  // namespace sardonyx
