#include "base/random.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

namespace sardonyx {
namespace {

MersenneTwister FromEntropy() {
  std::random_device device;
  std::array<std::random_device::result_type, 8> words;
  for (auto& word : words) word = device();
  std::seed_seq sequence(words.begin(), words.end());
  MersenneTwister::Words state;
  sequence.generate(state.begin(), state.end());
  return MersenneTwister(state);
}

// The next state of a word, of which it and two others decide.
uint32_t Twist(uint32_t word, uint32_t next, uint32_t far) {
  const uint32_t mixed = (word & 0x80000000U) | (next & 0x7fffffffU);
  return far ^ (mixed >> 1) ^ (-(mixed & 1U) & 0x9908b0dfU);
}

}  // namespace

MersenneTwister::MersenneTwister(uint32_t seed) {
  for (uint32_t i = 0; i < kWords; ++i) {
    state_[i] = seed;
    seed = 1812433253U * (seed ^ (seed >> 30)) + i + 1;
  }
}

void MersenneTwister::Draw(Words& words) {
  constexpr int kFar = 397, kNear = kWords - kFar;
  uint32_t* s = state_.data();
  for (int i = 0; i < kNear; ++i) s[i] = Twist(s[i], s[i + 1], s[i + kFar]);
  for (int i = kNear; i < kWords - 1; ++i) s[i] = Twist(s[i], s[i + 1], s[i - kNear]);
  s[kWords - 1] = Twist(s[kWords - 1], s[0], s[kFar - 1]);
  for (int i = 0; i < kWords; ++i) {
    uint32_t word = s[i];
    word ^= word >> 11;
    word ^= (word << 7) & 0x9d2c5680U;
    word ^= (word << 15) & 0xefc60000U;
    words[i] = word ^ (word >> 18);
  }
}

RandomStream::RandomStream(std::optional<uint32_t> seed)
    : engine_(seed ? MersenneTwister(*seed) : FromEntropy()) {}

void RandomStream::Refill() {
  MersenneTwister::Words words;
  engine_.Draw(words);
  for (int i = 0; i < kBlock; ++i) {
    const auto high = static_cast<int32_t>(words[2 * i] >> 5);
    const auto low = static_cast<int32_t>(words[2 * i + 1] >> 6);
    uniform_[i] = (high * 0x1p26 + low) * 0x1p-53;
  }
  next_ = 0;
}

// The polar method (Marsaglia and Bray, 1964); the second of a pair is handed out first. Points are
// collected without branches before their logarithms are taken.
void RandomStream::Normal(double* out, int64_t count) {
  constexpr int64_t kPairs = 256;
  double x[kPairs], y[kPairs], factor[kPairs], logarithm[kPairs];
  for (int64_t left = count; left > 0;) {
    // As many draws as may be needed, so that the stream goes on where it would one by one.
    const int64_t draws = std::min(kPairs, (left + 1) / 2);
    int64_t found = 0;
    for (int64_t i = 0; i < draws; ++i) {
      x[found] = 2 * Uniform() - 1;
      y[found] = 2 * Uniform() - 1;
      const double square = x[found] * x[found] + y[found] * y[found];
      factor[found] = square;
      found += static_cast<int64_t>(square < 1) & static_cast<int64_t>(square != 0);
    }
    for (int64_t i = 0; i < found; ++i) logarithm[i] = std::log(factor[i]);
    for (int64_t i = 0; i < found; ++i) factor[i] = std::sqrt(-2 * logarithm[i] / factor[i]);
    for (int64_t i = 0; i < found; ++i) {
      *out++ = factor[i] * y[i];
      if (--left > 0) {
        *out++ = factor[i] * x[i];
        --left;
      }
    }
  }
}

// One trial of a binomial distribution by inversion; the likelier outcome is the one below.
bool RandomStream::Bernoulli(double p) {
  const bool likely = p > 0.5;
  return (Uniform() > (likely ? p : 1 - p)) != likely;
}

}  // namespace sardonyx
