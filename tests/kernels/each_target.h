#pragma once
// What the kernel tests share: every SIMD target of the machine, thread counts, random data.

#include <gtest/gtest.h>
// Highway's list of targets follows the kernels' own.
#include "kernels/targets.h"
// After it:
#include <hwy/targets.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "base/thread_pool.h"

namespace sardonyx::test {

// Runs body once a SIMD target that was compiled and that this machine has.
template <typename Body>
void ForEachTarget(Body&& body) {
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
}

inline Parallel Threads(int threads) { return {&ThreadPool::Process(), threads}; }

inline std::vector<float> RandomFloats(size_t count, uint32_t seed, float low = -1.0f,
                                       float high = 1.0f) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> distribution(low, high);
  std::vector<float> values(count);
  for (float& value : values) value = distribution(generator);
  return values;
}

template <typename T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

}  // namespace sardonyx::test
