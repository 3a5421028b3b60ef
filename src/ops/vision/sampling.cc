#include "ops/vision/sampling.h"

#include <cmath>

#include "base/cast.h"

namespace sardonyx::ops {
namespace {

// A complex type as pairs of its part's type.
DType PartOf(DType type) {
  if (type == DType::kComplex64) return DType::kFloat32;
  return type == DType::kComplex128 ? DType::kFloat64 : type;
}

}  // namespace

void LinearTaps(double x, int64_t size, std::vector<Tap>& taps) {
  taps.clear();
  // So that no infinity and no NaN becomes an index.
  if (!(x > -1 && x < static_cast<double>(size))) return;
  const double below = std::floor(x);
  const int64_t first = static_cast<int64_t>(below);
  if (first >= 0) taps.emplace_back(first, 1 - (x - below));
  if (first + 1 < size) taps.emplace_back(first + 1, x - below);
}

double CubicKernel(double distance, double a) {
  const double x = std::abs(distance);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

void CombineTaps(std::span<const std::vector<Tap>> axes, std::span<const int64_t> sizes,
                 std::vector<Tap>& combined) {
  combined.assign(1, {0, 1});
  std::vector<Tap> wider;
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    wider.clear();
    for (const Tap& tap : combined) {
      for (const Tap& next : axes[axis]) {
        wider.emplace_back(tap.first * sizes[axis] + next.first, tap.second * next.second);
      }
    }
    combined.swap(wider);
  }
}

Numbers ToNumbers(const Tensor& x, std::string_view what) {
  if (x.dtype() == DType::kString) Fail(ErrorCode::kUnsupported, "{} of strings", what);
  const DType part = PartOf(x.dtype());
  Numbers numbers;
  numbers.parts = part == x.dtype() ? 1 : 2;
  numbers.values.resize(x.size() * numbers.parts);
  ConvertElements(part, x.raw(), DType::kFloat64, numbers.values.data(), x.size() * numbers.parts,
                  false);
  return numbers;
}

void FromNumbers(std::vector<double> values, Tensor& y) {
  const DType part = PartOf(y.dtype());
  if (!IsFloat(part)) {
    for (double& value : values) value = std::nearbyint(value);
  }
  ConvertElements(DType::kFloat64, values.data(), part, y.raw(),
                  static_cast<int64_t>(values.size()), false);
}

}  // namespace sardonyx::ops
