#include "kernels/gemm_typed.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/gemm_block.h"
#include "kernels/gemm_epilogue.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm_typed.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"

#ifndef SARDONYX_GEMM_TYPED_ONCE
#define SARDONYX_GEMM_TYPED_ONCE
namespace sardonyx {

// One part of C: rows [m0, m1), panels from column n0 to n1. A's element (i, k) is a[i * a_row + k
// * a_column]. If b is given, whole panels are read there, from rows b_row apart.
struct TypedPart {
  int64_t k, n;
  const void* a;
  int64_t a_row, a_column;
  const void* packed;
  const void* b;
  int64_t b_row;
  void* c;
  int64_t ldc;
  int64_t m0, m1, n0, n1;
};

// Panels n0 to n1 of B, whose element (k, j) is b[k * b_row + j * b_column].
struct TypedPanels {
  int64_t k, n;
  const void* b;
  int64_t b_row, b_column;
  int64_t n0, n1;
  void* packed;
};

}  // namespace sardonyx
#endif

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_AVX3
constexpr int kRows = 12;
#else
constexpr int kRows = 6;
#endif
constexpr int64_t kDepth = 256;  // rows of a panel at a time

template <typename T>
constexpr int64_t WidthOf() {
  return 2 * static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
}

template <class V>
HWY_INLINE V AddProduct(V a, V b, V sum) {
  if constexpr (std::is_floating_point_v<hn::TFromV<V>>) {
    return hn::MulAdd(a, b, sum);
  } else {
    return hn::Add(hn::Mul(a, b), sum);
  }
}

// kM rows of one panel, over kc rows of B; added to C from the second range on.
template <int kM, typename T>
HWY_NOINLINE void Tile(int64_t kc, const T* a, int64_t a_row, int64_t a_column,
                       const T* HWY_RESTRICT b, int64_t b_row, T* c, int64_t ldc, int64_t columns,
                       bool add) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t kL = WidthOf<T>() / 2;
  V acc[kM][2];
#pragma GCC unroll 12
  for (int r = 0; r < kM; ++r) acc[r][0] = acc[r][1] = hn::Zero(d);
  // What is stored at the end comes meanwhile.
  for (int r = 0; r < kM; ++r) {
    __builtin_prefetch(c + r * ldc, 1);
    __builtin_prefetch(c + r * ldc + columns - 1, 1);
  }
  for (int64_t k = 0; k < kc; ++k, a += a_column, b += b_row) {
    const V b0 = hn::LoadU(d, b), b1 = hn::LoadU(d, b + kL);
#pragma GCC unroll 12
    for (int r = 0; r < kM; ++r) {
      const V value = hn::Set(d, a[r * a_row]);
      acc[r][0] = AddProduct(value, b0, acc[r][0]);
      acc[r][1] = AddProduct(value, b1, acc[r][1]);
    }
  }
  if (columns == 2 * kL) {
#pragma GCC unroll 12
    for (int r = 0; r < kM; ++r) {
      for (int v = 0; v < 2; ++v) {
        T* to = c + r * ldc + v * kL;
        hn::StoreU(add ? hn::Add(acc[r][v], hn::LoadU(d, to)) : acc[r][v], d, to);
      }
    }
    return;
  }
  HWY_ALIGN T row[2 * kL];
  for (int r = 0; r < kM; ++r) {
    hn::Store(acc[r][0], d, row);
    hn::Store(acc[r][1], d, row + kL);
    for (int64_t j = 0; j < columns; ++j) c[r * ldc + j] = add ? c[r * ldc + j] + row[j] : row[j];
  }
}

template <typename T>
using TileFunction = void (*)(int64_t, const T*, int64_t, int64_t, const T*, int64_t, T*, int64_t,
                              int64_t, bool);

// Tiles of all heights.
template <typename T, int... kMinusOne>
constexpr std::array<TileFunction<T>, kRows> TilesOf(std::integer_sequence<int, kMinusOne...>) {
  return {&Tile<kMinusOne + 1, T>...};
}

template <typename T>
void Multiply(const TypedPart& x) {
  static constexpr auto kTiles = TilesOf<T>(std::make_integer_sequence<int, kRows>());
  constexpr int64_t kWidth = WidthOf<T>();
  const int64_t rows = x.m1 - x.m0, tiles = CeilDiv(rows, kRows);
  for (int64_t n = x.n0; n < x.n1; n += kWidth) {
    const int64_t columns = std::min(kWidth, x.n - n);
    int64_t k0 = 0;
    do {
      const int64_t kc = std::min(kDepth, x.k - k0);
      const bool in_place = x.b != nullptr && columns == kWidth;
      const int64_t b_row = in_place ? x.b_row : kWidth;
      const T* b = in_place ? static_cast<const T*>(x.b) + n + k0 * b_row
                            : static_cast<const T*>(x.packed) + n * x.k + k0 * b_row;
      const T* a = static_cast<const T*>(x.a) + k0 * x.a_column;
      T* c = static_cast<T*>(x.c) + n;
      // Rows are spread evenly over the tiles, which keeps the last one from being thin.
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t m = x.m0 + rows * t / tiles, end = x.m0 + rows * (t + 1) / tiles;
        kTiles[end - m - 1](kc, a + m * x.a_row, x.a_row, x.a_column, b, b_row, c + m * x.ldc,
                            x.ldc, columns, k0 > 0);
      }
      k0 += kc;
    } while (k0 < x.k);
  }
}

