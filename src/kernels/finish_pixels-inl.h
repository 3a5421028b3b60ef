// What kernels of convolutions that sum pixels of a line in registers do with the sums. Included
// once a target, after hwy/highway.h.

#if defined(SARDONYX_FINISH_PIXELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SARDONYX_FINISH_PIXELS_INL_H_
#undef SARDONYX_FINISH_PIXELS_INL_H_
#else
#define SARDONYX_FINISH_PIXELS_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/activation.h"
#include "kernels/gemm_epilogue.h"
#include "kernels/rounding-inl.h"
#include "kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {

// Finishes and stores the sums of kP neighbouring output pixels, the first of which is `pixel` of a
// line: this has their `epilogue`, `y`, and `y_pixel` from one to the next. The bias comes to the
// finished sum: were it where sums begin, each of their steps would be rounded to its size.
// kActivates: so does what ActivatesInRegisters.
template <bool kActivates, int kP, class D, class Line, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE void FinishPixels(D d, V (&acc)[kP], const Line& line, int64_t pixel, int64_t c) {
  namespace hn = hwy::HWY_NAMESPACE;
  const TileEpilogue& e = line.epilogue;
  if (e.bias != nullptr) {
    const V bias = hn::LoadU(d, e.bias + c);
#pragma GCC unroll 16
    for (int p = 0; p < kP; ++p) acc[p] = hn::Add(acc[p], bias);
  }
  if (e.residual != nullptr) {
    const float* residual = e.residual + pixel * e.residual_ld + c;
#pragma GCC unroll 16
    for (int p = 0; p < kP; ++p, residual += e.residual_ld) {
      acc[p] = hn::Add(acc[p], hn::LoadU(d, residual));
    }
  }
  if (e.clamp) {
    const V lo = hn::Set(d, e.lo), hi = hn::Set(d, e.hi);
#pragma GCC unroll 16
    for (int p = 0; p < kP; ++p) acc[p] = AtMost(d, hi, AtLeast(d, lo, acc[p]));
  }
  if (e.rounding != DType::kFloat32) {
#pragma GCC unroll 16
    for (int p = 0; p < kP; ++p) acc[p] = RoundTo(d, e.rounding, acc[p]);
  }
  if (kActivates && ActivatesInRegisters(e.activation)) {
    const Activation& a = e.activation;
    const V slope = hn::Set(d, a.p[0]), offset = hn::Set(d, a.p[1]), lo = hn::Set(d, a.p[2]),
            hi = hn::Set(d, a.p[3]), scale = hn::Set(d, a.scale), shift = hn::Set(d, a.shift);
#pragma GCC unroll 16
    for (int p = 0; p < kP; ++p) {
      const V gate = AtMost(d, hi, AtLeast(d, lo, hn::MulAdd(acc[p], slope, offset)));
      acc[p] = hn::MulAdd(hn::Mul(acc[p], gate), scale, shift);
    }
  }
  float* y = line.y + pixel * line.y_pixel + c;
#pragma GCC unroll 16
  for (int p = 0; p < kP; ++p, y += line.y_pixel) hn::StoreU(acc[p], d, y);
}

}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#endif  // include guard of each target
