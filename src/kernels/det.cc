#include "kernels/det.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/det.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "kernels/scratch_slots.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// a [n, n] with rows `stride` apart, a multiple of the vector; what lies behind a row is not read.
double Eliminate(double* a, int64_t n, int64_t stride) {
  const hn::ScalableTag<double> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  double product = 1;
  for (int64_t column = 0; column < n; ++column) {
    int64_t pivot = column;
    for (int64_t row = column + 1; row < n; ++row) {
      if (std::abs(a[row * stride + column]) > std::abs(a[pivot * stride + column])) pivot = row;
    }
    double* head = a + column * stride;
    if (pivot != column) {
      std::swap_ranges(a + pivot * stride + column, a + pivot * stride + n, head + column);
      product = -product;
    }
    product *= head[column];
    if (head[column] == 0) return product;
    // From a whole vector on: what was eliminated may be changed.
    const int64_t first = (column + 1) / lanes * lanes;
    int64_t row = column + 1;
    for (; row + 1 < n; row += 2) {  // two rows share what they load
      double *p = a + row * stride, *q = p + stride;
      const auto f = hn::Set(d, p[column] / head[column]);
      const auto g = hn::Set(d, q[column] / head[column]);
      for (int64_t k = first; k < n; k += lanes) {
        const auto h = hn::Load(d, head + k);
        hn::Store(hn::NegMulAdd(f, h, hn::Load(d, p + k)), d, p + k);
        hn::Store(hn::NegMulAdd(g, h, hn::Load(d, q + k)), d, q + k);
      }
    }
    if (row < n) {
      double* p = a + row * stride;
      const auto f = hn::Set(d, p[column] / head[column]);
      for (int64_t k = first; k < n; k += lanes) {
        hn::Store(hn::NegMulAdd(f, hn::Load(d, head + k), hn::Load(d, p + k)), d, p + k);
      }
    }
  }
  return product;
}

}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Eliminate);

namespace {

int64_t Stride(int64_t n) { return (n + 7) / 8 * 8; }

}  // namespace

int64_t DeterminantsScratchBytes(int64_t n, int threads) {
  return ScratchSlots::CountFor(threads) * n * Stride(n) * 8;
}

void Determinants(const float* x, int64_t count, int64_t n, float* y, void* scratch,
                  const Parallel& par) {
  const int64_t stride = Stride(n);
  ScratchSlots slots(scratch, n * stride * 8, ScratchSlots::CountFor(par.threads));
  const int64_t together = std::max<int64_t>(1, 40'000 / (n * n * (n + 8) / 8 + 1));
  par.For((count + together - 1) / together, [&](int64_t task) {
    const ScratchSlots::Lease lease(slots);
    auto* a = reinterpret_cast<double*>(lease.floats());
    for (int64_t i = task * together; i < std::min(count, (task + 1) * together); ++i) {
      for (int64_t row = 0; row < n; ++row) {
        const float* from = x + (i * n + row) * n;
        std::copy(from, from + n, a + row * stride);
        std::fill(a + row * stride + n, a + (row + 1) * stride, 0.0);
      }
      y[i] = static_cast<float>(HWY_DYNAMIC_DISPATCH(Eliminate)(a, n, stride));
    }
  });
}

}  // namespace sardonyx
#endif