template <typename T>
void Pack(const TypedPanels& x) {
  constexpr int64_t kWidth = WidthOf<T>();
  for (int64_t n = x.n0; n < x.n1; n += kWidth) {
    const int64_t columns = std::min(kWidth, x.n - n);
    T* to = static_cast<T*>(x.packed) + n * x.k;
    const T* from = static_cast<const T*>(x.b) + n * x.b_column;
    for (int64_t k = 0; k < x.k; ++k, to += kWidth, from += x.b_row) {
      if (x.b_column == 1) {
        std::copy_n(from, columns, to);
      } else {
        for (int64_t j = 0; j < columns; ++j) to[j] = from[j * x.b_column];
      }
      std::fill(to + columns, to + kWidth, T{0});
    }
  }
}

// Rows of A, whose elements lie one behind the other, by a vector that lies so. A panel would hold
// one column and many zeros.
template <typename T>
void MultiplyVector(const TypedPart& x) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kL = WidthOf<T>() / 2;
  constexpr int kSums = 4;
  const T* const b = static_cast<const T*>(x.b);
  for (int64_t m = x.m0; m < x.m1; ++m) {
    const T* const a = static_cast<const T*>(x.a) + m * x.a_row;
    hn::Vec<decltype(d)> acc[kSums];
#pragma GCC unroll 4
    for (auto& sum : acc) sum = hn::Zero(d);
    int64_t k = 0;
    for (; k + kSums * kL <= x.k; k += kSums * kL) {
#pragma GCC unroll 4
      for (int i = 0; i < kSums; ++i) {
        acc[i] = AddProduct(hn::LoadU(d, a + k + i * kL), hn::LoadU(d, b + k + i * kL), acc[i]);
      }
    }
    for (; k + kL <= x.k; k += kL) {
      acc[0] = AddProduct(hn::LoadU(d, a + k), hn::LoadU(d, b + k), acc[0]);
    }
    HWY_ALIGN T lanes[kL];
    hn::Store(hn::Add(hn::Add(acc[0], acc[1]), hn::Add(acc[2], acc[3])), d, lanes);
    T sum = 0;
    for (const T lane : lanes) sum += lane;
    for (; k < x.k; ++k) sum += a[k] * b[k];
    static_cast<T*>(x.c)[m * x.ldc] = sum;
  }
}

