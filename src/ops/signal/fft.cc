#include "ops/signal/fft.h"

#include <bit>
#include <cmath>
#include <numbers>

namespace sardonyx::ops {
namespace {

constexpr int64_t kLargestFactor = 31;  // beyond, a convolution is cheaper than p^2 products

// The product as it stands in books; operator* looks for infinities first.
template <typename T>
std::complex<T> Times(std::complex<T> a, std::complex<T> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

// exp(-2 pi i k / n) for k in [0, n], taken from the first eighth of the circle: so symmetric roots
// have the same digits, and sums that cancel do so to zero.
std::complex<double> Root(int64_t k, int64_t n) {
  if (2 * k > n) return std::conj(Root(n - k, n));
  if (4 * k > n) {
    const std::complex<double> mirrored = Root(n - 2 * k, 2 * n);
    return {-mirrored.real(), mirrored.imag()};
  }
  if (8 * k > n) {
    const std::complex<double> swapped = Root(n - 4 * k, 4 * n);
    return {-swapped.imag(), -swapped.real()};
  }
  const double angle = 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
  return {std::cos(angle), -std::sin(angle)};
}

// Factors up to kLargestFactor, fours first; empty if a larger one remains.
std::vector<int64_t> SmallFactors(int64_t n) {
  std::vector<int64_t> factors;
  for (; n % 4 == 0; n /= 4) factors.push_back(4);
  for (int64_t p = 2; p <= kLargestFactor; ++p) {
    for (; n % p == 0; n /= p) factors.push_back(p);
  }
  return n == 1 ? factors : std::vector<int64_t>();
}

}  // namespace

template <typename T>
Fourier<T>::Fourier(int64_t length) : length_(length), factors_(SmallFactors(length)) {
  if (!factors_.empty()) {
    for (int64_t k = 0; k < length; ++k) roots_.emplace_back(Root(k, length));
  } else if (length > 1) {
    convolution_ = std::make_unique<Fourier>(std::bit_ceil(static_cast<uint64_t>(2 * length - 1)));
    const int64_t wide = convolution_->length();
    chirp_spectrum_.resize(wide);
    for (int64_t j = 0; j < length; ++j) {
      chirp_.emplace_back(Root(j * j % (2 * length), 2 * length));
      chirp_spectrum_[j] = chirp_spectrum_[(wide - j) % wide] = std::conj(chirp_.back());
    }
    std::vector<Complex> scratch;
    convolution_->Transform(chirp_spectrum_, scratch);
  }
}

template <typename T>
void Fourier<T>::Transform(std::vector<Complex>& x, std::vector<Complex>& scratch) const {
  if (convolution_ != nullptr) return Convolve(x, scratch);
  scratch.resize(length_);
  int64_t before = 1;
  for (const int64_t factor : factors_) {
    Pass(x.data(), scratch.data(), factor, before);
    x.swap(scratch);
    before *= factor;
  }
}

// One factor p of decimation in frequency, self-sorting (Stockham): transforms of the p elements
// that lie `after` apart, times roots. `before` is the product of the factors already done.
template <typename T>
void Fourier<T>::Pass(const Complex* x, Complex* y, int64_t p, int64_t before) const {
  const int64_t after = length_ / before / p;
  Complex sum[kLargestFactor], difference[kLargestFactor];
  for (int64_t k = 0; k < before; ++k) {
    for (int64_t i = 0; i < after; ++i) {
      const Complex* in = x + k * p * after + i;
      const auto put = [&](int64_t q, Complex value) {
        y[(q * before + k) * after + i] = i == 0 ? value : Times(value, roots_[q * i * before]);
      };
      if (p == 2) {
        put(0, in[0] + in[after]);
        put(1, in[0] - in[after]);
        continue;
      }
      if (p == 4) {
        const Complex even = in[0] + in[2 * after], odd = in[0] - in[2 * after];
        const Complex both = in[after] + in[3 * after], half = in[after] - in[3 * after];
        const Complex turned(half.imag(), -half.real());  // by -i
        put(0, even + both);
        put(1, odd + turned);
        put(2, even - both);
        put(3, odd - turned);
        continue;
      }
      // Of odd p: elements r and p - r together, since their roots are conjugates.
      Complex all = in[0];
      for (int64_t r = 1; 2 * r < p; ++r) {
        sum[r] = in[r * after] + in[(p - r) * after];
        difference[r] = in[r * after] - in[(p - r) * after];
        all += sum[r];
      }
      put(0, all);
      for (int64_t q = 1; 2 * q < p; ++q) {
        Complex even = in[0], odd = 0;
        for (int64_t r = 1; 2 * r < p; ++r) {
          const Complex root = roots_[r * q % p * (length_ / p)];
          even += root.real() * sum[r];
          odd += root.imag() * difference[r];
        }
        const Complex turned(-odd.imag(), odd.real());  // by i
        put(q, even + turned);
        put(p - q, even - turned);
      }
    }
  }
}

template <typename T>
void Fourier<T>::Convolve(std::vector<Complex>& x, std::vector<Complex>& scratch) const {
  const int64_t wide = convolution_->length();
  std::vector<Complex> spectrum(wide);
  for (int64_t j = 0; j < length_; ++j) spectrum[j] = Times(x[j], chirp_[j]);
  convolution_->Transform(spectrum, scratch);
  // The inverse transform as a forward one of the conjugate.
  for (int64_t k = 0; k < wide; ++k) {
    spectrum[k] = std::conj(Times(spectrum[k], chirp_spectrum_[k]));
  }
  convolution_->Transform(spectrum, scratch);
  for (int64_t k = 0; k < length_; ++k) {
    x[k] = Times(std::conj(spectrum[k]), chirp_[k]) / static_cast<T>(wide);
  }
}

template class Fourier<float>;
template class Fourier<double>;

}  // namespace sardonyx::ops
