// How the sums of a register tile leave the registers, for every kernel that has such tiles of
// float32. Included once a target, after hwy/highway.h.

#if defined(SARDONYX_TILE_STORE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SARDONYX_TILE_STORE_INL_H_
#undef SARDONYX_TILE_STORE_INL_H_
#else
#define SARDONYX_TILE_STORE_INL_H_
#endif

#include <algorithm>
#include <atomic>

#include "hwy/highway.h"
#include "kernels/activation-inl.h"
#include "kernels/gemm_block.h"
#include "kernels/rounding-inl.h"
#include "kernels/row_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {

// An activation as a tile applies it. HardSwish alone may be affine: it is short, and networks that
// scale an activation have that one.
template <Activation::Kind kKind>
class TileActivation {
 public:
  using D = hn::ScalableTag<float>;
  using V = hn::Vec<D>;
  static constexpr bool kAffine = kKind == Activation::Kind::kHardSwish;

  explicit TileActivation(const Activation& a)
      : function_(a), scale_(hn::Set(D(), a.scale)), shift_(hn::Set(D(), a.shift)) {}
  HWY_INLINE V operator()(V x) const {
    const V y = function_(x);
    return kAffine ? hn::MulAdd(y, scale_, shift_) : y;
  }

 private:
  ActivationFunction<kKind> function_;
  V scale_, shift_;
};

// A TileEpilogue but for its activation, seen from one tile.
struct TileStore {
  bool accumulate = false;
  const float* sums = nullptr;  // of the same size, to be added as well
  DType sum_rounding = DType::kFloat32;
  const float* bias = nullptr;  // the panel's
  const float* residual = nullptr;
  int64_t residual_ld = 0;
  bool clamp = false;
  float lo = 0.0f, hi = 0.0f;
  DType rounding = DType::kFloat32;
  // A TileActivation of the tile's kind, for whole vectors with neither residual nor clamp, or
  // null.
  const void* activation = nullptr;
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

// A pointer in a register of its own: the compiler would make it up from others.
template <class T>
HWY_INLINE T* Kept(T* pointer) {
  asm("" : "+r"(pointer));
  return pointer;
}

// Vector v of a row of kNV; `part` says which columns of the last there are.
template <int kNV, bool kPart, class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> LoadColumns(D d, const float* row, int v,
                                                  hwy::HWY_NAMESPACE::Mask<D> part) {
  namespace hn = hwy::HWY_NAMESPACE;
  row += v * static_cast<int64_t>(hn::MaxLanes(d));
  return kPart && v + 1 == kNV ? hn::MaskedLoad(part, d, row) : hn::LoadU(d, row);
}

template <bool kPart, class D, class V, int kM, int kNV>
HWY_INLINE void AddRows(D d, const float* from, int64_t ld, hwy::HWY_NAMESPACE::Mask<D> part,
                        V (&acc)[kM][kNV]) {
  namespace hn = hwy::HWY_NAMESPACE;
#pragma GCC unroll 24
  for (int r = 0; r < kM; ++r, from = Kept(from + ld)) {
#pragma GCC unroll 4
    for (int v = 0; v < kNV; ++v) {
      acc[r][v] = hn::Add(acc[r][v], LoadColumns<kNV, kPart>(d, from, v, part));
    }
  }
}

// Finishes and stores row after row: the first leave while the last products are summed and those
// of the next tile begin. The compiler would do the same step for all rows and then the next.
template <bool kPart, bool kResidual, bool kClamp,
          Activation::Kind kActivation = Activation::Kind::kNone, class D, class V, int kM, int kNV>
HWY_INLINE void StoreRows(D d, V (&acc)[kM][kNV], float* c, int64_t ldc, const TileStore& store,
                          hwy::HWY_NAMESPACE::Mask<D> part) {
  namespace hn = hwy::HWY_NAMESPACE;
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(D()));
  HWY_ALIGN static constexpr float kNoBias[kNV * kL] = {};
  const float* const bias = store.bias == nullptr ? kNoBias : store.bias;
  const float* residual = store.residual;
  const int64_t residual_ld = store.residual_ld;
  const V lo = hn::Set(d, store.lo), hi = hn::Set(d, store.hi);
  const auto store_row = [&](int r, const auto& activate) HWY_ATTR {
    std::atomic_signal_fence(std::memory_order_seq_cst);
#pragma GCC unroll 4
    for (int v = 0; v < kNV; ++v) {
      V value = hn::Add(acc[r][v], LoadColumns<kNV, kPart>(d, bias, v, part));
      if (kResidual) value = hn::Add(value, LoadColumns<kNV, kPart>(d, residual, v, part));
      if (kClamp) value = AtMost(d, hi, AtLeast(d, lo, value));
      value = activate(value);
      if (kPart && v + 1 == kNV) {
        hn::BlendedStore(value, part, d, c + v * kL);
      } else {
        hn::StoreU(value, d, c + v * kL);
      }
    }
    c = Kept(c + ldc);
    if (kResidual) residual = Kept(residual + residual_ld);
  };
  if constexpr (kActivation == Activation::Kind::kNone) {
#pragma GCC unroll 24
    for (int r = 0; r < kM; ++r) store_row(r, [](V value) HWY_ATTR { return value; });
  } else {
    using Activates = TileActivation<kActivation>;
    // From this row on registers that have held sums hold the constants: those of HardSwish, which
    // is short, would take as long to load. (64 to 64 channels of 24x160 in 0.93 of the time; Zen
    // 4)
    constexpr int kHeldFrom = kActivation == Activation::Kind::kHardSwish ? std::min(3, kM) : kM;
    const auto* const activation = static_cast<const Activates*>(store.activation);
#pragma GCC unroll 24
    for (int r = 0; r < kHeldFrom; ++r) {
      // Constants stay in memory: registers hold the sums.
      store_row(r, [activation](V value) HWY_ATTR {
        std::atomic_signal_fence(std::memory_order_seq_cst);
        return (*activation)(value);
      });
    }
    if constexpr (kHeldFrom < kM) {
      const Activates held = *activation;
#pragma GCC unroll 24
      for (int r = kHeldFrom; r < kM; ++r) store_row(r, held);
    }
  }
}

