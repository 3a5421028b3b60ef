#pragma once
// Discrete Fourier transforms of any length, O(n log n).

#include <complex>
#include <cstdint>
#include <memory>
#include <vector>

namespace sardonyx::ops {

// Computes in T, float or double.
template <typename T>
class Fourier {
 public:
  using Complex = std::complex<T>;
  explicit Fourier(int64_t length);  // 1 to 2^31

  int64_t length() const { return length_; }
  // Replaces x[k] by the sum over j of x[j] exp(-2 pi i jk / length). `scratch` is memory to use.
  void Transform(std::vector<Complex>& x, std::vector<Complex>& scratch) const;

 private:
  void Pass(const Complex* x, Complex* y, int64_t factor, int64_t before) const;
  void Convolve(std::vector<Complex>& x, std::vector<Complex>& scratch) const;

  int64_t length_;
  std::vector<int64_t> factors_;  // of length_, small ones; empty: by convolution
  std::vector<Complex> roots_;    // exp(-2 pi i k / length)
  // Bluestein's algorithm (1970): jk = (j^2 + k^2 - (k-j)^2) / 2 makes the transform a convolution
  // with a chirp, which transforms of a power of two compute.
  std::vector<Complex> chirp_, chirp_spectrum_;
  std::unique_ptr<Fourier> convolution_;
};

}  // namespace sardonyx::ops
