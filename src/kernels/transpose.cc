#include "kernels/transpose.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/transpose.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

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

// Transposes the block that the rows have in each of their 128 bits: interleaving row i with row
// i + N / 2, log2(N) times, does. Of a block that is not square, the columns follow each other.
template <class D, class V, size_t kRows>
HWY_INLINE void TransposeRows(D d, V (&rows)[kRows]) {
  V other[kRows];
#pragma GCC unroll 4
  for (size_t stage = 1; stage < kRows; stage *= 2) {
    InterleaveHalves(d, rows, other);
    // As one copy the compiler would take rows through memory.
#pragma GCC unroll 16
    for (size_t k = 0; k < kRows; ++k) rows[k] = other[k];
  }
}

// Blocks of 128 bits, `stride` elements apart.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadBlocks(D d, const T* from, int64_t stride) {
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  if constexpr (kLanes * sizeof(T) == 16) {
    return hn::LoadU(d, from);
  } else {
    constexpr int64_t kBlocks = kLanes * sizeof(T) / 32;  // in a half
    const hn::Half<D> half;
    return hn::Combine(d, LoadBlocks(half, from + kBlocks * stride, stride),
                       LoadBlocks(half, from, stride));
  }
}

// What a block has of two rows goes to both.
template <bool kTwoRows, class D, typename T = hn::TFromD<D>>
HWY_INLINE void StoreBlocks(D d, hn::Vec<D> v, T* to, int64_t stride) {
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  if constexpr (kLanes * sizeof(T) == 16 && kTwoRows) {
    const hn::Half<D> half;
    hn::StoreU(hn::LowerHalf(half, v), half, to);
    hn::StoreU(hn::UpperHalf(half, v), half, to + stride);
  } else if constexpr (kLanes * sizeof(T) == 16) {
    hn::StoreU(v, d, to);
  } else {
    constexpr int64_t kRows = kLanes / 2;  // in a half
    const hn::Half<D> half;
    StoreBlocks<kTwoRows>(half, hn::LowerHalf(half, v), to, stride);
    StoreBlocks<kTwoRows>(half, hn::UpperHalf(half, v), to + kRows * stride, stride);
  }
}

// As many rows of the input as d has lanes, kStrips * 16 bytes of each: a block of 128 bits goes
// straight to its place in a vector, and what is left to transpose lies within blocks. Four blocks
// of a row are read one after the other, as rows may drive each other out of the cache.
template <int64_t kStrips, class D, typename T = hn::TFromD<D>>
HWY_INLINE void TransposeTile(D d, const T* in, int64_t in_stride, T* out, int64_t out_stride) {
  constexpr int64_t kRows = 16 / sizeof(T);
  hn::Vec<D> v[kStrips][kRows];
#pragma GCC unroll 16
  for (int64_t k = 0; k < kRows; ++k) {
#pragma GCC unroll 4
    for (int64_t s = 0; s < kStrips; ++s) {
      v[s][k] = LoadBlocks(d, in + k * in_stride + s * kRows, kRows * in_stride);
    }
  }
#pragma GCC unroll 4
  for (int64_t s = 0; s < kStrips; ++s) {
    TransposeRows(d, v[s]);
#pragma GCC unroll 16
    for (int64_t k = 0; k < kRows; ++k) {
      hn::StoreU(v[s][k], d, out + (s * kRows + k) * out_stride);
    }
  }
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

// By tiles in registers, the last ones overlapping those before. False if there are too few rows or
// columns.
template <class D, typename T>
HWY_INLINE bool TransposeTiles(D d, const T* in, int64_t in_stride, T* out, int64_t out_stride,
                               int64_t rows, int64_t cols) {
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D())), kStrip = 16 / sizeof(T);
  constexpr int64_t kVectors = HWY_TARGET <= HWY_AVX3 ? 16 : 8;  // that stay in registers
  constexpr int64_t kStrips = std::clamp<int64_t>(kVectors / kStrip, 1, kLanes / kStrip);
  constexpr int64_t kTileRows = kStrips * kStrip;
  if (rows < kStrip || cols < kLanes) return false;
  for (int64_t next = 0; next < cols; next += kLanes) {
    const int64_t j = std::min(next, cols - kLanes);
    const T* from = in + j * in_stride;
    T* to = out + j;
    int64_t i = 0;
    for (; i + kTileRows <= rows; i += kTileRows) {
      TransposeTile<kStrips>(d, from + i, in_stride, to + i * out_stride, out_stride);
    }
    for (; i < rows; i += kStrip) {
      const int64_t at = std::min(i, rows - kStrip);
      TransposeTile<1>(d, from + at, in_stride, to + at * out_stride, out_stride);
    }
  }
  return true;
}

