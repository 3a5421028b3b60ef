#pragma once
// What the kernel benchmarks share: the machine's peak, threads, data.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/gemm_int8.h"
#include "kernels/targets.h"
#include "peak.h"

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

// Calls of `block`, which takes about a microsecond, that one thread makes in a second: at best, or
// mostly, as a benchmark's times are medians.
enum class Often : uint8_t { kAtBest, kMostly };
template <typename Block>
double Rate(Often often, const Block& block) {
  constexpr int kCalls = 100, kSamples = 400;
  std::array<double, kSamples> seconds;
  for (double& sample : seconds) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) block();
    sample = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  std::sort(seconds.begin(), seconds.end());
  return kCalls / seconds[often == Often::kAtBest ? 0 : kSamples / 2];
}

// Float32 operations a second that one thread reaches now.
inline double RateOfFlops(Often often) {
  ApplyTargetFromEnvironment();
  constexpr int64_t kRounds = 150;
  return MultiplyAndAdd(kRounds) * Rate(often, [] { MultiplyAndAdd(kRounds); });
}
inline double PeakFlops() {
  static const double peak = RateOfFlops(Often::kAtBest);
  return peak;
}

// Likewise of bytes, summed in int32: matrix tiles alone, or else the register tile on data in the
// first-level cache.
inline double RateOfByteOperations(Often often) {
  ApplyTargetFromEnvironment();
  if (HasMatrixTiles()) {
    constexpr int64_t kTileRounds = 60;
    return MultiplyTiles(kTileRounds) * Rate(often, [] { MultiplyTiles(kTileRounds); });
  }
  const int64_t rows = 4 * Int8TileRows(), width = Int8PanelWidth(), groups = 256;
  const int64_t row_words = (Int8Widens() ? 2 : 1) * groups + 16;
  const AlignedFloats a = RandomFloats(rows * row_words), b = RandomFloats(width * groups);
  const AlignedFloats y = RandomFloats(rows * width), init = RandomFloats(2 * width);
  Int8BlockArgs args{};
  args.a = a.get();
  args.a_bytes = row_words * 4;
  args.rows = rows;
  args.b = b.get();
  args.groups = groups;
  args.n1 = args.store.y_stride = width;
  args.init = reinterpret_cast<const int32_t*>(init.get());
  args.store.y = y.get();
  const AlignedFloats widened = RandomFloats(static_cast<int64_t>(Int8WidenedBytes(groups) / 4));
  if (Int8Widens()) args.widened = reinterpret_cast<int32_t*>(widened.get());
  return 2.0 * static_cast<double>(rows * width * groups * 4) *
         Rate(often, [&] { Int8Block(args); });
}
inline double PeakByteOperations() {
  static const double peak = RateOfByteOperations(Often::kAtBest);
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
