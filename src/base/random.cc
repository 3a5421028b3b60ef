#include "base/random.h"

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
  std::array<uint32_t, MersenneTwister::kWords> state;
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

void MersenneTwister::Refill() {
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
    drawn_[i] = word ^ (word >> 18);
  }
  next_ = 0;
}

RandomStream::RandomStream(std::optional<uint32_t> seed)
    : engine_(seed ? MersenneTwister(*seed) : FromEntropy()) {}

// The polar method (Marsaglia and Bray, 1964); the second of the pair is handed out first.
double RandomStream::Normal() {
  if (second_) {
    const double value = *second_;
    second_.reset();
    return value;
  }
  for (;;) {
    const double x = 2 * Uniform() - 1;
    const double y = 2 * Uniform() - 1;
    const double square = x * x + y * y;
    if (square >= 1 || square == 0) continue;
    const double factor = std::sqrt(-2 * std::log(square) / square);
    second_ = factor * x;
    return factor * y;
  }
}

// One trial of a binomial distribution by inversion; the likelier outcome is the one below.
bool RandomStream::Bernoulli(double p) {
  const bool likely = p > 0.5;
  return (Uniform() > (likely ? p : 1 - p)) != likely;
}

}  // namespace sardonyx
