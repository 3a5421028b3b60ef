#pragma once
// Random numbers for the operators that draw them. A seeded stream is that of numpy's RandomState
// (MT19937, its legacy distributions), which the reference implementation of the standard uses.

#include <array>
#include <cstdint>
#include <optional>

namespace sardonyx {

// MT19937 (Matsumoto and Nishimura, 1998), which makes its numbers by the block: vectors do that.
class MersenneTwister {
 public:
  static constexpr int kWords = 624;
  explicit MersenneTwister(uint32_t seed);
  explicit MersenneTwister(const std::array<uint32_t, kWords>& state) : state_(state) {}

  uint32_t operator()() {
    if (next_ == kWords) Refill();
    return drawn_[next_++];
  }

 private:
  void Refill();

  std::array<uint32_t, kWords> state_, drawn_;
  int next_ = kWords;
};

class RandomStream {
 public:
  // Without a seed the stream begins at entropy of the operating system.
  explicit RandomStream(std::optional<uint32_t> seed);

  double Uniform() {  // in [0, 1), 53 random bits
    const uint32_t high = engine_() >> 5, low = engine_() >> 6;
    return (high * 0x1p26 + low) * 0x1p-53;
  }
  double Normal();           // mean 0, variance 1
  bool Bernoulli(double p);  // p in [0, 1]

 private:
  MersenneTwister engine_;
  std::optional<double> second_;  // normal numbers come in pairs
};

}  // namespace sardonyx
