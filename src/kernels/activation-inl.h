// What each kind of Activation does to a vector. Included once a target, after hwy/highway.h.

#if defined(SARDONYX_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SARDONYX_ACTIVATION_INL_H_
#undef SARDONYX_ACTIVATION_INL_H_
#else
#define SARDONYX_ACTIVATION_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/activation.h"
#include "kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {

// f alone, without scale, shift and rounding.
template <Activation::Kind kKind>
class ActivationFunction {
 public:
  using D = hn::ScalableTag<float>;
  using V = hn::Vec<D>;

  explicit ActivationFunction(const Activation& a)
      : p0_(hn::Set(D(), a.p[0])),
        p1_(hn::Set(D(), a.p[1])),
        p2_(hn::Set(D(), a.p[2])),
        p3_(hn::Set(D(), a.p[3])) {}

  HWY_INLINE V operator()(V x) const {
    using Kind = Activation::Kind;
    const D d;
    if constexpr (kKind == Kind::kClamp) return AtMost(d, p1_, AtLeast(d, p0_, x));
    if constexpr (kKind == Kind::kHardSwish) {
      return hn::Mul(x, AtMost(d, p3_, AtLeast(d, p2_, hn::MulAdd(x, p0_, p1_))));
    }
    if constexpr (kKind == Kind::kSigmoid) return VecSigmoid(d, x);
    if constexpr (kKind == Kind::kTanh) return VecTanh(d, x);
    if constexpr (kKind == Kind::kGeluTanh) return VecGeluTanh(d, x);
    if constexpr (kKind == Kind::kLeakyRelu) return VecLeakyRelu(d, x, p0_);
    if constexpr (kKind == Kind::kSoftplus) return VecSoftplus(d, x);
    if constexpr (kKind == Kind::kMish) return VecMish(d, x);
    if constexpr (kKind == Kind::kElu) return VecElu(d, x, p0_);
    return x;
  }

 private:
  V p0_, p1_, p2_, p3_;
};
template <>
class ActivationFunction<Activation::Kind::kSwish> {
 public:
  using D = hn::ScalableTag<float>;
  using V = hn::Vec<D>;

  explicit ActivationFunction(const Activation& a) : swish_(D(), hn::Set(D(), a.p[0])) {}
  HWY_INLINE V operator()(V x) const { return swish_(D(), x); }

 private:
  VecSwish<D> swish_;
};
template <>
class ActivationFunction<Activation::Kind::kGelu> {
 public:
  using D = hn::ScalableTag<float>;
  using V = hn::Vec<D>;

  explicit ActivationFunction(const Activation& a) : gelu_(D(), hn::Set(D(), a.p[0])) {}
  HWY_INLINE V operator()(V x) const { return gelu_(D(), x); }

 private:
  VecGelu<D> gelu_;
};

}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