// kColumns planes of as many elements as d has lanes to pixels: those of 128 bits, or two of 64
// bits that lie side by side.
template <int64_t kColumns, class D, typename T = hn::TFromD<D>>
HWY_INLINE void InterleaveStrip(D d, const T* in, int64_t in_stride, T* out, int64_t out_stride) {
  constexpr int64_t kStrip = 16 / sizeof(T);
  hn::Vec<D> v[kColumns];
#pragma GCC unroll 16
  for (int64_t k = 0; k < kColumns; ++k) v[k] = hn::LoadU(d, in + k * in_stride);
  TransposeRows(d, v);
#pragma GCC unroll 16
  for (int64_t k = 0; k < kColumns; ++k) {
    T* const to = out + k * (kStrip / kColumns) * out_stride;
    if (kColumns < kStrip && out_stride > kColumns) {
      StoreBlocks<true>(d, v[k], to, out_stride);
    } else {
      StoreBlocks<false>(d, v[k], to, out_stride);
    }
  }
}

// Planes to pixels of bytes by strips of 16 and 8: whole vectors are read, and their blocks stored.
// False for too few rows or columns.
template <class D, typename T>
HWY_INLINE bool TransposeStrips(D d, const T* in, int64_t in_stride, T* out, int64_t out_stride,
                                int64_t rows, int64_t cols) {
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D())), kStrip = 16 / sizeof(T);
  constexpr int64_t kHalf = kStrip / 2;
  if (rows < kLanes || (cols < kStrip && cols != kHalf)) return false;
  for (int64_t next = 0; next < rows; next += kLanes) {
    const int64_t i = std::min(next, rows - kLanes);
    const T* from = in + i;
    T* to = out + i * out_stride;
    int64_t j = 0;
    for (; j + kStrip <= cols; j += kStrip) {
      InterleaveStrip<kStrip>(d, from + j * in_stride, in_stride, to + j, out_stride);
    }
    if (j == cols) continue;
    if (cols - j > kHalf) {
      j = cols - kStrip;
      InterleaveStrip<kStrip>(d, from + j * in_stride, in_stride, to + j, out_stride);
    } else {
      j = cols - kHalf;
      InterleaveStrip<kHalf>(d, from + j * in_stride, in_stride, to + j, out_stride);
    }
  }
  return true;
}

// Pixels of fewer elements than 128 bits have to planes, by whole vectors: how many it does.
template <class D, typename T>
HWY_INLINE int64_t SeparatePixels(D d, const T* in, int64_t in_stride, T* out, int64_t out_stride,
                                  int64_t rows, int64_t cols) {
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D())), kStrip = 16 / sizeof(T);
  constexpr int64_t kHalf = kStrip / 2;
  int64_t j = 0;
  if (rows == kHalf && in_stride == kHalf) {  // a block holds two pixels
    for (; j + kLanes <= cols; j += kLanes) {
      hn::Vec<D> v[kHalf], planes[kHalf];
#pragma GCC unroll 8
      for (int64_t k = 0; k < kHalf; ++k) {
        v[k] = LoadBlocks(d, in + (j + 2 * k) * kHalf, kStrip * kHalf);
      }
      TransposeRows(d, v);
      InterleaveHalves(d, v, planes);
#pragma GCC unroll 8
      for (int64_t k = 0; k < kHalf; ++k) hn::StoreU(planes[k], d, out + k * out_stride + j);
    }
    return j;
  }
  // Blocks reach into the pixel behind.
  const int64_t in_end = (cols - 1) * in_stride + rows;
  for (; (j + kLanes - 1) * in_stride + kStrip <= in_end; j += kLanes) {
    hn::Vec<D> v[kStrip];
#pragma GCC unroll 16
    for (int64_t k = 0; k < kStrip; ++k) {
      v[k] = LoadBlocks(d, in + (j + k) * in_stride, kStrip * in_stride);
    }
    TransposeRows(d, v);
#pragma GCC unroll 16
    for (int64_t k = 0; k < kStrip; ++k) {
      if (k < rows) hn::StoreU(v[k], d, out + k * out_stride + j);
    }
  }
  return j;
}

