// What tiles of byte products do with their sums while these lie in registers, for each SIMD
// target. No guard but Highway's: compiled once a target.
#if defined(SARDONYX_INT8_TILE_STORE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SARDONYX_INT8_TILE_STORE_INL_H_
#undef SARDONYX_INT8_TILE_STORE_INL_H_
#else
#define SARDONYX_INT8_TILE_STORE_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cmath>

#include "hwy/highway.h"
#include "kernels/gemm_int8.h"
#include "kernels/int8_products-inl.h"
#include "kernels/int8_store-inl.h"
#include "kernels/row_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

constexpr int64_t kWidth = 2 * kSumLanes;

using Lanes = hn::Vec<Sums>;

// What is left to do to sums that were rescaled and rounded.
struct ByteRange {
  int16_t zero = 0;           // the zero point, of int8 with 128 added
  uint8_t flip = 0;           // the bits in which int8 differs from it
  uint8_t low = 0, high = 0;  // of the clamp
  bool bare = false;          // nothing of this is to be done
};

// Where a tile's sums go: to results straight from the registers, for the commonest kinds of them,
// or to `sums` [rows, kWidth].
struct TileResult {
  enum class Kind : uint8_t { kSums, kFloats, kBytes, kBytesWithResidual } kind = Kind::kSums;
  int32_t* sums = nullptr;
  const Int8Rescale* rescale = nullptr;
  ByteRange range = {};                             // of bytes
  const float *scale = nullptr, *offset = nullptr;  // of the panel
  int64_t columns = 0;                              // of it that are stored
  void* y = nullptr;
  const uint8_t* residual = nullptr;
  int64_t y_stride = 0, residual_stride = 0;
};

// Whether what sums of columns [begin, end) become stays far inside the range of int32.
HWY_INLINE bool IsBounded(const Int8Rescale& rescale, int64_t begin, int64_t end) {
  constexpr float kMost = 1 << 30;
  if (rescale.rounds) {
    const float most = std::max(std::abs(rescale.round_low), std::abs(rescale.round_high));
    return most * std::abs(rescale.again) + std::abs(rescale.again_offset) +
               256 * std::abs(rescale.residual_scale) <
           kMost;
  }
  const Reals d;
  auto most_scale = hn::Zero(d), most_offset = hn::Zero(d);
  for (int64_t n = begin; n < end; n += kSumLanes) {
    const auto inside = hn::FirstN(d, static_cast<size_t>(end - n));
    const auto most = [&](auto so_far, const float* from) HWY_ATTR {
      return hn::Max(so_far, hn::Abs(hn::IfThenElseZero(inside, hn::LoadU(d, from + n))));
    };
    most_scale = most(most_scale, rescale.scale);
    most_offset = most(most_offset, rescale.offset);
  }
  return hn::GetLane(hn::MaxOfLanes(d, most_scale)) < 0.25f &&
         hn::GetLane(hn::MaxOfLanes(d, most_offset)) < kMost;
}

// What columns [begin, end) of scale and offset, and the rest of `rescale`, allow.
HWY_INLINE TileResult::Kind KindOf(const Int8Rescale* rescale, int64_t begin, int64_t end) {
  using Kind = TileResult::Kind;
  if (rescale == nullptr) return Kind::kSums;
  const bool plain = !rescale->rounds && !rescale->has_residual;
  if (rescale->type == DType::kFloat32 && plain && !rescale->clamps) return Kind::kFloats;
  if (rescale->type == DType::kFloat32 || !rescale->clamps || !IsBounded(*rescale, begin, end)) {
    return Kind::kSums;
  }
  if (plain) return Kind::kBytes;
  const bool adds =
      rescale->rounds && rescale->has_residual && rescale->residual_type == DType::kUInt8;
  return adds ? Kind::kBytesWithResidual : Kind::kSums;
}

// Of a rescaling to bytes.
HWY_INLINE ByteRange RangeOf(const Int8Rescale& rescale) {
  // int8 is packed as uint8 with 128 added.
  const int32_t shift = rescale.type == DType::kInt8 ? 128 : 0, zero = rescale.zero_point + shift;
  const auto bound = [&](float value) {
    const float byte = std::nearbyint(value) + static_cast<float>(zero);
    return static_cast<uint8_t>(std::clamp(byte, 0.0f, 255.0f));
  };
  return {.zero = static_cast<int16_t>(zero),
          .flip = static_cast<uint8_t>(shift),
          .low = bound(rescale.low),
          .high = bound(rescale.high),
          .bare = zero == 0 && shift == 0 && rescale.low <= 0 && rescale.high >= 255};
}

