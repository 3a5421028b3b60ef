#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/strided_copy.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "kernels/slices.h"
#include "kernels/strided_copy.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
// Transposes 4x4 blocks of 128 bits: afterwards r[j] holds column j of the four rows.
template <class D, class V>
HWY_INLINE void Transpose4(D d, V r[4]) {
  const hn::RepartitionToWide<D> dw;
  const auto a = hn::BitCast(dw, hn::InterleaveLower(d, r[0], r[1]));
  const auto b = hn::BitCast(dw, hn::InterleaveLower(d, r[2], r[3]));
  const auto c = hn::BitCast(dw, hn::InterleaveUpper(d, r[0], r[1]));
  const auto e = hn::BitCast(dw, hn::InterleaveUpper(d, r[2], r[3]));
  r[0] = hn::BitCast(d, hn::InterleaveLower(dw, a, b));
  r[1] = hn::BitCast(d, hn::InterleaveUpper(dw, a, b));
  r[2] = hn::BitCast(d, hn::InterleaveLower(dw, c, e));
  r[3] = hn::BitCast(d, hn::InterleaveUpper(dw, c, e));
}

// One square block of N x N elements, N = lanes of d (4 or 8).
template <class D>
HWY_INLINE void TransposeBlock(D d, const uint32_t* in, int64_t in_stride, uint32_t* out,
                               int64_t out_stride) {
  using V = hn::Vec<D>;
#if HWY_TARGET <= HWY_AVX2
  V lo[4], hi[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    lo[i] = hn::LoadU(d, in + i * in_stride);
    hi[i] = hn::LoadU(d, in + (4 + i) * in_stride);
  }
  Transpose4(d, lo);
  Transpose4(d, hi);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    hn::StoreU(hn::ConcatLowerLower(d, hi[i], lo[i]), d, out + i * out_stride);
    hn::StoreU(hn::ConcatUpperUpper(d, hi[i], lo[i]), d, out + (4 + i) * out_stride);
  }
#else
  V r[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) r[i] = hn::LoadU(d, in + i * in_stride);
  Transpose4(d, r);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) hn::StoreU(r[i], d, out + i * out_stride);
#endif
}

// The same for narrower elements, 128 bits a row. Interleaving row i with row i + N / 2, log2(N)
// times, transposes.
template <class D, class V = hn::Vec<D>, size_t kBlock>
HWY_INLINE void InterleaveHalves(D d, const V (&from)[kBlock], V (&to)[kBlock]) {
#pragma GCC unroll 8
  for (size_t k = 0; k < kBlock / 2; ++k) {
    to[2 * k] = hn::InterleaveLower(d, from[k], from[k + kBlock / 2]);
    to[2 * k + 1] = hn::InterleaveUpper(d, from[k], from[k + kBlock / 2]);
  }
}
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void TransposeNarrowBlock(D d, const T* in, int64_t in_stride, T* out,
                                     int64_t out_stride) {
  constexpr int64_t kBlock = 16 / sizeof(T);
  hn::Vec<D> a[kBlock], b[kBlock];
#pragma GCC unroll 16
  for (int64_t k = 0; k < kBlock; ++k) a[k] = hn::LoadU(d, in + k * in_stride);
  InterleaveHalves(d, a, b);
  InterleaveHalves(d, b, a);
  InterleaveHalves(d, a, b);
  if constexpr (kBlock == 16) InterleaveHalves(d, b, a);
#pragma GCC unroll 16
  for (int64_t k = 0; k < kBlock; ++k) {
    hn::StoreU(kBlock == 16 ? a[k] : b[k], d, out + k * out_stride);
  }
}
#endif  // HWY_TARGET != HWY_SCALAR

template <typename T>
HWY_INLINE void CopyElements(const T* in, int64_t count, T* out) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::LoadU(d, in + i), d, out + i);
  for (; i < count; ++i) out[i] = in[i];
}

