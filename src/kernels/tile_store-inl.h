// How the sums of a register tile leave the registers, for every kernel that has such tiles of
// float32. Included once a target, after hwy/highway.h.

#if defined(SARDONYX_TILE_STORE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SARDONYX_TILE_STORE_INL_H_
#undef SARDONYX_TILE_STORE_INL_H_
#else
#define SARDONYX_TILE_STORE_INL_H_
#endif

#include <limits>

#include "hwy/highway.h"
#include "kernels/gemm_block.h"
#include "kernels/rounding-inl.h"
#include "kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {

// A TileEpilogue but for its activation, seen from one tile.
struct TileStore {
  bool accumulate = false;
  DType sum_rounding = DType::kFloat32;
  const float* bias = nullptr;  // the panel's
  const float* residual = nullptr;
  int64_t residual_ld = 0;
  bool clamp = false;
  float lo = 0.0f, hi = 0.0f;
  DType rounding = DType::kFloat32;
  int64_t left_out = 0;  // columns at the end of the last vector; kPartialStores alone
};

#if HWY_TARGET == HWY_AVX3  // elsewhere it is slow to store a part of a vector
constexpr bool kPartialStores = true;
#else
constexpr bool kPartialStores = false;
#endif

// For the panel that begins at `column`; the residual is a tile's (ResidualOf).
inline TileStore StoreOf(bool accumulate, const TileEpilogue* epilogue, int64_t column) {
  TileStore store{.accumulate = accumulate};
  if (epilogue == nullptr) return store;
  if (epilogue->bias != nullptr) store.bias = epilogue->bias + column;
  store.sum_rounding = epilogue->sum_rounding;
  store.residual_ld = epilogue->residual_ld;
  store.clamp = epilogue->clamp;
  store.lo = epilogue->lo;
  store.hi = epilogue->hi;
  store.rounding = epilogue->rounding;
  return store;
}
inline const float* ResidualOf(const TileEpilogue* epilogue, int64_t row, int64_t column) {
  if (epilogue == nullptr || epilogue->residual == nullptr) return nullptr;
  return epilogue->residual + row * epilogue->residual_ld + column;
}

template <class D, class V, int kM, int kNV>
HWY_INLINE void RoundTile(D d, DType to, V (&acc)[kM][kNV]) {
  if (to == DType::kFloat32) return;
#pragma GCC unroll 16
  for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kNV; ++v) acc[r][v] = RoundTo(d, to, acc[r][v]);
  }
}

template <bool kPart, class D, class V, int kM, int kNV>
HWY_INLINE void StoreVectors(D d, V (&acc)[kM][kNV], float* c, int64_t ldc,
                             const TileStore& store) {
  namespace hn = hwy::HWY_NAMESPACE;
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(D()));
  const auto part = hn::FirstN(d, static_cast<size_t>(kL - store.left_out));
  const auto load = [d, part](const float* from, int v) HWY_ATTR {
    return kPart && v + 1 == kNV ? hn::MaskedLoad(part, d, from + v * kL)
                                 : hn::LoadU(d, from + v * kL);
  };
  if (store.accumulate) {
#pragma GCC unroll 16
    for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kNV; ++v) acc[r][v] = hn::Add(acc[r][v], load(c + r * ldc, v));
    }
  }
  RoundTile(d, store.sum_rounding, acc);
  if (store.bias != nullptr) {
#pragma GCC unroll 4
    for (int v = 0; v < kNV; ++v) {
      const V bias = load(store.bias, v);
#pragma GCC unroll 16
      for (int r = 0; r < kM; ++r) acc[r][v] = hn::Add(acc[r][v], bias);
    }
  }
  if (store.residual != nullptr) {
#pragma GCC unroll 16
    for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kNV; ++v) {
        acc[r][v] = hn::Add(acc[r][v], load(store.residual + r * store.residual_ld, v));
      }
    }
  }
  // Each bound costs as much as a step of a short product: a ReLU has one.
  if (store.clamp && store.lo > -std::numeric_limits<float>::infinity()) {
    const V lo = hn::Set(d, store.lo);
#pragma GCC unroll 16
    for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kNV; ++v) acc[r][v] = AtLeast(d, lo, acc[r][v]);
    }
  }
  if (store.clamp && store.hi < std::numeric_limits<float>::infinity()) {
    const V hi = hn::Set(d, store.hi);
#pragma GCC unroll 16
    for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kNV; ++v) acc[r][v] = AtMost(d, hi, acc[r][v]);
    }
  }
  RoundTile(d, store.rounding, acc);
