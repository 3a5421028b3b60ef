// The columns of windows in planes: a row of which the rows are joined already.

// One definition for each SIMD target.
#if defined(SARDONYX_KERNELS_POOL_COLUMNS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SARDONYX_KERNELS_POOL_COLUMNS_INL_H
#undef SARDONYX_KERNELS_POOL_COLUMNS_INL_H
#else
#define SARDONYX_KERNELS_POOL_COLUMNS_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/pool_planes.h"
#include "kernels/row_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <PlanePool kKind, class V>
HWY_INLINE V JoinVectors(V a, V b) {
  if constexpr (kKind == PlanePool::kMax) return hn::Max(a, b);
  return hn::Add(a, b);
}
template <PlanePool kKind, typename T>
HWY_INLINE T Join(T a, T b) {
  if constexpr (kKind == PlanePool::kMax) return a > b ? a : b;
  return static_cast<T>(a + b);
}

// Outputs of a row, or of rows behind each other: where they go, and what means are multiplied by.
// `exceeds`: whole vectors may be written.
template <typename T>
struct PoolRow {
  const T* inverse;
  T* to;
  int64_t count;
  bool exceeds;
};

// kS columns of each of a vector's outputs, kS apart.
template <int kS, class D, typename T>
HWY_INLINE void LoadSteps(D d, const T* from, hn::Vec<D> (&of)[kS]) {
  if constexpr (kS == 1) of[0] = hn::LoadU(d, from);
  if constexpr (kS == 2) hn::LoadInterleaved2(d, from, of[0], of[1]);
  if constexpr (kS == 3) hn::LoadInterleaved3(d, from, of[0], of[1], of[2]);
  if constexpr (kS == 4) hn::LoadInterleaved4(d, from, of[0], of[1], of[2], of[3]);
}

// Joins the columns of a vector's outputs: kTaps neighbours, or as many as the window has. Reads
// whole vectors, at most kS + 1 beyond the last column that is needed.
template <PlanePool kKind, int kS, int kTaps, class D, typename T>
HWY_INLINE hn::Vec<D> JoinTaps(D d, const T* from, int64_t kernel, int64_t step) {
  hn::Vec<D> of[kS];
  LoadSteps<kS>(d, from, of);
  auto acc = of[0];
  if constexpr (kTaps > 0) {
#pragma GCC unroll 3
    for (int k = 1; k < kTaps; ++k) {
      if (k % kS == 0) LoadSteps<kS>(d, from + k, of);
      acc = JoinVectors<kKind>(acc, of[k % kS]);
    }
    return acc;
  }
  for (int64_t k = 0;;) {
    // Of neighbouring taps one load has kS.
    const int64_t taken = step == 1 ? std::min<int64_t>(kS, kernel - k) : 1;
#pragma GCC unroll 3
    for (int i = 1; i < kS; ++i) {
      if (i < taken) acc = JoinVectors<kKind>(acc, of[i]);
    }
    k += taken;
    if (k == kernel) return acc;
    LoadSteps<kS>(d, from + k * step, of);
    acc = JoinVectors<kKind>(acc, of[0]);
  }
}

// row.to[o] = join of columns[o * kS + k * dilation] over k.
template <PlanePool kKind, int kS, int kTaps, typename T>
void JoinColumns(const PoolShape& shape, const T* columns, const PoolRow<T>& row) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), count = row.count;
  const auto joined = [&](int64_t o) HWY_ATTR {
    auto acc = JoinTaps<kKind, kS, kTaps>(d, columns + o * kS, shape.kernel[2], shape.dilation[2]);
    if constexpr (kKind != PlanePool::kMax) acc = hn::Mul(acc, hn::LoadU(d, row.inverse + o));
    return acc;
  };
  int64_t o = 0;
  for (const int64_t end = row.exceeds ? count : count - lanes + 1; o < end; o += lanes) {
    hn::StoreU(joined(o), d, row.to + o);
  }
  if (o >= count) return;
  if (count >= lanes) {
    hn::StoreU(joined(count - lanes), d, row.to + count - lanes);  // some of them again
  } else {
    StorePart(joined(o), d, row.to + o, count - o);
  }
}

// The joins of four vectors' lanes.
template <PlanePool kKind, class D, class V = hn::Vec<D>>
HWY_INLINE V JoinLanesOfFour(D d, const V (&of)[4]) {
  V pairs[2];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    pairs[i] = JoinVectors<kKind>(hn::InterleaveLower(d, of[2 * i], of[2 * i + 1]),
                                  hn::InterleaveUpper(d, of[2 * i], of[2 * i + 1]));
  }
  return JoinVectors<kKind>(hn::ConcatLowerLower(d, pairs[1], pairs[0]),
                            hn::ConcatUpperUpper(d, pairs[1], pairs[0]));
}