#if HWY_TARGET != HWY_SCALAR
// Two rows to pairs and back, as blocks of two by two pixels need; false for other shapes.
template <typename T>
HWY_INLINE bool TransposePairs(const T* in, int64_t in_stride, T* out, int64_t out_stride,
                               int64_t rows, int64_t cols) {
  const hn::CappedTag<T, 32 / sizeof(T)> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  if (cols == 2 && out_stride == 2) {
    const T* second = in + in_stride;
    int64_t i = 0;
    for (; i + lanes <= rows; i += lanes) {
      hn::StoreInterleaved2(hn::LoadU(d, in + i), hn::LoadU(d, second + i), d, out + 2 * i);
    }
    for (; i < rows; ++i) {
      out[2 * i] = in[i];
      out[2 * i + 1] = second[i];
    }
    return true;
  }
  if (rows == 2 && in_stride == 2) {
    T* second = out + out_stride;
    int64_t j = 0;
    for (; j + lanes <= cols; j += lanes) {
      hn::Vec<decltype(d)> a, b;
      hn::LoadInterleaved2(d, in + 2 * j, a, b);
      hn::StoreU(a, d, out + j);
      hn::StoreU(b, d, second + j);
    }
    for (; j < cols; ++j) {
      out[j] = in[2 * j];
      second[j] = in[2 * j + 1];
    }
    return true;
  }
  return false;
}
#endif

