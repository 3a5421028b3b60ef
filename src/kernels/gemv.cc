#include "kernels/gemv.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemv.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Tag()));

// kM rows times kNV vectors of columns, B row by row.
template <int kM, int kNV>
HWY_NOINLINE void Columns(int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb,
                          float* c, int64_t ldc) {
  const Tag d;
  using V = hn::Vec<Tag>;
  V acc[kM][kNV];
#pragma GCC unroll 4
  for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kNV; ++v) acc[r][v] = hn::Zero(d);
  }
  for (int64_t i = 0; i < k; ++i, b += ldb) {
    V av[kM];
#pragma GCC unroll 4
    for (int r = 0; r < kM; ++r) av[r] = hn::Set(d, a[r * lda + i]);
#pragma GCC unroll 4
    for (int v = 0; v < kNV; ++v) {
      const V bv = hn::LoadU(d, b + v * kLanes);
#pragma GCC unroll 4
      for (int r = 0; r < kM; ++r) acc[r][v] = hn::MulAdd(av[r], bv, acc[r][v]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kNV; ++v) hn::StoreU(acc[r][v], d, c + r * ldc + v * kLanes);
  }
}

template <int kM>
void RowMajor(int64_t n0, int64_t n1, int64_t k, const float* a, int64_t lda, const float* b,
              int64_t ldb, float* c, int64_t ldc) {
  constexpr int kNV = kM <= 2 ? 4 : 2;
  int64_t n = n0;
  for (; n + kNV * kLanes <= n1; n += kNV * kLanes) {
    Columns<kM, kNV>(k, a, lda, b + n, ldb, c + n, ldc);
  }
  for (; n + kLanes <= n1; n += kLanes) Columns<kM, 1>(k, a, lda, b + n, ldb, c + n, ldc);
  for (; n < n1; ++n) {
    float sum[kM] = {};
    for (int64_t i = 0; i < k; ++i) {
      for (int r = 0; r < kM; ++r) sum[r] += a[r * lda + i] * b[i * ldb + n];
    }
    for (int r = 0; r < kM; ++r) c[r * ldc + n] = sum[r];
  }
}

// Dot products of kM rows of A with kN rows of the transposed B.
template <int kM, int kN>
HWY_NOINLINE void Dots(int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb,
                       float* c, int64_t ldc) {
  const Tag d;
  using V = hn::Vec<Tag>;
  V acc[kM][kN];
#pragma GCC unroll 4
  for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < kN; ++j) acc[r][j] = hn::Zero(d);
  }
  int64_t i = 0;
  for (; i + kLanes <= k; i += kLanes) {
    V av[kM];
#pragma GCC unroll 4
    for (int r = 0; r < kM; ++r) av[r] = hn::LoadU(d, a + r * lda + i);
#pragma GCC unroll 4
    for (int j = 0; j < kN; ++j) {
      __builtin_prefetch(b + (kN + j) * ldb + i, 0, 2);  // the next rows
      const V bv = hn::LoadU(d, b + j * ldb + i);
#pragma GCC unroll 4
      for (int r = 0; r < kM; ++r) acc[r][j] = hn::MulAdd(av[r], bv, acc[r][j]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < kN; ++j) {
      float sum = hn::GetLane(hn::SumOfLanes(d, acc[r][j]));
      for (int64_t t = i; t < k; ++t) sum += a[r * lda + t] * b[j * ldb + t];
      c[r * ldc + j] = sum;
    }
  }
}

template <int kM>
void Transposed(int64_t n0, int64_t n1, int64_t k, const float* a, int64_t lda, const float* b,
                int64_t ldb, float* c, int64_t ldc) {
  int64_t n = n0;
  for (; n + 4 <= n1; n += 4) Dots<kM, 4>(k, a, lda, b + n * ldb, ldb, c + n, ldc);
  for (; n < n1; ++n) Dots<kM, 1>(k, a, lda, b + n * ldb, ldb, c + n, ldc);
}

template <int kM>
void Rows(int64_t n0, int64_t n1, int64_t k, const float* a, int64_t lda, const float* b,
          int64_t ldb, bool b_transposed, float* c, int64_t ldc) {
  if (b_transposed) {
    Transposed<kM>(n0, n1, k, a, lda, b, ldb, c, ldc);
  } else {
    RowMajor<kM>(n0, n1, k, a, lda, b, ldb, c, ldc);
  }
}

void Run(int64_t m, int64_t n0, int64_t n1, int64_t k, const float* a, int64_t lda, const float* b,
         int64_t ldb, bool b_transposed, float* c, int64_t ldc) {
  switch (m) {
    case 1: return Rows<1>(n0, n1, k, a, lda, b, ldb, b_transposed, c, ldc);
    case 2: return Rows<2>(n0, n1, k, a, lda, b, ldb, b_transposed, c, ldc);
    case 3: return Rows<3>(n0, n1, k, a, lda, b, ldb, b_transposed, c, ldc);
    default: return Rows<4>(n0, n1, k, a, lda, b, ldb, b_transposed, c, ldc);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Run);

void GemvBlock(int64_t m, int64_t n0, int64_t n1, int64_t k, const float* a, int64_t lda,
               const float* b, int64_t ldb, bool b_transposed, float* c, int64_t ldc) {
  HWY_DYNAMIC_DISPATCH(Run)(m, n0, n1, k, a, lda, b, ldb, b_transposed, c, ldc);
}

}  // namespace sardonyx
#endif  // HWY_ONCE
