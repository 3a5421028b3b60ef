#include "kernels/winograd_int8.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/winograd_int8.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"
#include "kernels/int8_products-inl.h"
#include "kernels/int8_store-inl.h"
#include "kernels/int8_tile_store-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

// Values and results of an axis.
constexpr int kSide = 6, kPixels = static_cast<int>(kInt8TilePixels);

// B^T.
template <class V>
HWY_INLINE void MapInput(const V* x, V* to) {
  const V r = hn::Sub(x[4], x[2]), w = hn::Sub(x[3], x[1]);
  to[0] = hn::Add(hn::ShiftLeft<2>(hn::Sub(x[0], x[2])), r);
  const V p = hn::Sub(x[4], hn::ShiftLeft<2>(x[2])), q = hn::Sub(x[3], hn::ShiftLeft<2>(x[1]));
  to[1] = hn::Add(p, q);
  to[2] = hn::Sub(p, q);
  const V s = hn::Add(w, w);
  to[3] = hn::Add(r, s);
  to[4] = hn::Sub(r, s);
  to[5] = hn::Sub(hn::Sub(x[5], x[3]), hn::ShiftLeft<2>(w));
}

// G', of which the rows miss the factors 1/24, -1/6, -1/6, 1/24, 1/24 and 1/6.
template <class V>
HWY_INLINE void MapWeights(const V* x, V* to) {
  const V ends = hn::Add(x[0], x[2]), four = hn::Add(x[0], hn::ShiftLeft<2>(x[2]));
  const V two = hn::Add(x[1], x[1]);
  const auto six_times = [](V v) HWY_ATTR { return hn::Add(hn::ShiftLeft<2>(v), hn::Add(v, v)); };
  to[0] = six_times(x[0]);
  to[1] = hn::Add(ends, x[1]);
  to[2] = hn::Sub(ends, x[1]);
  to[3] = hn::Add(four, two);
  to[4] = hn::Sub(four, two);
  to[5] = six_times(x[2]);
}

// A'^T: A^T with those factors, 3 * 2^kTwos[row] times.
constexpr int kTwos[] = {3, 2, 1, 1};
template <class V>
HWY_INLINE void MapOutput(const V* x, V* to) {
  const V s1 = hn::Add(x[1], x[2]), d1 = hn::Sub(x[1], x[2]);
  const V s2 = hn::Add(x[3], x[4]), d2 = hn::Sub(x[3], x[4]);
  to[0] = hn::Sub(hn::Add(x[0], s2), hn::ShiftLeft<2>(s1));
  to[1] = hn::Sub(d2, hn::Add(d1, d1));
  to[2] = hn::Sub(s2, s1);
  to[3] = hn::Add(hn::Sub(hn::Add(d2, d2), d1), x[5]);
}

// T: of the bytes. A zero point, the same in all pixels, is in one of the values alone, 36 times:
// the other lines of B^T sum to zero.
template <typename T, class D>
HWY_INLINE int64_t InputChannels(D d, const WinogradInt8Input& in, int64_t c) {
  using V = hn::Vec<D>;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  const hn::Rebind<T, D> bytes;
  const V zero = hn::Set(d, static_cast<int16_t>(36 * in.zero));
  for (; c + kLanes <= in.channels; c += kLanes) {
    V half[kSide][kSide];
#pragma GCC unroll 6
    for (int j = 0; j < kSide; ++j) {
      V column[kSide], mapped[kSide];
#pragma GCC unroll 6
      for (int i = 0; i < kSide; ++i) {
        const T* const from = reinterpret_cast<const T*>(in.pixels[i * kSide + j]);
        column[i] = hn::PromoteTo(d, hn::LoadU(bytes, from + c));
      }
      MapInput(column, mapped);
#pragma GCC unroll 6
      for (int i = 0; i < kSide; ++i) half[i][j] = mapped[i];
    }
    int16_t* to = in.values + c;
#pragma GCC unroll 6
    for (int i = 0; i < kSide; ++i) {
      V mapped[kSide];
      MapInput(half[i], mapped);
      if (i == 1) mapped[1] = hn::Sub(mapped[1], zero);
#pragma GCC unroll 6
      for (int j = 0; j < kSide; ++j, to += in.t_stride) hn::StoreU(mapped[j], d, to);
    }
  }
  return c;
}

template <typename T>
void InputOf(const WinogradInt8Input& in) {
  const int64_t c = InputChannels<T>(hn::ScalableTag<int16_t>(), in, 0);
  InputChannels<T>(hn::CappedTag<int16_t, kInt8ChannelGranule>(), in, c);
}

void Input(const WinogradInt8Input& in) {
  in.is_signed ? InputOf<int8_t>(in) : InputOf<uint8_t>(in);
}