// out[i * out_stride + j] = in[j * in_stride + i] for i < rows, j < cols, by tiles that
// are transposed in a small array and then copied by whole lines: the rows of the output may all
// fall into one set of the cache, which would lose lines that are half written. A tile takes whole
// lines of the input.
template <typename T>
HWY_INLINE void TransposeTiles(const T* in, int64_t in_stride, T* out, int64_t out_stride,
                               int64_t rows, int64_t cols) {
#if HWY_TARGET == HWY_SCALAR
  constexpr int64_t kBlock = 1;
#elif HWY_TARGET <= HWY_AVX2
  constexpr int64_t kBlock = sizeof(T) == 4 ? 8 : 16 / sizeof(T);
#else
  constexpr int64_t kBlock = 16 / sizeof(T);
#endif
#if HWY_TARGET != HWY_SCALAR
  if (TransposePairs(in, in_stride, out, out_stride, rows, cols)) return;
#endif
  constexpr int64_t kTileCols = 256, kLine = 64 / sizeof(T), kTileElements = kTileCols * kLine;
  HWY_ALIGN T tile[kTileElements];
  // Lines apart are not fetched ahead by themselves; at larger strides they would drive each other
  // out.
  const bool ahead = in_stride * static_cast<int64_t>(sizeof(T)) <= 1024 || cols <= 64;
  for (int64_t j0 = 0; j0 < cols; j0 += kTileCols) {
    const int64_t width = std::min(kTileCols, cols - j0), whole_width = width / kBlock * kBlock;
    const int64_t tile_rows = kTileElements / width / kLine * kLine;
    for (int64_t i0 = 0; i0 < rows; i0 += tile_rows) {
      const int64_t height = std::min(tile_rows, rows - i0),
                    whole_height = height / kBlock * kBlock;
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
#if HWY_TARGET == HWY_SCALAR
          each(i, i + 1, j, j + 1);
#else
          const hn::CappedTag<T, kBlock> d;
          const T* block = from + j * in_stride + i;
          if constexpr (sizeof(T) == 4) {
            TransposeBlock(d, block, in_stride, tile + i * width + j, width);
          } else {
            TransposeNarrowBlock(d, block, in_stride, tile + i * width + j, width);
          }
#endif
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

void TransposeWords(const void* in_words, int64_t in_stride, void* out_words, int64_t out_stride,
                    int64_t rows, int64_t cols) {
  const uint32_t* in = static_cast<const uint32_t*>(in_words);
  uint32_t* out = static_cast<uint32_t*>(out_words);
#if HWY_TARGET != HWY_SCALAR
  // Pictures: three planes to pixels of three and back.
  const hn::ScalableTag<uint32_t> full;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(full));
  if (cols == 3 && out_stride == 3) {
    int64_t i = 0;
    for (; i + lanes <= rows; i += lanes) {
      hn::StoreInterleaved3(hn::LoadU(full, in + i), hn::LoadU(full, in + in_stride + i),
                            hn::LoadU(full, in + 2 * in_stride + i), full, out + i * 3);
    }
    for (; i < rows; ++i) {
      for (int64_t j = 0; j < 3; ++j) out[i * 3 + j] = in[j * in_stride + i];
    }
    return;
  }
  // Four groups of channels, shuffled.
  if (cols == 4 && out_stride == 4 && rows >= 4) {
    int64_t i = 0;
    for (; i + lanes <= rows; i += lanes) {
      hn::StoreInterleaved4(hn::LoadU(full, in + i), hn::LoadU(full, in + in_stride + i),
                            hn::LoadU(full, in + 2 * in_stride + i),
                            hn::LoadU(full, in + 3 * in_stride + i), full, out + i * 4);
    }
    const hn::CappedTag<uint32_t, 4> four;
    while (i < rows) {  // the last four may overlap what is written already
      i = std::min(i, rows - 4);
      hn::StoreInterleaved4(hn::LoadU(four, in + i), hn::LoadU(four, in + in_stride + i),
                            hn::LoadU(four, in + 2 * in_stride + i),
                            hn::LoadU(four, in + 3 * in_stride + i), four, out + i * 4);
      i += 4;
    }
    return;
  }
  if (rows == 3 && in_stride == 3) {
    int64_t j = 0;
    for (; j + lanes <= cols; j += lanes) {
      hn::Vec<decltype(full)> a, b, c;
      hn::LoadInterleaved3(full, in + j * 3, a, b, c);
      hn::StoreU(a, full, out + j);
      hn::StoreU(b, full, out + out_stride + j);
      hn::StoreU(c, full, out + 2 * out_stride + j);
    }
    for (; j < cols; ++j) {
      for (int64_t i = 0; i < 3; ++i) out[i * out_stride + j] = in[j * 3 + i];
    }
    return;
  }
#endif
  TransposeTiles(in, in_stride, out, out_stride, rows, cols);
}

template <typename T>
HWY_INLINE void TransposeNarrow(const T* in, int64_t in_stride, T* out, int64_t out_stride,
                                int64_t rows, int64_t cols) {
#if HWY_TARGET != HWY_SCALAR
  // Pictures, as above.
  const hn::CappedTag<T, 16 / sizeof(T)> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  if (cols == 3 && out_stride == 3) {
    int64_t i = 0;
    for (; i + lanes <= rows; i += lanes) {
      hn::StoreInterleaved3(hn::LoadU(d, in + i), hn::LoadU(d, in + in_stride + i),
                            hn::LoadU(d, in + 2 * in_stride + i), d, out + i * 3);
    }
    for (; i < rows; ++i) {
      for (int64_t j = 0; j < 3; ++j) out[i * 3 + j] = in[j * in_stride + i];
    }
    return;
  }
#endif
  TransposeTiles(in, in_stride, out, out_stride, rows, cols);
}

void TransposeBytes(const void* in, int64_t in_stride, void* out, int64_t out_stride, int64_t rows,
                    int64_t cols) {
  TransposeNarrow(static_cast<const uint8_t*>(in), in_stride, static_cast<uint8_t*>(out),
                  out_stride, rows, cols);
}
void TransposeHalves(const void* in, int64_t in_stride, void* out, int64_t out_stride, int64_t rows,
                     int64_t cols) {
  TransposeNarrow(static_cast<const uint16_t*>(in), in_stride, static_cast<uint16_t*>(out),
                  out_stride, rows, cols);
}

// `count` copies of an element of 1, 2, 4 or 8 bytes, of any alignment.
void FillRow(void* out, int64_t count, const void* value, int element_bytes) {
  const auto fill = [&]<typename T>(T one) HWY_ATTR {
    std::memcpy(&one, value, sizeof(T));
    const hn::ScalableTag<T> d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    const auto all = hn::Set(d, one);
    char* to = static_cast<char*>(out);
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      hn::StoreU(all, d, reinterpret_cast<T*>(to + i * static_cast<int64_t>(sizeof(T))));
    }
    for (; i < count; ++i) std::memcpy(to + i * static_cast<int64_t>(sizeof(T)), &one, sizeof(T));
  };
  switch (element_bytes) {
    case 1: return fill(uint8_t{});
    case 2: return fill(uint16_t{});
    case 4: return fill(uint32_t{});
    default: return fill(uint64_t{});
  }
}

}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {
namespace {

HWY_EXPORT(TransposeWords);
HWY_EXPORT(TransposeBytes);
HWY_EXPORT(TransposeHalves);
HWY_EXPORT(FillRow);

// An element of any alignment and origin: short rows that are copied as one element are aligned
// only to what they consist of.
template <typename T>
struct __attribute__((packed, may_alias)) Element {
  T value;
};
struct Pair {
  uint64_t low, high;
};

// Calls body with an element of that width.
template <typename Body>
void WithElement(int element_bytes, Body&& body) {
  switch (element_bytes) {
    case 1: return body(Element<uint8_t>{});
    case 2: return body(Element<uint16_t>{});
    case 4: return body(Element<uint32_t>{});
    case 8: return body(Element<uint64_t>{});
    default: return body(Element<Pair>{});
  }
}

constexpr int64_t kChunkBytes = int64_t{64} << 10;

int64_t TasksForBytes(int64_t bytes) { return TaskCount(5e-5 * static_cast<double>(bytes)); }

void CopyRow(const char* in, char* out, int64_t bytes) {
  if (bytes > 64 || bytes < 16) {
    std::memcpy(out, in, static_cast<size_t>(bytes));
    return;
  }
  for (int64_t i = 0; i + 16 < bytes; i += 16) std::memcpy(out + i, in + i, 16);
  std::memcpy(out + bytes - 16, in + bytes - 16, 16);
}

template <typename T>
void TransposeElements(const T* in, int64_t in_stride, T* out, int64_t out_stride, int64_t rows,
                       int64_t cols) {
  constexpr int64_t kTile = 16;
  for (int64_t j0 = 0; j0 < cols; j0 += kTile) {
    const int64_t j1 = std::min(cols, j0 + kTile);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = j0; j < j1; ++j) out[i * out_stride + j] = in[j * in_stride + i];
    }
  }
}