// Outputs, four at a time, of four neighbouring columns or more; returns how many are done.
template <PlanePool kKind>
HWY_INLINE int64_t JoinFours(const float* columns, int64_t kernel, int64_t stride,
                             const PoolRow<float>& row) {
  const hn::CappedTag<float, 4> d;
  if constexpr (hn::MaxLanes(d) < 4) return 0;
  const int64_t whole = kernel / 4 * 4;
  // Of the last four those that `whole` lacks.
  const auto seen = hn::FirstN(d, static_cast<size_t>(4 - (kernel - whole)));
  int64_t o = 0;
  for (; o + 4 <= row.count; o += 4, columns += 4 * stride) {
    hn::Vec<decltype(d)> acc[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) acc[i] = hn::LoadU(d, columns + i * stride);
    for (int64_t k = 4; k < whole; k += 4) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        acc[i] = JoinVectors<kKind>(acc[i], hn::LoadU(d, columns + i * stride + k));
      }
    }
    if (whole < kernel) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const auto last = hn::LoadU(d, columns + i * stride + kernel - 4);
        acc[i] = JoinVectors<kKind>(
            acc[i], kKind == PlanePool::kMax ? last : hn::IfThenZeroElse(seen, last));
      }
    }
    auto joined = JoinLanesOfFour<kKind>(d, acc);
    if constexpr (kKind != PlanePool::kMax) {
      joined = hn::Mul(joined, hn::LoadU(d, row.inverse + o));
    }
    hn::StoreU(joined, d, row.to + o);
  }
  return o;
}

// As JoinColumns, of long steps.
template <PlanePool kKind, typename T>
void JoinFarColumns(const PoolShape& shape, const T* columns, const PoolRow<T>& row) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t kernel = shape.kernel[2], stride = shape.stride[2], step = shape.dilation[2];
  int64_t o = 0;
  if constexpr (std::is_same_v<T, float>) {
    if (step == 1 && kernel >= 4 && kernel < 2 * lanes) {
      o = JoinFours<kKind>(columns, kernel, stride, row);
    }
  }
  for (; o < row.count; ++o) {
    const T* const from = columns + o * stride;
    T acc = from[0];
    int64_t k = 1;
    if constexpr (sizeof(T) >= sizeof(float)) {
      if (step == 1 && kernel >= 2 * lanes) {
        auto sums = hn::LoadU(d, from);
        for (k = lanes; k + lanes <= kernel; k += lanes) {
          sums = JoinVectors<kKind>(sums, hn::LoadU(d, from + k));
        }
        acc = hn::GetLane(kKind == PlanePool::kMax ? hn::MaxOfLanes(d, sums)
                                                   : hn::SumOfLanes(d, sums));
      }
    }
    for (; k < kernel; ++k) acc = Join<kKind>(acc, from[k * step]);
    row.to[o] = kKind == PlanePool::kMax ? acc : static_cast<T>(acc * row.inverse[o]);
  }
}

template <PlanePool kKind, typename T>
using Joining = void (*)(const PoolShape&, const T*, const PoolRow<T>&);
template <PlanePool kKind, int kS, typename T>
Joining<kKind, T> JoiningOf(const PoolShape& shape) {
  if constexpr (kS <= 2 && sizeof(T) == sizeof(float)) {
    if (shape.dilation[2] == 1 && shape.kernel[2] == 2) return JoinColumns<kKind, kS, 2, T>;
    if (shape.dilation[2] == 1 && shape.kernel[2] == 3) return JoinColumns<kKind, kS, 3, T>;
  }
  return JoinColumns<kKind, kS, 0, T>;
}
template <PlanePool kKind, typename T>
Joining<kKind, T> JoiningOf(const PoolShape& shape) {
  switch (shape.stride[2]) {
    case 1: return JoiningOf<kKind, 1, T>(shape);
    case 2: return JoiningOf<kKind, 2, T>(shape);
    case 3: return JoiningOf<kKind, 3, T>(shape);
    case 4: return JoiningOf<kKind, 4, T>(shape);
    default: return JoinFarColumns<kKind, T>;
  }
}

}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SARDONYX_KERNELS_POOL_COLUMNS_INL_H
