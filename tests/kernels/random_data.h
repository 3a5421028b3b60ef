#pragma once
// Random vectors, thread counts and bitwise comparison for the kernel tests that work on vectors.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "each_target.h"

namespace sardonyx::test {

using sardonyx::ForEachTarget;

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
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace sardonyx::test
