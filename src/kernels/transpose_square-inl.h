// Squares of words in registers, their rows as columns. No guard but Highway's: compiled once a
// target.
#if defined(SARDONYX_TRANSPOSE_SQUARE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SARDONYX_TRANSPOSE_SQUARE_INL_H_
#undef SARDONYX_TRANSPOSE_SQUARE_INL_H_
#else
#define SARDONYX_TRANSPOSE_SQUARE_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// v[i] has row i, and then column i; vectors of 4 or 8 lanes of 32 bits.
template <class D, class V = hn::Vec<D>, int kT>
HWY_INLINE void TransposeSquare(D d, V (&v)[kT]) {
  static_assert(sizeof(hn::TFromD<D>) == 4 && (kT == 4 || kT == 8));
  static_assert(static_cast<int>(hn::MaxLanes(D())) == kT);
  const hn::Repartition<double, D> wide;
  V quad[kT];  // quad[4 * g + i]: column i of each 4 x 4 square of rows 4 * g ...
#pragma GCC unroll 2
  for (int g = 0; g < kT; g += 4) {
    const auto lo01 = hn::BitCast(wide, hn::InterleaveLower(d, v[g], v[g + 1]));
    const auto hi01 = hn::BitCast(wide, hn::InterleaveUpper(d, v[g], v[g + 1]));
    const auto lo23 = hn::BitCast(wide, hn::InterleaveLower(d, v[g + 2], v[g + 3]));
    const auto hi23 = hn::BitCast(wide, hn::InterleaveUpper(d, v[g + 2], v[g + 3]));
    quad[g] = hn::BitCast(d, hn::InterleaveLower(wide, lo01, lo23));
    quad[g + 1] = hn::BitCast(d, hn::InterleaveUpper(wide, lo01, lo23));
    quad[g + 2] = hn::BitCast(d, hn::InterleaveLower(wide, hi01, hi23));
    quad[g + 3] = hn::BitCast(d, hn::InterleaveUpper(wide, hi01, hi23));
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    if constexpr (kT == 4) {
      v[i] = quad[i];
    } else {
      v[i] = hn::ConcatLowerLower(d, quad[4 + i], quad[i]);
      v[4 + i] = hn::ConcatUpperUpper(d, quad[4 + i], quad[i]);
    }
  }
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SARDONYX_TRANSPOSE_SQUARE_INL_H_
