#include "kernels/gemv.h"

#include "kernels/chains.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemv.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Tag()));

// kM rows times kNV vectors of columns, B row by row.
template <int kM, int kNV, class D>
HWY_NOINLINE void Columns(D d, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb,
                          float* c, int64_t ldc) {
  using V = hn::Vec<D>;
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(D()));
  int64_t i = 0;
  do {
    const bool first = i == 0;
    V acc[kM][kNV];
#pragma GCC unroll 4
    for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kNV; ++v) acc[r][v] = hn::Zero(d);
    }
    for (const int64_t end = std::min(k, i + kOneChain); i < end; ++i, b += ldb) {
      V av[kM];
#pragma GCC unroll 4
      for (int r = 0; r < kM; ++r) av[r] = hn::Set(d, a[r * lda + i]);
#pragma GCC unroll 4
      for (int v = 0; v < kNV; ++v) {
        const V bv = hn::LoadU(d, b + v * kL);
#pragma GCC unroll 4
        for (int r = 0; r < kM; ++r) acc[r][v] = hn::MulAdd(av[r], bv, acc[r][v]);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kNV; ++v) {
        float* const to = c + r * ldc + v * kL;
        hn::StoreU(first ? acc[r][v] : hn::Add(hn::LoadU(d, to), acc[r][v]), d, to);
      }
    }
  } while (i < k);
}

// kM rows times kDepth rows of B on top of C, which stays in the cache.
template <int kM, int kDepth>
HWY_NOINLINE void AddRows(int64_t n, const float* a, int64_t lda, const float* b, int64_t ldb,
                          float* c, int64_t ldc) {
  const Tag d;
  hn::Vec<Tag> av[kM][kDepth];
#pragma GCC unroll 4
  for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 8
    for (int i = 0; i < kDepth; ++i) av[r][i] = hn::Set(d, a[r * lda + i]);
  }
  for (int64_t j = 0; j < n; j += kLanes) {
    hn::Vec<Tag> acc[kM];
#pragma GCC unroll 4
    for (int r = 0; r < kM; ++r) acc[r] = hn::LoadU(d, c + r * ldc + j);
#pragma GCC unroll 8
    for (int i = 0; i < kDepth; ++i) {
      const auto bv = hn::LoadU(d, b + i * ldb + j);
#pragma GCC unroll 4
      for (int r = 0; r < kM; ++r) acc[r] = hn::MulAdd(av[r][i], bv, acc[r]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kM; ++r) hn::StoreU(acc[r], d, c + r * ldc + j);
  }
}

// `n` columns, whole vectors. Many of them go by rows of B, which memory gives faster than pieces
// of rows; the order of each sum is the same.
template <int kM>
void Vectors(int64_t n, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb,
             float* c, int64_t ldc) {
  constexpr int kNV = kM <= 2 ? 4 : 2;
  constexpr int kDepth = kM == 1 ? 8 : 4;
  constexpr int64_t kWide = 256, kWidest = 4096 / kM / kLanes * kLanes;
  const Tag d;
  int64_t j = 0;
  while (n - j >= kWide) {
    const int64_t part = std::min(n - j, kWidest);
    HWY_ALIGN float chain[kM * kWidest];
    int64_t i = 0;
    do {
      const bool first = i == 0;
      float* const sums = first ? c + j : chain;
      const int64_t ld = first ? ldc : kWidest, end = std::min(k, i + kOneChain);
      for (int r = 0; r < kM; ++r) std::fill_n(sums + r * ld, part, 0.0f);
      for (; i + kDepth <= end; i += kDepth) {
        AddRows<kM, kDepth>(part, a + i, lda, b + i * ldb + j, ldb, sums, ld);
      }
      for (; i < end; ++i) AddRows<kM, 1>(part, a + i, lda, b + i * ldb + j, ldb, sums, ld);
      for (int r = 0; r < kM && !first; ++r) {
        float* const to = c + r * ldc + j;
        for (int64_t at = 0; at < part; at += kLanes) {
          const auto sum = hn::Load(d, chain + r * kWidest + at);
          hn::StoreU(hn::Add(hn::LoadU(d, to + at), sum), d, to + at);
        }
      }
    } while (i < k);
    j += part;
  }
  for (; j + kNV * kLanes <= n; j += kNV * kLanes) {
    Columns<kM, kNV>(d, k, a, lda, b + j, ldb, c + j, ldc);
  }
  for (; j < n; j += kLanes) Columns<kM, 1>(d, k, a, lda, b + j, ldb, c + j, ldc);
}

template <int kM>
void RowMajor(int64_t n0, int64_t n1, int64_t k, const float* a, int64_t lda, const float* b,
              int64_t ldb, float* c, int64_t ldc) {
  int64_t n = n0 + (n1 - n0) / kLanes * kLanes;
  Vectors<kM>(n - n0, k, a, lda, b + n0, ldb, c + n0, ldc);
  const hn::CappedTag<float, 4> few;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(few));
  for (; n + lanes <= n1; n += lanes) Columns<kM, 1>(few, k, a, lda, b + n, ldb, c + n, ldc);
  const hn::CappedTag<float, 1> one;
  for (; n < n1; ++n) Columns<kM, 1>(one, k, a, lda, b + n, ldb, c + n, ldc);
}

// Dot products of kM rows of A with kN rows of the transposed B, each `apart` behind the one
// before.
template <int kM, int kN>
HWY_NOINLINE void Dots(int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb,
                       int64_t apart, float* c, int64_t ldc) {
  const Tag d;
  using V = hn::Vec<Tag>;
  int64_t i = 0;
  do {
    const bool first = i == 0;
    V acc[kM][kN];
#pragma GCC unroll 4
    for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 4
      for (int j = 0; j < kN; ++j) acc[r][j] = hn::Zero(d);
    }
    const int64_t end = std::min(k, i + kOneChain * kLanes);
    for (; i + kLanes <= end; i += kLanes) {
      V av[kM];
#pragma GCC unroll 4
      for (int r = 0; r < kM; ++r) av[r] = hn::LoadU(d, a + r * lda + i);
#pragma GCC unroll 4
      for (int j = 0; j < kN; ++j) {
        const V bv = hn::LoadU(d, b + j * apart * ldb + i);
#pragma GCC unroll 4
        for (int r = 0; r < kM; ++r) acc[r][j] = hn::MulAdd(av[r], bv, acc[r][j]);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 4
      for (int j = 0; j < kN; ++j) {
        float sum = hn::GetLane(hn::SumOfLanes(d, acc[r][j]));
        for (int64_t t = i; t < end; ++t) sum += a[r * lda + t] * b[j * apart * ldb + t];
        float* const to = c + r * ldc + j * apart;
        *to = first ? sum : *to + sum;
      }
    }
    i = end;
  } while (i < k);
}

// Four streams of rows, which memory gives faster than one.
template <int kM>
void Transposed(int64_t n0, int64_t n1, int64_t k, const float* a, int64_t lda, const float* b,
                int64_t ldb, float* c, int64_t ldc) {
  const int64_t apart = (n1 - n0) / 4;
  for (int64_t n = n0; n < n0 + apart; ++n) {
    Dots<kM, 4>(k, a, lda, b + n * ldb, ldb, apart, c + n, ldc);
  }
  for (int64_t n = n0 + 4 * apart; n < n1; ++n) {
    Dots<kM, 1>(k, a, lda, b + n * ldb, ldb, 1, c + n, ldc);
  }
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
