// Layer and RMS normalisation in float64.
#include "kernels/normalization.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/normalization_double.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <cmath>

#include "kernels/row_math-inl.h"
#include "kernels/slices.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;

// Sum of (x - shift), or of (x - shift)^2.
template <bool kSquare>
HWY_INLINE double ShiftedSum(const double* x, int64_t n, double shift) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V s = hn::Set(d, shift);
  const auto add = [&](V sum, V v) HWY_ATTR {
    const V t = hn::Sub(v, s);
    return kSquare ? hn::MulAdd(t, t, sum) : hn::Add(sum, t);
  };
  V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = add(s0, hn::LoadU(d, x + i));
    s1 = add(s1, hn::LoadU(d, x + i + lanes));
    s2 = add(s2, hn::LoadU(d, x + i + 2 * lanes));
    s3 = add(s3, hn::LoadU(d, x + i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) s0 = add(s0, hn::LoadU(d, x + i));
  if (i < n) s1 = add(s1, LoadPart(d, x + i, n - i, shift));
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

void NormRow(const double* x, const double* scale, const double* bias, double* y, int64_t n,
             double epsilon, bool rms, double* mean, double* inv) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const double count = static_cast<double>(n);
  const double middle = rms ? 0 : ShiftedSum<false>(x, n, 0) / count;
  const double factor = 1 / std::sqrt(ShiftedSum<true>(x, n, middle) / count + epsilon);
  if (mean != nullptr) *mean = middle;
  if (inv != nullptr) *inv = factor;
  const V m = hn::Set(d, middle), f = hn::Set(d, factor);
  for (int64_t i = 0; i < n; i += lanes) {
    const int64_t left = n - i;
    const auto load = [&](const double* p) HWY_ATTR {
      return left >= lanes ? hn::LoadU(d, p + i) : LoadPart(d, p + i, left);
    };
    V v = hn::Mul(hn::Sub(load(x), m), f);
    if (scale != nullptr) v = hn::Mul(v, load(scale));
    if (bias != nullptr) v = hn::Add(v, load(bias));
    if (left >= lanes) {
      hn::StoreU(v, d, y + i);
    } else {
      StorePart(v, d, y + i, left);
    }
  }
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {
namespace {

HWY_EXPORT(NormRow);

void NormRows(const double* x, const double* scale, const double* bias, double* y, int64_t rows,
              int64_t n, double epsilon, bool rms, double* mean, double* inv, const Parallel& par) {
  const Slices slices = Slice(rows, 2 * n);
  par.For(slices.tasks, [&](int64_t task) {
    for (int64_t row = slices.Begin(task); row < slices.End(task, rows); ++row) {
      HWY_DYNAMIC_DISPATCH(NormRow)(x + row * n, scale, bias, y + row * n, n, epsilon, rms,
                                    mean == nullptr ? nullptr : mean + row,
                                    inv == nullptr ? nullptr : inv + row);
    }
  });
}

}  // namespace

void LayerNorm(const double* x, const double* scale, const double* bias, double* y, int64_t rows,
               int64_t n, double epsilon, double* mean, double* inv_std_dev, const Parallel& par) {
  NormRows(x, scale, bias, y, rows, n, epsilon, false, mean, inv_std_dev, par);
}

void RmsNorm(const double* x, const double* scale, const double* bias, double* y, int64_t rows,
             int64_t n, double epsilon, double* inv_rms, const Parallel& par) {
  NormRows(x, scale, bias, y, rows, n, epsilon, true, nullptr, inv_rms, par);
}

}  // namespace sardonyx
#endif  // HWY_ONCE
