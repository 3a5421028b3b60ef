#pragma once
// Reading an image of any type of number at points between its pixels.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ir/tensor.h"

namespace sardonyx::ops {

// A pixel of an axis and its weight.
using Tap = std::pair<int64_t, double>;

// The two pixels around x, with linear weights; those outside of [0, size) are left out.
void LinearTaps(double x, int64_t size, std::vector<Tap>& taps);

// Keys' cubic convolution kernel (1981).
double CubicKernel(double distance, double a);

// The products of one tap of each axis: offsets in an image of these sizes, row-major.
void CombineTaps(std::span<const std::vector<Tap>> axes, std::span<const int64_t> sizes,
                 std::vector<Tap>& combined);

// Elements as doubles, two of them (`parts`) for a complex one.
struct Numbers {
  std::vector<double> values;
  int64_t parts = 1;
};
// Throws kUnsupported for strings, naming `what`.
Numbers ToNumbers(const Tensor& x, std::string_view what);
// And back; integers and bool round to nearest, where a cast would truncate.
void FromNumbers(std::vector<double> values, Tensor& y);

}  // namespace sardonyx::ops
