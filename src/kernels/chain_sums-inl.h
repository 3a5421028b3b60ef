// Sums in registers that are made of several chains. Included once a target, after hwy/highway.h.

#if defined(SARDONYX_CHAIN_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SARDONYX_CHAIN_SUMS_INL_H_
#undef SARDONYX_CHAIN_SUMS_INL_H_
#else
#define SARDONYX_CHAIN_SUMS_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/chains.h"
#include "kernels/tile_store-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {

// Keeps the sums of the chains before in memory, while registers sum the next one.
template <int kRows, int kColumns, class D>
class ChainSums {
  using V = hwy::HWY_NAMESPACE::Vec<D>;
  static constexpr size_t kLanes = hwy::HWY_NAMESPACE::MaxLanes(D());

 public:
  // Takes the sums of a chain that ends, and sets them to zero for the next.
  HWY_INLINE void End(D d, V (&acc)[kRows][kColumns]) {
    namespace hn = hwy::HWY_NAMESPACE;
    AddTo(d, acc);
#pragma GCC unroll 16
    for (int i = 0; i < kRows * kColumns; ++i) {
      V* const sum = &acc[i / kColumns][i % kColumns];
      hn::Store(*sum, d, sums_ + i * kLanes);
      *sum = hn::Zero(d);
    }
    any_ = true;
  }

  // Adds what it has to the last chain's.
  HWY_INLINE void AddTo(D d, V (&acc)[kRows][kColumns]) const {
    namespace hn = hwy::HWY_NAMESPACE;
    if (!any_) return;
    const float* const sums = Kept(sums_);  // GCC would warn that they may not be set
#pragma GCC unroll 16
    for (int i = 0; i < kRows * kColumns; ++i) {
      V* const sum = &acc[i / kColumns][i % kColumns];
      *sum = hn::Add(hn::Load(d, sums + i * kLanes), *sum);
    }
  }

 private:
  HWY_ALIGN float sums_[kRows * kColumns * kLanes];
  bool any_ = false;
};

}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#endif  // include guard of each target