#pragma GCC unroll 16
  for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kNV; ++v) {
      if constexpr (kPart) {
        if (v + 1 == kNV) {
          hn::BlendedStore(acc[r][v], part, d, c + r * ldc + v * kL);
          continue;
        }
      }
      hn::StoreU(acc[r][v], d, c + r * ldc + v * kL);
    }
  }
}

// Stores a tile of kM rows and kNV vectors.
template <class D, class V, int kM, int kNV>
HWY_INLINE void StoreTile(D d, V (&acc)[kM][kNV], float* c, int64_t ldc, const TileStore& store) {
  if constexpr (kPartialStores) {
    if (store.left_out > 0) return StoreVectors<true>(d, acc, c, ldc, store);
  }
  StoreVectors<false>(d, acc, c, ldc, store);
}

// What is stored at columns j on of a row of FinishPartial; `load` reads a vector.
template <class D, class Load>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> FinishedAt(D d, const float* tile, int64_t j, const float* c,
                                                 const float* residual, const TileStore& store,
                                                 Load&& load) {
  namespace hn = hwy::HWY_NAMESPACE;
  auto value = hn::LoadU(d, tile + j);
  if (store.accumulate) value = hn::Add(value, load(c + j));
  value = RoundTo(d, store.sum_rounding, value);
  if (store.bias != nullptr) value = hn::Add(value, load(store.bias + j));
  if (residual != nullptr) value = hn::Add(value, load(residual + j));
  if (store.clamp) value = AtMost(d, hn::Set(d, store.hi), AtLeast(d, hn::Set(d, store.lo), value));
  return RoundTo(d, store.rounding, value);
}

// One row of FinishPartial, columns [j, ...) as far as whole vectors of `d` go; returns where it
// ended.
template <class D>
HWY_INLINE int64_t FinishRow(D d, const float* tile, int64_t j, int64_t columns, float* c,
                             const float* residual, const TileStore& store) {
  namespace hn = hwy::HWY_NAMESPACE;
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(D()));
  const auto load = [d](const float* from) HWY_ATTR { return hn::LoadU(d, from); };
  for (; j + kL <= columns; j += kL) {
    hn::StoreU(FinishedAt(d, tile, j, c, residual, store, load), d, c + j);
  }
  return j;
}

// Finishes a tile that reaches beyond the last column: takes the values from a buffer.
inline void FinishPartial(const float* tile, int64_t tile_ld, int64_t rows, int64_t columns,
                          float* c, int64_t ldc, const TileStore& store) {
  namespace hn = hwy::HWY_NAMESPACE;
  for (int64_t r = 0; r < rows; ++r, tile += tile_ld, c += ldc) {
    const float* residual =
        store.residual == nullptr ? nullptr : store.residual + r * store.residual_ld;
    int64_t j = FinishRow(hn::ScalableTag<float>(), tile, 0, columns, c, residual, store);
    j = FinishRow(hn::CappedTag<float, 8>(), tile, j, columns, c, residual, store);
#if HWY_TARGET == HWY_AVX3  // as kPartialStores
    if (j == columns) continue;
    const hn::CappedTag<float, 8> d;
    const auto part = hn::FirstN(d, static_cast<size_t>(columns - j));
    const auto load = [d, part](const float* from)
                          HWY_ATTR { return hn::MaskedLoad(part, d, from); };
    hn::BlendedStore(FinishedAt(d, tile, j, c, residual, store, load), part, d, c + j);
#else
    j = FinishRow(hn::CappedTag<float, 4>(), tile, j, columns, c, residual, store);
    FinishRow(hn::CappedTag<float, 1>(), tile, j, columns, c, residual, store);
#endif
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#endif