using Dim = StridedCopyPlan::Dim;
using Method = StridedCopyPlan::Method;

template <typename T>
void FillElements(T* out, int64_t count, T element) {
  if constexpr (sizeof(T) <= 8) {
    HWY_DYNAMIC_DISPATCH(FillRow)(out, count, &element, sizeof(T));
  } else {
    std::fill_n(out, count, element);
  }
}

template <typename T>
void CopyUnit(Method method, const T* in, T* out, Dim rows, Dim cols) {
  switch (method) {
    case Method::kNothing: return;
    case Method::kRows:
      if (cols.size * static_cast<int64_t>(sizeof(T)) >= 16) {
        for (int64_t i = 0; i < rows.size; ++i) {
          CopyRow(reinterpret_cast<const char*>(in + i * rows.in_stride),
                  reinterpret_cast<char*>(out + i * rows.out_stride),
                  cols.size * static_cast<int64_t>(sizeof(T)));
        }
        return;
      }
      break;
    case Method::kSpread:
      for (int64_t i = 0; i < rows.size; ++i) {
        FillElements(out + i * rows.out_stride, cols.size, in[i * rows.in_stride]);
      }
      return;
    case Method::kTranspose:
      if constexpr (sizeof(T) == 4) {
        HWY_DYNAMIC_DISPATCH(TransposeWords)
        (in, cols.in_stride, out, rows.out_stride, rows.size, cols.size);
      } else if constexpr (sizeof(T) == 2) {
        HWY_DYNAMIC_DISPATCH(TransposeHalves)
        (in, cols.in_stride, out, rows.out_stride, rows.size, cols.size);
      } else if constexpr (sizeof(T) == 1) {
        HWY_DYNAMIC_DISPATCH(TransposeBytes)
        (in, cols.in_stride, out, rows.out_stride, rows.size, cols.size);
      } else {
        TransposeElements(in, cols.in_stride, out, rows.out_stride, rows.size, cols.size);
      }
      return;
    case Method::kElements: break;
  }
  for (int64_t i = 0; i < rows.size; ++i) {
    const T* from = in + i * rows.in_stride;
    T* to = out + i * rows.out_stride;
    for (int64_t j = 0; j < cols.size; ++j) to[j * cols.out_stride] = from[j * cols.in_stride];
  }
}