// Integers of either sign have the same sums and products.
void MultiplyVectorPart(DType type, const TypedPart& part) {
  if (type == DType::kFloat64) return MultiplyVector<double>(part);
  BitWidth(type) == 32 ? MultiplyVector<uint32_t>(part) : MultiplyVector<uint64_t>(part);
}
void MultiplyPart(DType type, const TypedPart& part) {
  if (type == DType::kFloat64) return Multiply<double>(part);
  BitWidth(type) == 32 ? Multiply<uint32_t>(part) : Multiply<uint64_t>(part);
}
void PackPart(DType type, const TypedPanels& panels) {
  BitWidth(type) == 32 ? Pack<uint32_t>(panels) : Pack<uint64_t>(panels);
}
int64_t Width(DType type) {
  return BitWidth(type) == 32 ? WidthOf<uint32_t>() : WidthOf<uint64_t>();
}
int64_t TileHeight() { return kRows; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(MultiplyPart);
HWY_EXPORT(MultiplyVectorPart);
HWY_EXPORT(PackPart);
HWY_EXPORT(Width);
HWY_EXPORT(TileHeight);

bool IsGemmType(DType type) {
  return type == DType::kFloat64 || type == DType::kInt32 || type == DType::kUInt32 ||
         type == DType::kInt64 || type == DType::kUInt64;
}

size_t GemmTypedPackedBytes(DType type, int64_t k, int64_t n) {
  const int64_t width = HWY_DYNAMIC_DISPATCH(Width)(type);
  return static_cast<size_t>(RoundUp(ByteSize(type, k * RoundUp(n, width)), 64));
}

namespace {

// One column, of which neither operand's elements lie apart.
bool IsByVector(const GemmShape& shape) {
  return shape.n == 1 && !shape.a_transposed && (shape.b_transposed || shape.ldb == 1);
}

// Panels of B from `first` on.
void PackFrom(DType type, const GemmShape& shape, int64_t first, const void* b, void* packed,
              const Parallel& par) {
  const int64_t width = HWY_DYNAMIC_DISPATCH(Width)(type);
  const int64_t panels = CeilDiv(shape.n, width) - first;
  const int64_t parts =
      std::clamp<int64_t>(shape.k * shape.n / 16384, 1, std::max<int64_t>(panels, 1));
  par.For(parts, [&](int64_t part) {
    HWY_DYNAMIC_DISPATCH(PackPart)
    (type, TypedPanels{shape.k, shape.n, b, shape.b_transposed ? 1 : shape.ldb,
                       shape.b_transposed ? shape.ldb : 1, (first + panels * part / parts) * width,
                       std::min(shape.n, (first + panels * (part + 1) / parts) * width), packed});
  });
}

// Few rows read B once: packing would read it twice.
bool ReadsInPlace(const GemmShape& shape) {
  return !shape.b_transposed && shape.m <= 2 * HWY_DYNAMIC_DISPATCH(TileHeight)();
}

}  // namespace

void GemmTypedPack(DType type, const GemmShape& shape, const void* b, void* packed,
                   const Parallel& par) {
  PackFrom(type, shape, 0, b, packed, par);
}

size_t GemmTypedScratchBytes(DType type, const GemmShape& shape, bool packed) {
  return packed || IsByVector(shape) ? 0 : GemmTypedPackedBytes(type, shape.k, shape.n);
}

void GemmTyped(DType type, const GemmShape& s, const void* a, const void* b, const void* packed_b,
               void* c, const Epilogue& epilogue, void* scratch, const Parallel& par) {
  // For all panels some rows at a time: what is stored lies in few pages, goes onwards, and is in
  // the cache when the epilogue reads it.
  constexpr int64_t kRowsTogether = 48;
  const PreparedEpilogue prepared(epilogue, PreparedEpilogue::Tiles::kNone);
  const int64_t width = HWY_DYNAMIC_DISPATCH(Width)(type), panels = CeilDiv(s.n, width);
  const int64_t tile = HWY_DYNAMIC_DISPATCH(TileHeight)(), tiles = CeilDiv(s.m, tile);
  const auto at = [&](const void* base, const int64_t* stride, int64_t p, int64_t q) {
    return static_cast<const char*>(base) + ByteSize(type, p * stride[0] + q * stride[1]);
  };
  // Parts of some 20 microseconds; rows are cut first, then columns.
  const double work = static_cast<double>(s.m) * static_cast<double>(s.n) *
                      static_cast<double>(std::max<int64_t>(s.k, 1)) / 200000;
  const int64_t wanted = std::clamp<int64_t>(static_cast<int64_t>(work), 1, 64);
  const int64_t row_parts = std::min(tiles, std::max<int64_t>(wanted / 8, 1));
  const int64_t column_parts = std::min(panels, CeilDiv(wanted, row_parts));
  const bool by_vector = packed_b == nullptr && IsByVector(s);
  const bool in_place = packed_b == nullptr && ReadsInPlace(s);
  for (int64_t p = 0; p < s.batch[0]; ++p) {
    for (int64_t q = 0; q < s.batch[1]; ++q) {
      const void *packed = packed_b, *matrix = nullptr;
      const bool is_new = (p == 0 && q == 0) || s.b_stride[0] != 0 || s.b_stride[1] != 0;
      if (by_vector) {
        matrix = at(b, s.b_stride, p, q);
      } else if (packed == nullptr) {
        if (in_place) matrix = at(b, s.b_stride, p, q);
        // In place, all but the last columns.
        const int64_t first = in_place ? s.n / width : 0;
        if (is_new) PackFrom(type, s, first, at(b, s.b_stride, p, q), scratch, par);
        packed = scratch;
      }
      const void* rows = at(a, s.a_stride, p, q);
      char* target = const_cast<char*>(at(c, s.c_stride, p, q));
      par.For(row_parts * column_parts, [&](int64_t task) {
        const int64_t i = task / column_parts, j = task % column_parts;
        const int64_t m0 = tiles * i / row_parts * tile;
        const int64_t count = std::min(s.m, tiles * (i + 1) / row_parts * tile) - m0;
        const int64_t n0 = panels * j / column_parts * width;
        const int64_t n1 = std::min(s.n, panels * (j + 1) / column_parts * width);
        const int64_t blocks = CeilDiv(count, kRowsTogether);
        for (int64_t block = 0; block < blocks; ++block) {
          const int64_t first = m0 + count * block / blocks;
          const int64_t end = m0 + count * (block + 1) / blocks;
          const TypedPart part{s.k,
                               s.n,
                               rows,
                               s.a_transposed ? 1 : s.lda,
                               s.a_transposed ? s.lda : 1,
                               packed,
                               matrix,
                               s.ldb,
                               target,
                               s.ldc,
                               first,
                               end,
                               n0,
                               n1};
          by_vector ? HWY_DYNAMIC_DISPATCH(MultiplyVectorPart)(type, part)
                    : HWY_DYNAMIC_DISPATCH(MultiplyPart)(type, part);
          prepared.Apply(target + ByteSize(type, first * s.ldc + n0), s.ldc, first, end - first, n0,
                         n1 - n0, p, q);
        }
      });
    }
  }
}

}  // namespace sardonyx
#endif  // HWY_ONCE
