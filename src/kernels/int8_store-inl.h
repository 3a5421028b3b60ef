// Sums in int32 to results, for each SIMD target. No guard but Highway's: compiled once a target.
#if defined(SARDONYX_INT8_STORE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SARDONYX_INT8_STORE_INL_H_
#undef SARDONYX_INT8_STORE_INL_H_
#else
#define SARDONYX_INT8_STORE_INL_H_
#endif

#include <algorithm>
#include <type_traits>

#include "hwy/highway.h"
#include "kernels/gemm_int8.h"
#include "kernels/row_math-inl.h"
#include "kernels/saturated-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Sums = hn::ScalableTag<int32_t>;
using Reals = hn::ScalableTag<float>;
constexpr int64_t kSumLanes = static_cast<int64_t>(hn::MaxLanes(Sums()));

// A vector of residuals as float, or its first `count`, where what lies behind may not be read.
template <typename T>
HWY_INLINE hn::Vec<Reals> LoadReal(const T* from, int64_t count = kSumLanes) {
  const hn::Rebind<T, Sums> d;
  const auto values = count == kSumLanes ? hn::LoadU(d, from) : LoadPart(d, from, count);
  if constexpr (sizeof(T) == 4) {
    return values;
  } else {
    return hn::ConvertTo(Reals(), hn::PromoteTo(Sums(), values));
  }
}

// The first `count` values, which have the size of T.
template <typename T, class V>
HWY_INLINE void StoreFirst(V values, int64_t count, T* to) {
  const hn::Rebind<T, Sums> d;
  if (count == kSumLanes) return hn::StoreU(values, d, to);
  StorePart(values, d, to, count);
}

// Rounds to the nearest even and adds the zero point, for values far below 2^22: a sum with
// 1.5 * 2^23 has them in its last bits.
HWY_INLINE hn::Vec<Sums> Rounded(hn::Vec<Reals> v, int32_t zero_point) {
  const Sums d;
  const auto magic = hn::Set(Reals(), 12582912.0f);
  const auto bits = hn::BitCast(d, hn::Add(v, magic));
  return hn::Add(bits, hn::Set(d, zero_point - 0x4B400000));
}

template <typename T>
HWY_INLINE void StoreValues(hn::Vec<Reals> v, int32_t zero_point, int64_t count, T* to) {
  if constexpr (sizeof(T) == 4) {
    StoreFirst(v, count, to);
  } else {
    StoreFirst(Saturated<T>(Rounded(v, zero_point)), count, to);
  }
}

// What Int8Rescale says of a vector of sums; r: the residual, if kResidual.
template <bool kRounds, bool kResidual>
HWY_INLINE hn::Vec<Reals> Rescaled(hn::Vec<Sums> sums, hn::Vec<Reals> scale, hn::Vec<Reals> offset,
                                   hn::Vec<Reals> r, const Int8Rescale& rescale) {
  const Reals d;
  auto v = hn::MulAdd(hn::ConvertTo(d, sums), scale, offset);
  if constexpr (kRounds) {
    v = hn::Min(hn::Max(v, hn::Set(d, rescale.round_low)), hn::Set(d, rescale.round_high));
    v = hn::MulAdd(hn::Round(v), hn::Set(d, rescale.again), hn::Set(d, rescale.again_offset));
  }
  if constexpr (kResidual) v = hn::MulAdd(r, hn::Set(d, rescale.residual_scale), v);
  return v;
}

HWY_INLINE hn::Vec<Reals> Clamped(hn::Vec<Reals> v, const Int8Rescale& rescale) {
  const Reals d;
  return hn::Min(hn::Max(v, hn::Set(d, rescale.low)), hn::Set(d, rescale.high));
}

// R: the type of the residual, void for none.
template <typename T, typename R, bool kRounds>
HWY_INLINE void StoreRescaled(const int32_t* HWY_RESTRICT sums, int64_t stride, int64_t rows,
                              int64_t columns, int64_t first_column, const Int8Store& store) {
  const Sums ds;
  const Reals d;
  constexpr bool kResidual = !std::is_void_v<R>;
  const Int8Rescale rescale = *store.rescale;
  for (int64_t j = 0; j < columns; j += kSumLanes) {
    const auto scale = hn::LoadU(d, rescale.scale + first_column + j);
    const auto offset = hn::LoadU(d, rescale.offset + first_column + j);
    const int64_t count = std::min(columns - j, kSumLanes);
    T* to = static_cast<T*>(store.y) + j;
    using Residual = std::conditional_t<std::is_void_v<R>, uint8_t, R>;
    [[maybe_unused]] const Residual* residual = nullptr;
    if constexpr (kResidual) residual = static_cast<const R*>(store.residual) + j;
    const int32_t* from = sums + j;
    for (int64_t i = 0; i < rows; ++i, to += store.y_stride, from += stride) {
      auto r = hn::Zero(d);
      if constexpr (kResidual) {
        r = LoadReal(residual, count);
        residual += store.residual_stride;
      }
      auto v = Rescaled<kRounds, kResidual>(hn::LoadU(ds, from), scale, offset, r, rescale);
      if (rescale.clamps) v = Clamped(v, rescale);
      StoreValues(v, rescale.zero_point, count, to);
    }
  }
}

template <typename T, typename R>
HWY_INLINE void StoreWith(const int32_t* sums, int64_t stride, int64_t rows, int64_t columns,
                          int64_t first_column, const Int8Store& store) {
  if (store.rescale->rounds) {
    StoreRescaled<T, R, true>(sums, stride, rows, columns, first_column, store);
  } else {
    StoreRescaled<T, R, false>(sums, stride, rows, columns, first_column, store);
  }
}

template <typename T>
HWY_INLINE void StoreAs(const int32_t* sums, int64_t stride, int64_t rows, int64_t columns,
                        int64_t first_column, const Int8Store& store) {
  if (!store.rescale->has_residual) {
    return StoreWith<T, void>(sums, stride, rows, columns, first_column, store);
  }
  switch (store.rescale->residual_type) {
    case DType::kInt8:
      return StoreWith<T, int8_t>(sums, stride, rows, columns, first_column, store);
    case DType::kFloat32:
      return StoreWith<T, float>(sums, stride, rows, columns, first_column, store);
    default: return StoreWith<T, uint8_t>(sums, stride, rows, columns, first_column, store);
  }
}

[[maybe_unused]] HWY_NOINLINE void StoreSums(const int32_t* sums, int64_t stride, int64_t rows,
                                             int64_t columns, int64_t first_column,
                                             const Int8Store& store) {
  if (store.rescale == nullptr) {
    for (int64_t j = 0; j < columns; j += kSumLanes) {
      const int64_t count = std::min(columns - j, kSumLanes);
      int32_t* to = static_cast<int32_t*>(store.y) + j;
      for (int64_t i = 0; i < rows; ++i, to += store.y_stride) {
        StoreFirst(hn::LoadU(Sums(), sums + i * stride + j), count, to);
      }
    }
    return;
  }
  switch (store.rescale->type) {
    case DType::kInt8: return StoreAs<int8_t>(sums, stride, rows, columns, first_column, store);
    case DType::kUInt8: return StoreAs<uint8_t>(sums, stride, rows, columns, first_column, store);
    default: return StoreAs<float>(sums, stride, rows, columns, first_column, store);
  }
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SARDONYX_INT8_STORE_INL_H_