// Drops dimensions of size 1, makes output strides positive, orders by them and merges neighbours.
void Collapse(StridedCopyPlan& plan) {
  int rank = plan.rank;
  auto& dims = plan.dims;
  for (int i = 0; i < rank; ++i) {
    if (dims[i].out_stride >= 0) continue;
    plan.in_offset += (dims[i].size - 1) * dims[i].in_stride * plan.element_bytes;
    plan.out_offset += (dims[i].size - 1) * dims[i].out_stride * plan.element_bytes;
    dims[i].in_stride = -dims[i].in_stride;
    dims[i].out_stride = -dims[i].out_stride;
  }
  std::sort(dims.begin(), dims.begin() + rank,
            [](const Dim& a, const Dim& b) { return a.out_stride > b.out_stride; });
  int merged = 0;
  for (int i = 1; i < rank; ++i) {
    Dim& outer = dims[merged];
    const Dim& inner = dims[i];
    if (outer.in_stride == inner.in_stride * inner.size &&
        outer.out_stride == inner.out_stride * inner.size) {
      outer = {outer.size * inner.size, inner.in_stride, inner.out_stride};
    } else {
      dims[++merged] = inner;
    }
  }
  plan.rank = rank = merged + 1;
  // A short contiguous row whose width is a power of two becomes one wider element.
  const Dim last = dims[rank - 1];
  const int64_t width = last.size * plan.element_bytes;
  if (rank > 1 && last.in_stride == 1 && last.out_stride == 1 &&
      (width == 2 || width == 4 || width == 8 || width == 16) &&
      std::all_of(dims.begin(), dims.begin() + rank - 1, [&](const Dim& dim) {
        return dim.in_stride % last.size == 0 && dim.out_stride % last.size == 0;
      })) {
    plan.rank = rank = rank - 1;
    plan.element_bytes = static_cast<int>(width);
    for (int i = 0; i < rank; ++i) {
      dims[i].in_stride /= last.size;
      dims[i].out_stride /= last.size;
    }
  }
}

Method ChooseMethod(StridedCopyPlan& plan) {
  auto& dims = plan.dims;
  const Dim last = dims[plan.rank - 1];
  if (last.out_stride != 1) return Method::kElements;
  if (last.in_stride == 1) return Method::kRows;
  if (last.in_stride == 0) return Method::kSpread;
  for (int i = 0; i + 1 < plan.rank; ++i) {
    if (dims[i].in_stride != 1) continue;
    std::rotate(dims.begin() + i, dims.begin() + i + 1, dims.begin() + plan.rank - 1);
    return Method::kTranspose;
  }
  return Method::kElements;
}

}  // namespace

StridedCopyPlan PrepareStridedCopy(std::span<const int64_t> dims,
                                   std::span<const int64_t> in_strides,
                                   std::span<const int64_t> out_strides, int element_bytes) {
  StridedCopyPlan plan;
  plan.element_bytes = element_bytes;
  int64_t elements = 1;
  for (int64_t size : dims) {
    if (size == 0) return plan;
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) continue;
    elements *= dims[i];
    plan.dims[plan.rank++] = {dims[i], in_strides[i], out_strides[i]};
  }
  if (plan.rank == 0) plan.dims[plan.rank++] = {1, 1, 1};
  const int64_t bytes = elements * element_bytes;
  Collapse(plan);
  plan.method = ChooseMethod(plan);

  const int64_t row_bytes =
      (plan.rank == 1 ? 1 : plan.dims[plan.rank - 1].size) * plan.element_bytes;
  const int64_t size = plan.dims[std::max(0, plan.rank - 2)].size;
  plan.chunk = std::clamp<int64_t>(kChunkBytes / row_bytes, 1, size);
  if (plan.method == Method::kTranspose) {
    plan.chunk = std::min<int64_t>(size, plan.dims[plan.rank - 1].size <= 8 ? 256 : 64);
  }
  const int64_t tasks = TasksForBytes(bytes);
  int64_t outer = 1;
  for (int i = 0; i + 2 < plan.rank; ++i) outer *= plan.dims[i].size;
  const auto chunks = [&] { return (size + plan.chunk - 1) / plan.chunk; };
  // Few planes of few rows: narrower ones, for more tasks.
  while (plan.method == Method::kTranspose && plan.chunk > 16 && outer * chunks() < tasks) {
    plan.chunk = (plan.chunk + 1) / 2;
  }
  plan.chunks = chunks();
  plan.units = outer * plan.chunks;
  plan.units_per_task = (plan.units + tasks - 1) / tasks;
  return plan;
}