template <bool kPart, class D, class V, int kM, int kNV>
HWY_INLINE void StoreColumns(D d, V (&acc)[kM][kNV], float* c, int64_t ldc,
                             const TileStore& store) {
  namespace hn = hwy::HWY_NAMESPACE;
  const auto part = hn::FirstN(d, hn::Lanes(d) - static_cast<size_t>(store.left_out));
  if (store.accumulate) AddRows<kPart>(d, c, ldc, part, acc);
  if (store.residual != nullptr) {
    store.clamp ? StoreRows<kPart, true, true>(d, acc, c, ldc, store, part)
                : StoreRows<kPart, true, false>(d, acc, c, ldc, store, part);
  } else {
    store.clamp ? StoreRows<kPart, false, true>(d, acc, c, ldc, store, part)
                : StoreRows<kPart, false, false>(d, acc, c, ldc, store, part);
  }
}

// What is stored at columns j on of a row of FinishTile; `load` reads a vector.
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

// One row of FinishTile, columns [j, ...) as far as whole vectors of `d` go; returns where it
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

// Finishes a tile that reaches beyond the last column, or whose values are rounded: from a buffer.
inline void FinishTile(const float* tile, int64_t tile_ld, int64_t rows, int64_t columns, float* c,
                       int64_t ldc, const TileStore& store) {
  namespace hn = hwy::HWY_NAMESPACE;
  for (int64_t r = 0; r < rows; ++r, tile += tile_ld, c += ldc) {
    const float* residual =
        store.residual == nullptr ? nullptr : store.residual + r * store.residual_ld;
    int64_t j = FinishRow(hn::ScalableTag<float>(), tile, 0, columns, c, residual, store);
    j = FinishRow(hn::CappedTag<float, 8>(), tile, j, columns, c, residual, store);
    if (j == columns) continue;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
    const hn::CappedTag<float, 8> d;
    const int64_t rest = columns - j;
    const auto part = hn::FirstN(d, static_cast<size_t>(rest));
    const auto load = [d, part](const float* from)
                          HWY_ATTR { return hn::MaskedLoad(part, d, from); };
    StorePart(FinishedAt(d, tile, j, c, residual, store, load), d, c + j, rest);
#else
    j = FinishRow(hn::CappedTag<float, 4>(), tile, j, columns, c, residual, store);
    FinishRow(hn::CappedTag<float, 1>(), tile, j, columns, c, residual, store);
#endif
  }
}

// Stores a tile of kM rows and kNV vectors.
template <Activation::Kind kActivation = Activation::Kind::kNone, class D, class V, int kM, int kNV>
HWY_INLINE void StoreTile(D d, V (&acc)[kM][kNV], float* c, int64_t ldc, const TileStore& store) {
  namespace hn = hwy::HWY_NAMESPACE;
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(D())), kWidth = kNV * kL;
  if (store.sums != nullptr) AddRows<false>(d, store.sums, kWidth, hn::FirstN(d, 0), acc);
  if constexpr (kActivation != Activation::Kind::kNone) {
    if (store.activation != nullptr) {
      if (store.accumulate) AddRows<false>(d, c, ldc, hn::FirstN(d, 0), acc);
      return StoreRows<false, false, false, kActivation>(d, acc, c, ldc, store, hn::FirstN(d, 0));
    }
  }
  if (store.sum_rounding != DType::kFloat32 || store.rounding != DType::kFloat32) {
    HWY_ALIGN float tile[kM * kWidth];
    StoreRows<false, false, false>(d, acc, tile, kWidth, TileStore(), hn::FirstN(d, 0));
    FinishTile(tile, kWidth, kM, kWidth - store.left_out, c, ldc, store);
  } else if (kPartialStores && store.left_out > 0) {
    StoreColumns<kPartialStores>(d, acc, c, ldc, store);
  } else {
    StoreColumns<false>(d, acc, c, ldc, store);
  }
}

// Stores the first `rows` rows of a tile of one vector.
template <class D, class V, int kM>
HWY_INLINE void StoreFirstRows(D d, V (&acc)[kM][1], int64_t rows, float* c, int64_t ldc,
                               const TileStore& store) {
  namespace hn = hwy::HWY_NAMESPACE;
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(D()));
  if (rows == kM && (kPartialStores || store.left_out == 0)) {
    return StoreTile(d, acc, c, ldc, store);
  }
  HWY_ALIGN float tile[kM * kL];
#pragma GCC unroll 16
  for (int r = 0; r < kM; ++r) hn::Store(acc[r][0], d, tile + r * kL);
  FinishTile(tile, kL, rows, kL - store.left_out, c, ldc, store);
}

}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#endif