template <int kM>
SARDONYX_INT8_TILE HWY_INLINE void StoreFloats(const Lanes (&acc)[kM][2], const TileResult& to) {
  const Reals d;
  float* const y = static_cast<float*>(to.y);
  const int64_t y_stride = to.y_stride;
#pragma GCC unroll 2
  for (int v = 0; v < 2; ++v) {
    const auto scale = hn::LoadU(d, to.scale + v * kSumLanes);
    const auto offset = hn::LoadU(d, to.offset + v * kSumLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kM; ++r) {
      hn::StoreU(hn::MulAdd(hn::ConvertTo(d, acc[r][v]), scale, offset), d,
                 y + r * y_stride + v * kSumLanes);
    }
  }
}

// Four vectors' bytes one behind the other, out of what PackBytes made of them: of two rows of a
// panel each in its half of the result.
template <class V>
HWY_INLINE V RowsApart(V packed) {
  if constexpr (kSumLanes == 4) return packed;
  const hn::RebindToUnsigned<Sums> d;
  constexpr int kBlocks = static_cast<int>(kSumLanes / 4);
  HWY_ALIGN static constexpr std::array<int32_t, kSumLanes> kFrom = [] {
    std::array<int32_t, kSumLanes> from{};
    for (int i = 0; i < kSumLanes; ++i) {
      from[static_cast<size_t>(i)] = i % kBlocks * 4 + i / kBlocks;
    }
    return from;
  }();
  const auto indices = hn::SetTableIndices(d, kFrom.data());
  return hn::BitCast(hn::DFromV<V>(), hn::TableLookupLanes(hn::BitCast(d, packed), indices));
}

// The second form is for bytes that are added to bytes: both uint8, rounded in between. kBare: the
// range of uint8, where packing stops by itself, as behind a ReLU.
template <int kM, bool kResidual, bool kBare>
SARDONYX_INT8_TILE HWY_INLINE void StoreBytes(const Lanes (&acc)[kM][2], const TileResult& to) {
  const Reals d;
  const hn::Repartition<int16_t, Sums> d16;
  const hn::Repartition<uint8_t, Sums> d8;
  const hn::Half<decltype(d8)> row_bytes;
  // Copies: bytes that are written might be part of `to`, as the language has it.
  const Int8Rescale rescale = *to.rescale;
  const ByteRange range = to.range;
  const float *const scales = to.scale, *const offsets = to.offset;
  const uint8_t* const residuals = to.residual;
  uint8_t* const y = static_cast<uint8_t*>(to.y);
  const int64_t y_stride = to.y_stride, residual_stride = to.residual_stride;
  const auto zero_point = hn::Set(d16, range.zero);
  const auto flip = hn::Set(d8, range.flip);
  const auto low = hn::Set(d8, range.low), high = hn::Set(d8, range.high);
  const auto whole = [&](int r) HWY_ATTR {
    Lanes values[2];
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      auto residual = hn::Zero(d);
      if constexpr (kResidual) residual = LoadReal(residuals + r * residual_stride + v * kSumLanes);
      const auto scale = hn::LoadU(d, scales + v * kSumLanes);
      const auto offset = hn::LoadU(d, offsets + v * kSumLanes);
      values[v] =
          Nearest(Rescaled<kResidual, kResidual>(acc[r][v], scale, offset, residual, rescale));
    }
    const auto words = hn::ReorderDemote2To(d16, values[0], values[1]);
    return kBare ? words : hn::SaturatedAdd(words, zero_point);
  };
#pragma GCC unroll 8
  for (int r = 0; r < kM; r += 2) {
    const int next = r + 1 < kM ? r + 1 : r;
    auto bytes = PackPairs<uint8_t>(whole(r), whole(next));
    // Bounds hold behind the rounding as well, where they cost a fourth.
    if constexpr (!kBare) bytes = hn::Xor(hn::Min(hn::Max(bytes, low), high), flip);
    const auto rows = RowsApart(bytes);
    hn::StoreU(hn::LowerHalf(rows), row_bytes, y + r * y_stride);
    if (next == r) break;
    hn::StoreU(hn::UpperHalf(row_bytes, rows), row_bytes, y + next * y_stride);
  }
}

