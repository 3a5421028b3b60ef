// Vectors of what a division leaves, for float32 and float64.

// One definition for each SIMD target.
#if defined(SARDONYX_KERNELS_REMAINDER_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SARDONYX_KERNELS_REMAINDER_INL_H
#undef SARDONYX_KERNELS_REMAINDER_INL_H
#else
#define SARDONYX_KERNELS_REMAINDER_INL_H
#endif

#include <hwy/highway.h>

#include <cmath>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// With the sign of x. What is left of x after whole multiples of y is exact where the quotient is
// an integer that T has, for then the rest is a number of T, and a fused multiplication does not
// round it.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V VecFMod(D d, V x, V y) {
  using T = hn::TFromD<D>;
#if HWY_NATIVE_FMA
  const V quotient = hn::Trunc(hn::Div(x, y)), size = hn::Abs(y);
  V rest = hn::NegMulAdd(quotient, y, x);
  // The division may have been rounded up to the next integer.
  const auto is_beyond = hn::Lt(hn::Mul(rest, hn::CopySign(hn::Set(d, T{1}), x)), hn::Zero(d));
  rest = hn::CopySign(hn::IfThenElse(is_beyond, hn::Sub(size, hn::Abs(rest)), rest), x);
  const auto is_less = hn::Lt(hn::Abs(x), size);
  constexpr T kMost = T{2} / std::numeric_limits<T>::epsilon();
  const auto is_exact = hn::Lt(hn::Abs(quotient), hn::Set(d, kMost));
  rest = hn::IfThenElse(is_less, x, rest);
  if (HWY_LIKELY(hn::AllTrue(d, hn::Or(is_less, is_exact)))) return rest;
#endif
  HWY_ALIGN T a[hn::MaxLanes(d)];
  HWY_ALIGN T b[hn::MaxLanes(d)];
  hn::Store(x, d, a);
  hn::Store(y, d, b);
  for (size_t i = 0; i < hn::Lanes(d); ++i) a[i] = std::fmod(a[i], b[i]);
  return hn::Load(d, a);
}

// With the sign of y.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V VecMod(D d, V x, V y) {
  const V rest = VecFMod(d, x, y), zero = hn::Zero(d);
  const auto differ = hn::Xor(hn::Lt(rest, zero), hn::Lt(y, zero));
  const V moved = hn::IfThenElse(differ, hn::Add(rest, y), rest);
  return hn::IfThenElse(hn::Eq(rest, zero), hn::CopySign(zero, y), moved);
}

}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SARDONYX_KERNELS_REMAINDER_INL_H
