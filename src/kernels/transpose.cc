#include "kernels/transpose.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/transpose.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class D, class V, size_t kRows>
HWY_INLINE void InterleaveHalves(D d, const V (&from)[kRows], V (&to)[kRows]) {
#pragma GCC unroll 8
  for (size_t k = 0; k < kRows / 2; ++k) {
    to[2 * k] = hn::InterleaveLower(d, from[k], from[k + kRows / 2]);
    to[2 * k + 1] = hn::InterleaveUpper(d, from[k], from[k + kRows / 2]);
  }
}

// Transposes the square block that the rows have in each of their 128 bits: interleaving row i with
// row i + N / 2, log2(N) times, does.
template <class D, class V, size_t kRows>
HWY_INLINE void TransposeRows(D d, V (&rows)[kRows]) {
  V other[kRows];
  InterleaveHalves(d, rows, other);
  InterleaveHalves(d, other, rows);
  if constexpr (kRows == 4) return;
  InterleaveHalves(d, rows, other);
  if constexpr (kRows == 16) return InterleaveHalves(d, other, rows);
  std::copy_n(other, kRows, rows);
}

// A square block of as many rows as d has lanes, in vectors of 128 bits, or 256 of four bytes each.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void TransposeBlock(D d, const T* in, int64_t in_stride, T* out, int64_t out_stride) {
  constexpr int64_t kRows = 16 / sizeof(T);
  hn::Vec<D> lower[kRows];
#pragma GCC unroll 16
  for (int64_t i = 0; i < kRows; ++i) lower[i] = hn::LoadU(d, in + i * in_stride);
  TransposeRows(d, lower);
  if constexpr (hn::MaxLanes(D()) == kRows) {
#pragma GCC unroll 16
    for (int64_t i = 0; i < kRows; ++i) hn::StoreU(lower[i], d, out + i * out_stride);
  } else {
    hn::Vec<D> upper[kRows];
#pragma GCC unroll 16
    for (int64_t i = 0; i < kRows; ++i) upper[i] = hn::LoadU(d, in + (kRows + i) * in_stride);
    TransposeRows(d, upper);
#pragma GCC unroll 16
    for (int64_t i = 0; i < kRows; ++i) {
      hn::StoreU(hn::ConcatLowerLower(d, upper[i], lower[i]), d, out + i * out_stride);
      hn::StoreU(hn::ConcatUpperUpper(d, upper[i], lower[i]), d, out + (kRows + i) * out_stride);
    }
  }
}

template <typename T>
HWY_INLINE void CopyElements(const T* in, int64_t count, T* out) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::LoadU(d, in + i), d, out + i);
  for (; i < count; ++i) out[i] = in[i];
}

// Planes to pixels; the last vector may overlap the one before.
template <int kPlanes, class D, typename T>
HWY_INLINE void Interleave(D d, const T* in, int64_t in_stride, T* out, int64_t pixels) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < pixels; i += lanes) {
    const int64_t at = std::min(i, pixels - lanes);
    const auto plane = [&](int p) HWY_ATTR { return hn::LoadU(d, in + p * in_stride + at); };
    T* to = out + at * kPlanes;
    if constexpr (kPlanes == 2) hn::StoreInterleaved2(plane(0), plane(1), d, to);
    if constexpr (kPlanes == 3) hn::StoreInterleaved3(plane(0), plane(1), plane(2), d, to);
    if constexpr (kPlanes == 4) {
      hn::StoreInterleaved4(plane(0), plane(1), plane(2), plane(3), d, to);
    }
  }
}

// Pixels to planes.
template <int kPlanes, class D, typename T>
HWY_INLINE void Separate(D d, const T* in, T* out, int64_t out_stride, int64_t pixels) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < pixels; i += lanes) {
    const int64_t at = std::min(i, pixels - lanes);
    const T* from = in + at * kPlanes;
    hn::Vec<D> v[4];
    if constexpr (kPlanes == 2) hn::LoadInterleaved2(d, from, v[0], v[1]);
    if constexpr (kPlanes == 3) hn::LoadInterleaved3(d, from, v[0], v[1], v[2]);
    if constexpr (kPlanes == 4) hn::LoadInterleaved4(d, from, v[0], v[1], v[2], v[3]);
    for (int p = 0; p < kPlanes; ++p) hn::StoreU(v[p], d, out + p * out_stride + at);
  }
}

