// What register tiles, those of kernels/gemm_block above all, multiply and add up before it is
// stored. Included once a target, after hwy/highway.h.

#if defined(SARDONYX_GEMM_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SARDONYX_GEMM_PRODUCTS_INL_H_
#undef SARDONYX_GEMM_PRODUCTS_INL_H_
#else
#define SARDONYX_GEMM_PRODUCTS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/tile_store-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Two streams to fetch into the second-level cache, so many bytes further at each k.
struct Ahead {
  const char* at[2];
  int64_t step[2];
};
// Steps from a fetch to the next: a line of cache is two of the shorter vectors. Full tiles that
// share a panel with many others fetch half as often, for what they ask for twice or more costs
// them a twentieth of their time with AVX2, a thirtieth with AVX-512 (Granite Rapids).
constexpr int kFetch = hn::MaxLanes(hn::ScalableTag<float>()) == 16 ? 1 : 2, kSeldom = 2 * kFetch;

template <class D, class V, int kSplit, int kM, int kNV>
HWY_INLINE void Clear(D d, V (&acc)[kSplit][kM][kNV]) {
#pragma GCC unroll 4
  for (int s = 0; s < kSplit; ++s) {
#pragma GCC unroll 24
    for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kNV; ++v) acc[s][r][v] = hn::Zero(d);
    }
  }
}

// Adds all splits to the first.
template <class V, int kSplit, int kM, int kNV>
HWY_INLINE void JoinSplits(V (&acc)[kSplit][kM][kNV]) {
#pragma GCC unroll 4
  for (int s = 1; s < kSplit; ++s) {
#pragma GCC unroll 24
    for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kNV; ++v) acc[0][r][v] = hn::Add(acc[0][r][v], acc[s][r][v]);
    }
  }
}

// acc += *a * b. *a can be an operand in memory of both multiplications of a wide tile: loaded into
// a register, as the compiler would, it takes a third more instructions, and the processor sees
// less far ahead when a tile ends. Volatile, for so the rows keep their order; with AVX2 long sums
// gain by that alone, short ones lose.
template <bool kLong, int kNV, class D, class V>
HWY_INLINE void AddRow(D d, const float* a, [[maybe_unused]] bool in_memory, const V (&b)[kNV],
                       V (&acc)[kNV]) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (kNV == 2) {
    if (in_memory) {
      auto sum0 = acc[0].raw, sum1 = acc[1].raw;
      asm volatile(
          "vfmadd231ps %2%{1to16%}, %3, %0\n\t"
          "vfmadd231ps %2%{1to16%}, %4, %1"
          : "+&v"(sum0), "+&v"(sum1)
          : "m"(*a), "v"(b[0].raw), "v"(b[1].raw));
      acc[0] = V{sum0};
      acc[1] = V{sum1};
      return;
    }
  }
#elif HWY_TARGET == HWY_AVX2
  if constexpr (kLong && kNV == 2) {
    auto sum0 = acc[0].raw, sum1 = acc[1].raw, value = sum0;
    asm volatile(
        "vbroadcastss %3, %2\n\t"
        "vfmadd231ps %2, %4, %0\n\t"
        "vfmadd231ps %2, %5, %1"
        : "+&x"(sum0), "+&x"(sum1), "=&x"(value)
        : "m"(*a), "x"(b[0].raw), "x"(b[1].raw));
    acc[0] = V{sum0};
    acc[1] = V{sum1};
    return;
  }
#endif
  const V value = hn::Set(d, *a);
#pragma GCC unroll 4
  for (int v = 0; v < kNV; ++v) acc[v] = hn::MulAdd(value, b[v], acc[v]);
}

// acc += column s of A * row b. Every third row of A has a pointer, every second is an operand in
// memory: of all rows, these would be more loads than there are products, and so take longer where
// as many of both begin in a cycle (Emerald Rapids: 176 instead of 163 GFLOP/s).
template <bool kLong, int kPanel, size_t kThirds, int kM, int kNV, class D, class V>
HWY_INLINE void AddStep(D d, const float* const (&at)[kThirds], int64_t lda, int64_t s,
                        const float* HWY_RESTRICT b, V (&acc)[kM][kNV]) {
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(D()));
  V bv[kNV];
#pragma GCC unroll 4
  for (int v = 0; v < kPanel / kL; ++v) bv[v] = hn::LoadU(d, b + v * kL);
  if constexpr (kPanel < kNV * kL) {
    constexpr int64_t kLast = (kNV - 1) * kL;
    bv[kNV - 1] = hn::MaskedLoad(hn::FirstN(d, kPanel - kLast), d, b + kLast);
  }
#pragma GCC unroll 24
  for (int r = 0; r < kM; ++r) {
    AddRow<kLong>(d, at[r / 3] + r % 3 * lda + s, r % 2 == 0, bv, acc[r]);
  }
}

// acc += a[kM, steps] * b. Each kEvery steps fetch.
template <int kPanel, int kEvery, int kM, int kNV, int kSplit, class D, class V>
HWY_INLINE void AddProducts(D d, const float* a, int64_t lda, int64_t steps,
                            const float* HWY_RESTRICT b, Ahead& ahead, V (&acc)[kSplit][kM][kNV]) {
  constexpr int kSteps = std::max(kSplit, kEvery);
  // One for each row are more than there are general registers.
  const float* at[(kM + 2) / 3];
#pragma GCC unroll 6
  for (const float*& third : at) {
    third = Kept(a);
    a += 3 * lda;
  }
  const auto advance = [&](int64_t count) {
#pragma GCC unroll 6
    for (const float*& third : at) third = Kept(third + count);
    b += count * kPanel;
  };
  for (int64_t left = steps / kSteps; left > 0; --left) {
#pragma GCC unroll 4
    for (int s = 0; s < kSteps; ++s) {
      if (kNV > 1 && s % kEvery == 0) {  // a narrow tile has no time beside its loads
        for (int i = 0; i < 2; ++i) {
          __builtin_prefetch(ahead.at[i], 0, 2);
          ahead.at[i] += kEvery * ahead.step[i];
        }
      }
      AddStep<kEvery != kFetch, kPanel>(d, at, lda, s, b + s * kPanel, acc[s % kSplit]);
    }
    advance(kSteps);
  }
  if constexpr (kSteps > 1) {
    for (int64_t left = steps % kSteps; left > 0; --left) {
      AddStep<kEvery != kFetch, kPanel>(d, at, lda, 0, b, acc[0]);
      advance(1);
    }
  }
}

// acc += a[kM, steps] * b, every split a range of K.
template <int kPanel, int kM, int kNV, int kSplit, class D, class V>
HWY_INLINE void AddRanges(D d, const float* a, int64_t lda, int64_t steps,
                          const float* HWY_RESTRICT b, V (&acc)[kSplit][kM][kNV]) {
  const int64_t range = steps / kSplit;
  const float *at[kSplit][1], *of_b[kSplit];
#pragma GCC unroll 4
  for (int s = 0; s < kSplit; ++s) {
    at[s][0] = a + s * range;
    of_b[s] = b + s * range * kPanel;
  }
  for (int64_t i = 0; i < range; ++i) {
#pragma GCC unroll 4
    for (int s = 0; s < kSplit; ++s) {
      AddStep<false, kPanel>(d, at[s], lda, i, of_b[s], acc[s]);
      of_b[s] += kPanel;
    }
  }
  for (int64_t i = kSplit * range; i < steps; ++i) {
    at[0][0] = a + i;
    AddStep<false, kPanel>(d, at[0], lda, 0, b + i * kPanel, acc[0]);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#endif
