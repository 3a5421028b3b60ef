#include "base/random.h"

#include <array>
#include <cmath>
#include <functional>

namespace sardonyx {
namespace {

std::mt19937 FromEntropy() {
  std::random_device device;
  std::array<std::random_device::result_type, 8> words;
  for (auto& word : words) word = device();
  std::seed_seq sequence(words.begin(), words.end());
  return std::mt19937(sequence);
}

}  // namespace

RandomStream::RandomStream(std::optional<uint32_t> seed)
    : engine_(seed ? std::mt19937(*seed) : FromEntropy()) {}

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
  if (p > 0.5) return !(Uniform() > p);
  return Uniform() > 1 - p;
}

}  // namespace sardonyx