// Values of one kind of channel: [36, lanes], those of a position t_stride apart.
template <class V>
HWY_INLINE void WeightsOf(const V (&kernels)[9], int16_t* to, int64_t t_stride) {
  const hn::DFromV<V> d;
  V half[kSide][3];
#pragma GCC unroll 3
  for (int j = 0; j < 3; ++j) {
    const V column[] = {kernels[j], kernels[3 + j], kernels[6 + j]};
    V mapped[kSide];
    MapWeights(column, mapped);
#pragma GCC unroll 6
    for (int i = 0; i < kSide; ++i) half[i][j] = mapped[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < kSide; ++i) {
    V mapped[kSide];
    MapWeights(half[i], mapped);
#pragma GCC unroll 6
    for (int j = 0; j < kSide; ++j, to += t_stride) hn::StoreU(mapped[j], d, to);
  }
}

void Weights(const uint8_t* kernels, int64_t width, int16_t zero, int16_t* to, int64_t t_stride) {
  const hn::CappedTag<int16_t, 16> d;
  const hn::Repartition<uint32_t, decltype(d)> columns;
  const hn::Repartition<uint8_t, decltype(d)> bytes;
  const auto low = hn::Set(columns, 0xffu);
  const auto zeros = hn::Set(d, zero);
  const auto lanes = static_cast<int64_t>(hn::Lanes(columns));
  for (int64_t n = 0; n < width; n += lanes) {
    hn::Vec<decltype(d)> first[9], second[9];
#pragma GCC unroll 9
    for (int t = 0; t < 9; ++t) {
      const auto four = hn::BitCast(columns, hn::LoadU(bytes, kernels + 4 * (t * width + n)));
      const auto byte = [&](auto shifted) HWY_ATTR { return hn::And(shifted, low); };
      const auto pair = [&](auto even, auto odd) HWY_ATTR {
        return hn::Sub(hn::BitCast(d, hn::Or(even, hn::ShiftLeft<16>(odd))), zeros);
      };
      first[t] = pair(byte(four), byte(hn::ShiftRight<8>(four)));
      second[t] = pair(byte(hn::ShiftRight<16>(four)), hn::ShiftRight<24>(four));
    }
    WeightsOf(first, to + 2 * n, t_stride);
    WeightsOf(second, to + 2 * (width + n), t_stride);
  }
}

Int8Differences Differences(const uint8_t* bytes, int64_t count, uint8_t flip, uint8_t zero) {
  const hn::ScalableTag<uint8_t> d;
  const hn::ScalableTag<uint64_t> d64;
  const auto bits = hn::Set(d, flip), middle = hn::Set(d, zero);
  auto above = hn::Zero(d64), below = hn::Zero(d64);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto values = hn::Xor(hn::LoadU(d, bytes + i), bits);
    above = hn::Add(above, hn::SumsOf8(hn::SaturatedSub(values, middle)));
    below = hn::Add(below, hn::SumsOf8(hn::SaturatedSub(middle, values)));
  }
  Int8Differences sums{static_cast<int64_t>(hn::GetLane(hn::SumOfLanes(d64, above))),
                       static_cast<int64_t>(hn::GetLane(hn::SumOfLanes(d64, below)))};
  for (; i < count; ++i) {
    const int difference = (bytes[i] ^ flip) - zero;
    (difference > 0 ? sums.above : sums.below) += std::abs(difference);
  }
  return sums;
}

// A vector of columns of a tile: `store` takes each line's results, times 64.
template <class StoreLine>
HWY_INLINE void OutputTile(const int32_t* products, int64_t t_stride, StoreLine&& store) {
  constexpr uint32_t kNinth = 954437177;  // 9 times this is 1 modulo 2^32
  const Sums d;
  Lanes half[kPixels][kSide];
#pragma GCC unroll 6
  for (int j = 0; j < kSide; ++j) {
    Lanes column[kSide], mapped[kPixels];
    const int32_t* from = products + j * t_stride;
#pragma GCC unroll 6
    for (int i = 0; i < kSide; ++i, from += kSide * t_stride) column[i] = hn::Load(d, from);
    MapOutput(column, mapped);
#pragma GCC unroll 4
    for (int i = 0; i < kPixels; ++i) half[i][j] = mapped[i];
  }
#pragma GCC unroll 4
  for (int i = 0; i < kPixels; ++i) {
    Lanes line[kPixels];
    MapOutput(half[i], line);
#pragma GCC unroll 4
    for (int j = 0; j < kPixels; ++j) {
      const uint32_t factor = kNinth << (6 - kTwos[i] - kTwos[j]);
      line[j] = hn::Mul(line[j], hn::Set(d, static_cast<int32_t>(factor)));
    }
    store(i, line);
  }
}