void StridedCopy(const StridedCopyPlan& plan, const void* in, void* out, const Parallel& par) {
  if (plan.method == Method::kNothing) return;
  const int outer_rank = std::max(0, plan.rank - 2);
  const Dim rows = plan.dims[outer_rank];
  const Dim cols = plan.rank == 1 ? Dim{1, 1, 1} : plan.dims[plan.rank - 1];
  const int64_t tasks = (plan.units + plan.units_per_task - 1) / plan.units_per_task;
  par.For(tasks, [&](int64_t task) {
    const int64_t begin = task * plan.units_per_task;
    const int64_t end = std::min(plan.units, begin + plan.units_per_task);
    std::array<int64_t, StridedCopyPlan::kMaxRank> index;
    int64_t chunk = begin % plan.chunks;
    int64_t in_at = 0, out_at = 0;
    for (int64_t i = outer_rank - 1, rest = begin / plan.chunks; i >= 0; --i) {
      index[i] = rest % plan.dims[i].size;
      rest /= plan.dims[i].size;
      in_at += index[i] * plan.dims[i].in_stride;
      out_at += index[i] * plan.dims[i].out_stride;
    }
    WithElement(plan.element_bytes, [&]<typename T>(T) {
      const T* from = reinterpret_cast<const T*>(static_cast<const char*>(in) + plan.in_offset);
      T* to = reinterpret_cast<T*>(static_cast<char*>(out) + plan.out_offset);
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t first = chunk * plan.chunk;
        const int64_t count = std::min(plan.chunk, rows.size - first);
        const T* unit_in = from + in_at + first * rows.in_stride;
        T* unit_out = to + out_at + first * rows.out_stride;
        if (plan.rank == 1) {
          CopyUnit(plan.method, unit_in, unit_out, Dim{1, 0, 0},
                   Dim{count, rows.in_stride, rows.out_stride});
        } else {
          CopyUnit(plan.method, unit_in, unit_out, Dim{count, rows.in_stride, rows.out_stride},
                   cols);
        }
        if (++chunk < plan.chunks) continue;
        chunk = 0;
        for (int i = outer_rank - 1; i >= 0; --i) {
          in_at += plan.dims[i].in_stride;
          out_at += plan.dims[i].out_stride;
          if (++index[i] < plan.dims[i].size) break;
          in_at -= plan.dims[i].size * plan.dims[i].in_stride;
          out_at -= plan.dims[i].size * plan.dims[i].out_stride;
          index[i] = 0;
        }
      }
    });
  });
}

void Fill(void* out, int64_t count, const void* value, int element_bytes, const Parallel& par) {
  const int64_t tasks = TasksForBytes(count * element_bytes);
  const int64_t step = (count + tasks - 1) / tasks;
  par.For(tasks, [&](int64_t task) {
    const int64_t begin = std::min(count, task * step);
    WithElement(element_bytes, [&]<typename T>(T element) {
      std::memcpy(&element, value, sizeof(T));
      FillElements(static_cast<T*>(out) + begin, std::min(step, count - begin), element);
    });
  });
}

void TransposeMatrix(const void* in, int64_t in_stride, void* out, int64_t out_stride, int64_t rows,
                     int64_t columns) {
  HWY_DYNAMIC_DISPATCH(TransposeWords)(in, in_stride, out, out_stride, rows, columns);
}

}  // namespace sardonyx
#endif  // HWY_ONCE
