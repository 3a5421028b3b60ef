#pragma once
// What the tests of matrix products and convolutions share.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/slices.h"
#include "kernels/targets.h"

#include "hwy/highway.h"

namespace sardonyx {

// Runs body once for each SIMD target that was compiled and that the machine has, with AVX-512 for
// processors that share wide units and for those that do not, with and without matrix tiles, and
// AVX2 with and without AVX-VNNI.
template <typename Body>
void ForEachTarget(Body&& body) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    const bool is_avx512 = TargetName() == "avx512";
    for (const bool shares_wide_units : {false, true}) {
      if (shares_wide_units && !is_avx512) continue;
      SetSharesWideUnitsForTest(shares_wide_units);
      SCOPED_TRACE(std::string(TargetName()) + (shares_wide_units ? ", shared units" : ""));
      AllowMatrixTilesForTest(false);
      AllowAvxVnniForTest(false);
      body();
      AllowMatrixTilesForTest(true);
      AllowAvxVnniForTest(true);
      if (!HasAvxVnni() && !(HasMatrixTiles() && shares_wide_units)) continue;
      SCOPED_TRACE(HasAvxVnni() ? "AVX-VNNI" : "matrix tiles");
      body();
    }
  }
  SetSharesWideUnitsForTest(std::nullopt);
  hwy::SetSupportedTargetsForTest(0);
}

// While it lives, work is cut as on a machine of so many processors: with matrix tiles where there
// are two, if it has any; where there are many, into as many parts.
class AsOnProcessors {
 public:
  explicit AsOnProcessors(int processors) { SetTaskProcessorsForTest(processors); }
  ~AsOnProcessors() { SetTaskProcessorsForTest(0); }
  AsOnProcessors(const AsOnProcessors&) = delete;
};

// Runs body as the machine runs it, if it had so many processors.
template <typename Body>
void ForProcessors(int processors, Body&& body) {
  SCOPED_TRACE("as on " + std::to_string(processors) + " processors");
  const AsOnProcessors as_on(processors);
  body();
}

// 64-byte aligned floats, NaN at first, with a guard behind them that Intact checks. The address
// sanitizer needs none, and so sees reads behind them as well.
class Floats {
 public:
  explicit Floats(int64_t count) : count_(count) {
    void* data = nullptr;
    if (posix_memalign(&data, 64, static_cast<size_t>(count + kGuard) * 4) != 0) std::abort();
    data_ = static_cast<float*>(data);
    std::fill(data_, data_ + count, std::numeric_limits<float>::quiet_NaN());
    std::fill(data_ + count, data_ + count + kGuard, 12345.0f);
  }
  ~Floats() { std::free(data_); }
  Floats(Floats&& other) noexcept : count_(other.count_), data_(other.data_) {
    other.data_ = nullptr;
  }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;

  static Floats Random(int64_t count, uint32_t seed) {
    Floats result(count);
    std::mt19937 generator(seed);
    for (int64_t i = 0; i < count; ++i) {
      result[i] = static_cast<float>(generator() >> 8) * (2.0f / 16777216.0f) - 1.0f;
    }
    return result;
  }
  float* get() const { return data_; }
  float& operator[](int64_t i) const { return data_[i]; }
  int64_t size() const { return count_; }
  bool Intact() const {
    for (int64_t i = 0; i < kGuard; ++i) {
      if (data_[count_ + i] != 12345.0f) return false;
    }
    return true;
  }
  bool SameBits(const Floats& other) const {
    return std::memcmp(data_, other.data_, static_cast<size_t>(count_) * 4) == 0;
  }

 private:
#if HWY_IS_ASAN
  static constexpr int64_t kGuard = 0;
#else
  static constexpr int64_t kGuard = 64;
#endif
  int64_t count_;
  float* data_;
};

inline Parallel OneThread() { return {nullptr, 1}; }
inline Parallel TwoThreads() { return {&ThreadPool::Process(), 2}; }
inline Parallel ManyThreads() { return {&ThreadPool::Process(), 9}; }

}  // namespace sardonyx