// Tiles whose results are bytes, and of which all vectors of columns are whole.
template <bool kResidual>
void OutputBytes(const WinogradInt8Output& out) {
  const Reals d;
  const hn::Repartition<int16_t, Sums> d16;
  const hn::Repartition<uint8_t, Sums> d8;
  const Int8Rescale rescale = *out.store.rescale;
  const ByteRange range = RangeOf(rescale);
  const auto zero_point = hn::Set(d16, range.zero);
  const auto flip = hn::Set(d8, range.flip);
  const auto low = hn::Set(d8, range.low), high = hn::Set(d8, range.high);
  HWY_ALIGN uint8_t results[kPixels * kSumLanes];
  for (int64_t tile = 0; tile < out.tiles; ++tile) {
    const int64_t first = tile * kInt8TilePixels;
    const int64_t pixels = std::min(out.pixels - first, kInt8TilePixels);
    for (int64_t n = 0; n < out.columns; n += kSumLanes) {
      const Int8Store store = out.store.From(first, n);
      const auto* const residual = static_cast<const uint8_t*>(store.residual);
      const int64_t column = out.first_column + n;
      const auto scale =
          hn::Mul(hn::LoadU(d, rescale.scale + column), hn::Set(d, 1.0f / 64));  // loses nothing
      const auto offset = hn::LoadU(d, rescale.offset + column);
      const auto store_line = [&](int i, const Lanes(&line)[kPixels]) HWY_ATTR {
        if (i >= out.lines) return;
        Lanes rounded[kPixels];
#pragma GCC unroll 4
        for (int j = 0; j < kPixels; ++j) {
          auto r = hn::Zero(d);
          if constexpr (kResidual) {  // of the last pixel for those behind it
            const int64_t pixel = i * out.line_pixels + std::min<int64_t>(j, pixels - 1);
            r = LoadReal(residual + pixel * store.residual_stride);
          }
          rounded[j] = Nearest(Rescaled<kResidual, kResidual>(line[j], scale, offset, r, rescale));
        }
        const auto words = [&](int j) HWY_ATTR {
          return hn::SaturatedAdd(hn::ReorderDemote2To(d16, rounded[j], rounded[j + 1]),
                                  zero_point);
        };
        // Bounds hold behind the rounding as well, where they cost a fourth.
        const auto bytes = hn::Min(hn::Max(PackPairs<uint8_t>(words(0), words(2)), low), high);
        hn::Store(RowsApart(hn::Xor(bytes, flip)), d8, results);
        uint8_t* y = static_cast<uint8_t*>(store.y) + i * out.line_pixels * store.y_stride;
        for (int64_t j = 0; j < pixels; ++j, y += store.y_stride) {
          std::memcpy(y, results + j * kSumLanes, kSumLanes);
        }
      };
      OutputTile(out.products + tile * out.width + n, out.t_stride, store_line);
    }
  }
}

void Output(const WinogradInt8Output& out) {
  using Kind = TileResult::Kind;
  const Kind kind = KindOf(out.store.rescale, out.first_column, out.first_column + out.columns);
  if (out.columns % kSumLanes == 0) {
    if (kind == Kind::kBytes) return OutputBytes<false>(out);
    if (kind == Kind::kBytesWithResidual) return OutputBytes<true>(out);
  }
  const Sums d;
  const int64_t tile_sums = kInt8TilePixels * out.width, line_sums = out.tiles * tile_sums;
  for (int64_t tile = 0; tile < out.tiles; ++tile) {
    for (int64_t n = 0; n < out.width; n += kSumLanes) {
      int32_t* const to = out.sums + tile * tile_sums + n;
      OutputTile(out.products + tile * out.width + n, out.t_stride,
                 [&](int i, const Lanes(&line)[kPixels]) HWY_ATTR {
#pragma GCC unroll 4
                   for (int j = 0; j < kPixels; ++j) {
                     hn::Store(hn::ShiftRight<6>(line[j]), d, to + i * line_sums + j * out.width);
                   }
                 });
    }
  }
  for (int64_t i = 0; i < out.lines; ++i) {
    StoreSums(out.sums + i * line_sums, out.width, out.pixels, out.columns, out.first_column,
              out.store.From(i * out.line_pixels, 0));
  }
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Input);
HWY_EXPORT(Weights);
HWY_EXPORT(Differences);
HWY_EXPORT(Output);

void TransformInt8Input(const WinogradInt8Input& args) { HWY_DYNAMIC_DISPATCH(Input)(args); }
void TransformInt8Weights(const uint8_t* kernels, int64_t width, int16_t zero, int16_t* to,
                          int64_t t_stride) {
  HWY_DYNAMIC_DISPATCH(Weights)(kernels, width, zero, to, t_stride);
}
Int8Differences SumInt8Differences(const uint8_t* bytes, int64_t count, uint8_t flip,
                                   uint8_t zero) {
  return HWY_DYNAMIC_DISPATCH(Differences)(bytes, count, flip, zero);
}
void TransformInt8Output(const WinogradInt8Output& args) { HWY_DYNAMIC_DISPATCH(Output)(args); }

}  // namespace sardonyx
#endif  // HWY_ONCE