// Matrices of kPlanes dense rows or columns; false for others, and for few pixels.
template <int kPlanes, class D, typename T>
HWY_INLINE bool TransposePlanes(D d, const T* in, int64_t in_stride, T* out, int64_t out_stride,
                                int64_t rows, int64_t cols) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  if (cols == kPlanes && out_stride == kPlanes && rows >= lanes) {
    Interleave<kPlanes>(d, in, in_stride, out, rows);
    return true;
  }
  if (rows == kPlanes && in_stride == kPlanes && cols >= lanes) {
    Separate<kPlanes>(d, in, out, out_stride, cols);
    return true;
  }
  return false;
}

// By tiles that are transposed in a small array and then copied by whole lines: the rows of the
// output may all fall into one set of the cache, which would lose lines that are half written. A
// tile takes whole lines of the input.
template <typename T>
HWY_INLINE void TransposeTiles(const T* in, int64_t in_stride, T* out, int64_t out_stride,
                               int64_t rows, int64_t cols) {
  constexpr int64_t kBlock = sizeof(T) == 4 && HWY_TARGET <= HWY_AVX2 ? 8 : 16 / sizeof(T);
  constexpr int64_t kTileCols = 256, kLine = 64 / sizeof(T), kTileElements = kTileCols * kLine;
  const hn::CappedTag<T, kBlock> d;
  HWY_ALIGN T tile[kTileElements];
  // Lines apart are not fetched ahead by themselves; at larger strides they would drive each other
  // out.
  const bool ahead = in_stride * static_cast<int64_t>(sizeof(T)) <= 1024 || cols <= 64;
  for (int64_t j0 = 0; j0 < cols; j0 += kTileCols) {
    const int64_t width = std::min(kTileCols, cols - j0), whole_width = width / kBlock * kBlock;
    const int64_t tile_rows = kTileElements / width / kLine * kLine;
    for (int64_t i0 = 0; i0 < rows; i0 += tile_rows) {
      const int64_t height = std::min(tile_rows, rows - i0);
      const int64_t whole_height = height / kBlock * kBlock;
      const T* from = in + j0 * in_stride + i0;
      const auto each = [&](int64_t i, int64_t i_end, int64_t j, int64_t j_end) {
        for (; i < i_end; ++i) {
          for (int64_t k = j; k < j_end; ++k) tile[i * width + k] = from[k * in_stride + i];
        }
      };
      for (int64_t j = 0; j < whole_width; j += kBlock) {
        for (int64_t k = 2 * kBlock; ahead && k < 3 * kBlock; ++k) {
          __builtin_prefetch(from + (j + k) * in_stride);
        }
        for (int64_t i = 0; i < whole_height; i += kBlock) {
          TransposeBlock(d, from + j * in_stride + i, in_stride, tile + i * width + j, width);
        }
      }
      each(0, whole_height, whole_width, width);
      each(whole_height, height, 0, width);
      for (int64_t i = 0; i < height; ++i) {
        CopyElements(tile + i * width, width, out + (i0 + i) * out_stride + j0);
      }
    }
  }
}

template <typename T>
HWY_INLINE void TransposeOf(const void* in_matrix, int64_t in_stride, void* out_matrix,
                            int64_t out_stride, int64_t rows, int64_t cols) {
  const T* in = static_cast<const T*>(in_matrix);
  T* out = static_cast<T*>(out_matrix);
  const auto planes = [&](auto d) HWY_ATTR {
    return TransposePlanes<2>(d, in, in_stride, out, out_stride, rows, cols) ||
           TransposePlanes<3>(d, in, in_stride, out, out_stride, rows, cols) ||
           TransposePlanes<4>(d, in, in_stride, out, out_stride, rows, cols);
  };
  if (std::min(rows, cols) <= 4) {
    if (planes(hn::CappedTag<T, (sizeof(T) == 4 ? 64 : 16) / sizeof(T)>())) return;
    if (sizeof(T) == 4 && planes(hn::CappedTag<T, 4>())) return;
  }
  TransposeTiles(in, in_stride, out, out_stride, rows, cols);
}

void Transpose(const void* in, int64_t in_stride, void* out, int64_t out_stride, int64_t rows,
               int64_t cols, int element_bytes) {
  switch (element_bytes) {
    case 1: return TransposeOf<uint8_t>(in, in_stride, out, out_stride, rows, cols);
    case 2: return TransposeOf<uint16_t>(in, in_stride, out, out_stride, rows, cols);
    default: return TransposeOf<uint32_t>(in, in_stride, out, out_stride, rows, cols);
  }
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Transpose);

void TransposeMatrix(const void* in, int64_t in_stride, void* out, int64_t out_stride, int64_t rows,
                     int64_t columns, int element_bytes) {
  HWY_DYNAMIC_DISPATCH(Transpose)
  (in, in_stride, out, out_stride, rows, columns, element_bytes);
}

}  // namespace sardonyx
#endif  // HWY_ONCE