// Matrices of fewer rows or columns than 128 bits have elements: blocks that reach beyond them.
// False for others.
template <typename T>
HWY_INLINE bool TransposeNarrow(const T* in, int64_t in_stride, T* out, int64_t out_stride,
                                int64_t rows, int64_t cols) {
  constexpr int64_t kStrip = 16 / sizeof(T);
  const hn::CappedTag<T, kStrip> d;
  if (static_cast<int64_t>(hn::Lanes(d)) < kStrip) return false;
  HWY_ALIGN T block[kStrip * kStrip];
  hn::Vec<decltype(d)> v[kStrip];
  if (rows < kStrip && cols >= kStrip) {
    const int64_t in_end = (cols - 1) * in_stride + rows;
    int64_t next = SeparatePixels(hn::ScalableTag<T>(), in, in_stride, out, out_stride, rows, cols);
    for (; next < cols; next += kStrip) {
      const int64_t j = std::min(next, cols - kStrip);
      const T* from = in + j * in_stride;
      int64_t stride = in_stride;
      if ((j + kStrip - 1) * in_stride + kStrip > in_end) {
        for (int64_t k = 0; k < kStrip; ++k)
          std::copy_n(from + k * stride, rows, block + k * kStrip);
        from = block;
        stride = kStrip;
      }
#pragma GCC unroll 16
      for (int64_t k = 0; k < kStrip; ++k) v[k] = hn::LoadU(d, from + k * stride);
      TransposeRows(d, v);
#pragma GCC unroll 16
      for (int64_t k = 0; k < kStrip; ++k) {
        if (k < rows) hn::StoreU(v[k], d, out + k * out_stride + j);
      }
    }
    return true;
  }
  if (cols >= kStrip || rows < kStrip) return false;
  for (int64_t next = 0; next < rows; next += kStrip) {
    const int64_t i = std::min(next, rows - kStrip);
#pragma GCC unroll 16
    for (int64_t k = 0; k < kStrip; ++k) {
      v[k] = hn::LoadU(d, in + std::min(k, cols - 1) * in_stride + i);
    }
    TransposeRows(d, v);
    // What goes beyond a row is written over by the rows behind it.
    T* const to = out + i * out_stride;
    if (out_stride == cols && (i + kStrip - 1) * cols + kStrip <= rows * cols) {
#pragma GCC unroll 16
      for (int64_t k = 0; k < kStrip; ++k) hn::StoreU(v[k], d, to + k * cols);
      continue;
    }
#pragma GCC unroll 16
    for (int64_t k = 0; k < kStrip; ++k) hn::Store(v[k], d, block + k * kStrip);
    for (int64_t k = 0; k < kStrip; ++k) std::copy_n(block + k * kStrip, cols, to + k * out_stride);
  }
  return true;
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
  if constexpr (sizeof(T) == 1) {
    const hn::ScalableTag<T> whole;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(whole));
    // Lines of rows so far apart drive each other out of a first cache of 8 ways and 4 KiB a way,
    // before a tile takes the rest of them. From memory, tiles are faster all the same.
    const auto collide = [&](int64_t stride) { return stride % (65536 / lanes) == 0; };
    const bool lines = collide(in_stride) && !collide(out_stride) && cols * in_stride <= 1 << 20;
    if ((cols < lanes || lines) &&
        TransposeStrips(whole, in, in_stride, out, out_stride, rows, cols)) {
      return;
    }
  }
  const auto tiles = [&](auto d) HWY_ATTR {
    return TransposeTiles(d, in, in_stride, out, out_stride, rows, cols);
  };
  if (tiles(hn::ScalableTag<T>()) || tiles(hn::CappedTag<T, 32 / sizeof(T)>()) ||
      tiles(hn::CappedTag<T, 16 / sizeof(T)>())) {
    return;
  }
  if (sizeof(T) <= 2 && TransposeNarrow(in, in_stride, out, out_stride, rows, cols)) return;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      // An element may be several narrower ones, aligned as these are.
      std::memcpy(out + i * out_stride + j, in + j * in_stride + i, sizeof(T));
    }
  }
}

void Transpose(const void* in, int64_t in_stride, void* out, int64_t out_stride, int64_t rows,
               int64_t cols, int element_bytes) {
  switch (element_bytes) {
    case 1: return TransposeOf<uint8_t>(in, in_stride, out, out_stride, rows, cols);
    case 2: return TransposeOf<uint16_t>(in, in_stride, out, out_stride, rows, cols);
    case 8: return TransposeOf<uint64_t>(in, in_stride, out, out_stride, rows, cols);
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
