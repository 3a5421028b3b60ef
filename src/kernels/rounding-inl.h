// Rounding of float32 vectors to the values of a 16-bit format, for results that are kept in
// float32 but belong to float16 or bfloat16. Included once a target, after hwy/highway.h.

#if defined(SARDONYX_ROUNDING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SARDONYX_ROUNDING_INL_H_
#undef SARDONYX_ROUNDING_INL_H_
#else
#define SARDONYX_ROUNDING_INL_H_
#endif

#include "base/dtype.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {

// To nearest, ties to even; NaN stays NaN. `to` is float16, bfloat16 or float32, which is exact.
template <class D, class V>
HWY_INLINE V RoundTo(D d, DType to, V value) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToUnsigned<D> bits;
  // To the upper bits of the number, where a half has as many: below, what to add and to keep.
  const auto round_bits = [&](uint32_t lower, uint32_t half) {
    const auto u = hn::BitCast(bits, value);
    const auto is_odd = hn::TestBit(u, hn::Set(bits, lower + 1));
    const auto add = hn::IfThenElse(is_odd, hn::Set(bits, half + 1), hn::Set(bits, half));
    const V rounded = hn::BitCast(d, hn::AndNot(hn::Set(bits, lower), hn::Add(u, add)));
    return hn::IfThenElse(hn::IsNaN(value), value, rounded);
  };
  if (to == DType::kFloat16) {
#if HWY_TARGET <= HWY_AVX2
    const hn::Rebind<hwy::float16_t, D> half;
    return hn::PromoteTo(d, hn::DemoteTo(half, value));
#else
    const V size = hn::Abs(value), large = hn::Set(d, 65520.0f), magic = hn::Set(d, 0.75f);
    V rounded = round_bits(0x1fff, 0x0fff);
    rounded = hn::IfThenElse(hn::Ge(size, large), hn::CopySign(hn::Inf(d), value), rounded);
    // Subnormal halves are multiples of 2^-24, as floats around 0.75 are.
    const V subnormal = hn::CopySign(hn::Sub(hn::Add(value, magic), magic), value);
    return hn::IfThenElse(hn::Lt(size, hn::Set(d, 0x1p-14f)), subnormal, rounded);
#endif
  }
  if (to == DType::kBFloat16) return round_bits(0xffff, 0x7fff);
  return value;
}

}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#endif
