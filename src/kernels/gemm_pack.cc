// Panels of B as GemmBlock reads them, and the transposition that makes them of columns.

#include <algorithm>

#include "kernels/gemm_block.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm_pack.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"
#include "kernels/transpose_square-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using FullTag = hn::ScalableTag<float>;
using NarrowTag = hn::CappedTag<float, 8>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(FullTag()));
constexpr int kWidth = 2 * kLanes;  // as GemmPanelWidth

void Transpose(const float* from, int64_t ldfrom, int64_t rows, int64_t cols, float* to,
               int64_t ldto) {
  const NarrowTag d;
  constexpr int64_t kT = static_cast<int64_t>(hn::MaxLanes(NarrowTag()));
  int64_t i = 0;
  for (; i + kT <= rows; i += kT) {
    int64_t k = 0;
    for (; k + kT <= cols; k += kT) {
      hn::Vec<NarrowTag> square[kT];
#pragma GCC unroll 8
      for (int64_t r = 0; r < kT; ++r) square[r] = hn::LoadU(d, from + (k + r) * ldfrom + i);
      TransposeSquare(d, square);
#pragma GCC unroll 8
      for (int64_t r = 0; r < kT; ++r) hn::StoreU(square[r], d, to + (i + r) * ldto + k);
    }
    for (; k < cols; ++k) {
      for (int64_t r = i; r < i + kT; ++r) to[r * ldto + k] = from[k * ldfrom + r];
    }
  }
  for (; i < rows; ++i) {
    for (int64_t k = 0; k < cols; ++k) to[i * ldto + k] = from[k * ldfrom + i];
  }
}

void Pack(int64_t k, int64_t n, const float* b, int64_t ldb, bool b_transposed, int64_t n0,
          int64_t n1, float* packed) {
  const FullTag d;
  for (int64_t p = n0; p < n1; p += kWidth) {
    const int64_t columns = std::min<int64_t>(kWidth, n - p);
    const int64_t width = RoundUp(columns, kPanelGranule);
    float* to = packed + p * k;
    if (b_transposed) {
      Transpose(b + p * ldb, ldb, k, columns, to, width);
      if (columns < width) {
        for (int64_t i = 0; i < k; ++i) {
          std::fill(to + i * width + columns, to + (i + 1) * width, 0.0f);
        }
      }
    } else if (columns == kWidth) {
      const float* from = b + p;
      for (int64_t i = 0; i < k; ++i, from += ldb, to += kWidth) {
        hn::StoreU(hn::LoadU(d, from), d, to);
        hn::StoreU(hn::LoadU(d, from + kLanes), d, to + kLanes);
      }
    } else {
      const float* from = b + p;
      for (int64_t i = 0; i < k; ++i, from += ldb, to += width) {
        std::copy(from, from + columns, to);
        std::fill(to + columns, to + width, 0.0f);
      }
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Pack);
HWY_EXPORT(Transpose);

void PackPanels(int64_t k, int64_t n, const float* b, int64_t ldb, bool b_transposed, int64_t n0,
                int64_t n1, float* packed) {
  HWY_DYNAMIC_DISPATCH(Pack)(k, n, b, ldb, b_transposed, n0, n1, packed);
}

void TransposeCopy(const float* from, int64_t ldfrom, int64_t rows, int64_t cols, float* to,
                   int64_t ldto) {
  HWY_DYNAMIC_DISPATCH(Transpose)(from, ldfrom, rows, cols, to, ldto);
}

}  // namespace sardonyx
#endif  // HWY_ONCE
