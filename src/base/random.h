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
  using Words = std::array<uint32_t, kWords>;
  explicit MersenneTwister(uint32_t seed);
  explicit MersenneTwister(const Words& state) : state_(state) {}

  void Draw(Words& words);  // the next ones

 private:
  Words state_;
};

class RandomStream {
 public:
  // Without a seed the stream begins at entropy of the operating system.
  explicit RandomStream(std::optional<uint32_t> seed);

  double Uniform() {  // in [0, 1), 53 random bits
    if (next_ == kBlock) Refill();
    return uniform_[next_++];
  }
  // Normal numbers, mean 0, variance 1. They come in pairs: of an odd count the last one's partner
  // is lost.
  void Normal(double* out, int64_t count);
  bool Bernoulli(double p);  // p in [0, 1]

 private:
  static constexpr int kBlock = MersenneTwister::kWords / 2;
  void Refill();

  MersenneTwister engine_;
  std::array<double, kBlock> uniform_;
  int next_ = kBlock;
};

}  // namespace sardonyx