// The sums of two rows to y and the row behind it, as StoreBytes, but step by step: while others
// multiply, a row alone would wait for each of its results. `to` and `rescale` are copies.
template <bool kResidual, bool kBare>
SARDONYX_INT8_TILE HWY_INLINE void StoreTwoRows(const Lanes (&first)[2], const Lanes (&second)[2],
                                                uint8_t* y, int64_t y_stride,
                                                const uint8_t* residuals, int64_t residual_stride,
                                                const TileResult& to, const Int8Rescale& rescale) {
  const Reals d;
  const hn::Repartition<int16_t, Sums> d16;
  const hn::Repartition<uint8_t, Sums> d8;
  const hn::Half<decltype(d8)> row_bytes;
  hn::Vec<Reals> values[4] = {hn::ConvertTo(d, first[0]), hn::ConvertTo(d, first[1]),
                              hn::ConvertTo(d, second[0]), hn::ConvertTo(d, second[1])};
#pragma GCC unroll 2
  for (int v = 0; v < 2; ++v) {
    const auto s = hn::LoadU(d, to.scale + v * kSumLanes);
    const auto o = hn::LoadU(d, to.offset + v * kSumLanes);
    values[v] = hn::MulAdd(values[v], s, o);
    values[2 + v] = hn::MulAdd(values[2 + v], s, o);
  }
  if constexpr (kResidual) {
    const auto each = [&](auto&& step) HWY_ATTR { step(0), step(1), step(2), step(3); };
    each([&](int i) HWY_ATTR { values[i] = hn::Max(values[i], hn::Set(d, rescale.round_low)); });
    each([&](int i) HWY_ATTR { values[i] = hn::Min(values[i], hn::Set(d, rescale.round_high)); });
    each([&](int i) HWY_ATTR { values[i] = hn::Round(values[i]); });
    each([&](int i) HWY_ATTR {
      values[i] =
          hn::MulAdd(values[i], hn::Set(d, rescale.again), hn::Set(d, rescale.again_offset));
    });
    each([&](int i) HWY_ATTR {
      const auto residual = LoadReal(residuals + i / 2 * residual_stride + i % 2 * kSumLanes);
      values[i] = hn::MulAdd(residual, hn::Set(d, rescale.residual_scale), values[i]);
    });
  }
  const auto words = [&](int i) HWY_ATTR {
    const auto pair = hn::ReorderDemote2To(d16, Nearest(values[i]), Nearest(values[i + 1]));
    return kBare ? pair : hn::SaturatedAdd(pair, hn::Set(d16, to.range.zero));
  };
  auto bytes = PackPairs<uint8_t>(words(0), words(2));
  // Bounds hold behind the rounding as well, where they cost a fourth.
  if constexpr (!kBare) {
    bytes = hn::Min(hn::Max(bytes, hn::Set(d8, to.range.low)), hn::Set(d8, to.range.high));
    bytes = hn::Xor(bytes, hn::Set(d8, to.range.flip));
  }
  const auto rows = RowsApart(bytes);
  hn::StoreU(hn::LowerHalf(rows), row_bytes, y);
  hn::StoreU(hn::UpperHalf(row_bytes, rows), row_bytes, y + y_stride);
}

// What zero points of the columns ask for.
HWY_INLINE void AddRowSums(const Int8BlockArgs& args, int64_t row, int64_t rows, int64_t n0,
                           int64_t columns, int32_t* sums) {
  const Sums d;
  for (int64_t j = 0; j < columns; j += kSumLanes) {
    const Lanes factor = hn::LoadU(d, args.row_factor + n0 + j);
    for (int64_t i = 0; i < rows; ++i) {
      int32_t* at = sums + i * kWidth + j;
      const Lanes row_sum = hn::Set(d, args.row_sums[row + i]);
      hn::Store(hn::Add(hn::Load(d, at), hn::Mul(row_sum, factor)), d, at);
    }
  }
}

// The first `columns` bytes of rows that lie kWidth bytes apart.
HWY_INLINE void CopyRows(const uint8_t* from, int64_t rows, int64_t columns, uint8_t* y,
                         int64_t y_stride) {
  const hn::Half<hn::Repartition<uint8_t, Sums>> d;
  for (int64_t r = 0; r < rows; ++r) {
    StorePart(hn::LoadU(d, from + r * kWidth), d, y + r * y_stride, columns);
  }
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SARDONYX_INT8_TILE_STORE_INL_H_
