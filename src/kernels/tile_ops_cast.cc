// Conversions between element types, copies and gathers of tiles: plain loops for the compiler to
// vectorise, compiled for each target.
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/tile_ops_cast.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/dtype.h"
#include "kernels/tile_loop.h"
#include "kernels/tile_ops.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// To 64 bits from 8 or 16: the compiler would widen whole vectors step by step, which with AVX2
// takes more permutations than stores.
template <typename To, typename From>
void Widen(const TileArgs& args) {
  const hn::ScalableTag<std::conditional_t<std::is_integral_v<To>, int64_t, To>> to;
  const hn::Rebind<int32_t, decltype(to)> d32;
  const hn::Rebind<From, decltype(to)> from;
  const auto lanes = static_cast<int64_t>(hn::Lanes(to)), count = args.count;
  const From* in = static_cast<const From*>(args.in[0]);
  auto* out = static_cast<hn::TFromD<decltype(to)>*>(args.out);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::PromoteTo(to, hn::PromoteTo(d32, hn::LoadU(from, in + i))), to, out + i);
  }
  for (; i < count; ++i) out[i] = static_cast<hn::TFromD<decltype(to)>>(in[i]);
}

template <typename To, typename From>
void Cast(const TileArgs& args) {
  if constexpr (HWY_TARGET == HWY_AVX2 && std::is_integral_v<From> && sizeof(From) <= 2 &&
                sizeof(To) == 8) {
    return Widen<To, From>(args);
  }
  const From* in = static_cast<const From*>(args.in[0]);
  To* out = static_cast<To*>(args.out);
  // A copy: stores of bytes might change what it was read from, for all the compiler knows.
  const int64_t count = args.count;
  SARDONYX_TILE_LOOP
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<To>(in[i]);
}

#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX3
namespace hn = hwy::HWY_NAMESPACE;

// Without an instruction for 64 bits: most integers fit into 32, and those convert.
template <typename To>
void CastInt64(const TileArgs& args) {
  const hn::ScalableTag<int32_t> d;
  const hn::Half<decltype(d)> half;
  const hn::Rebind<To, std::conditional_t<sizeof(To) == 4, decltype(d), decltype(half)>> to;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d)), count = args.count;
  const int64_t* in = static_cast<const int64_t*>(args.in[0]);
  To* out = static_cast<To*>(args.out);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto first = hn::LoadU(d, reinterpret_cast<const int32_t*>(in + i));
    const auto second = hn::LoadU(d, reinterpret_cast<const int32_t*>(in + i + lanes / 2));
    const auto low = hn::ConcatEven(d, second, first), high = hn::ConcatOdd(d, second, first);
    if (HWY_UNLIKELY(!hn::AllTrue(d, hn::Eq(high, hn::ShiftRight<31>(low))))) {
      for (int64_t k = i; k < i + lanes; ++k) out[k] = static_cast<To>(in[k]);
    } else if constexpr (sizeof(To) == 4) {
      hn::StoreU(hn::ConvertTo(to, low), to, out + i);
    } else {
      hn::StoreU(hn::PromoteTo(to, hn::LowerHalf(half, low)), to, out + i);
      hn::StoreU(hn::PromoteTo(to, hn::UpperHalf(half, low)), to, out + i + lanes / 2);
    }
  }
  for (; i < count; ++i) out[i] = static_cast<To>(in[i]);
}
template <>
void Cast<float, int64_t>(const TileArgs& args) {
  CastInt64<float>(args);
}
template <>
void Cast<double, int64_t>(const TileArgs& args) {
  CastInt64<double>(args);
}
#endif

template <typename From>
void ToBool(const TileArgs& args) {
  const From* in = static_cast<const From*>(args.in[0]);
  uint8_t* out = static_cast<uint8_t*>(args.out);
  // A copy: stores of bytes might change what it was read from, for all the compiler knows.
  const int64_t count = args.count;
  SARDONYX_TILE_LOOP
  for (int64_t i = 0; i < count; ++i) out[i] = in[i] != From{0};
}

void FromBFloat16(const TileArgs& args) {
  const uint16_t* in = static_cast<const uint16_t*>(args.in[0]);
  uint32_t* out = static_cast<uint32_t*>(args.out);
  // A copy: stores of bytes might change what it was read from, for all the compiler knows.
  const int64_t count = args.count;
  SARDONYX_TILE_LOOP
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<uint32_t>(in[i]) << 16;
}

void ToBFloat16(const TileArgs& args) {
  const uint32_t* in = static_cast<const uint32_t*>(args.in[0]);
  uint16_t* out = static_cast<uint16_t*>(args.out);
  // A copy: stores of bytes might change what it was read from, for all the compiler knows.
  const int64_t count = args.count;
  SARDONYX_TILE_LOOP
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = in[i];
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const uint32_t quiet = (bits >> 16) | 0x40;
    out[i] = static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
  }
}

template <typename From>
TileFn FindCastFrom(DType to) {
  switch (to) {
    case DType::kFloat32: return Cast<float, From>;
    case DType::kFloat64: return Cast<double, From>;
    case DType::kBool: return ToBool<From>;
    default: break;
  }
  if constexpr (std::is_integral_v<From>) {
    switch (IsInteger(to) ? BitWidth(to) : 0) {  // signs change no bits
      case 8: return Cast<uint8_t, From>;
      case 16: return Cast<uint16_t, From>;
      case 32: return Cast<uint32_t, From>;
      case 64: return Cast<uint64_t, From>;
      default: break;
    }
  }
  return nullptr;
}

TileFn FindCast(DType from, DType to) {
  switch (from) {
    case DType::kFloat32: return to == DType::kBFloat16 ? ToBFloat16 : FindCastFrom<float>(to);
    case DType::kBFloat16: return to == DType::kFloat32 ? FromBFloat16 : nullptr;
    case DType::kFloat64: return FindCastFrom<double>(to);
    case DType::kInt8: return FindCastFrom<int8_t>(to);
    case DType::kInt16: return FindCastFrom<int16_t>(to);
    case DType::kInt32: return FindCastFrom<int32_t>(to);
    case DType::kInt64: return FindCastFrom<int64_t>(to);
    case DType::kBool:
    case DType::kUInt8: return FindCastFrom<uint8_t>(to);
    case DType::kUInt16: return FindCastFrom<uint16_t>(to);
    case DType::kUInt32: return FindCastFrom<uint32_t>(to);
    case DType::kUInt64: return FindCastFrom<uint64_t>(to);
    default: return nullptr;
  }
}

template <typename Bits>
void Fill(const TileArgs& args) {
  const Bits value = *static_cast<const Bits*>(args.in[0]);
  Bits* out = static_cast<Bits*>(args.out);
  const int64_t count = args.count;
  for (int64_t i = 0; i < count; ++i) out[i] = value;
}

TileFn FindFill(int element_bytes) {
  switch (element_bytes) {
    case 1: return Fill<uint8_t>;
    case 2: return Fill<uint16_t>;
    case 4: return Fill<uint32_t>;
    default: return Fill<uint64_t>;
  }
}

// Rows of `count` times one value each. Short ones take whole vectors, whose excess the next row
// writes over.
template <typename Bits>
Bits* FillRows(const Bits* in, int64_t rows, int64_t stride, int64_t count, Bits* out) {
  const hn::ScalableTag<Bits> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t written = (count + lanes - 1) / lanes * lanes;
  const Bits* const end = out + rows * count;
  for (; end - out >= written; out += count, in += stride) {
    const auto value = hn::Set(d, *in);
    for (int64_t i = 0; i < count; i += lanes) hn::StoreU(value, d, out + i);
  }
  for (; out != end; out += count, in += stride) {
    for (int64_t i = 0; i < count; ++i) out[i] = *in;
  }
  return out;
}

template <typename Bits>
Bits* Gather(const Bits* in, const int64_t* dims, const int64_t* strides, int rank, Bits* out) {
  if (rank == 2 && strides[1] == 0) return FillRows(in, dims[0], strides[0], dims[1], out);
  if (rank > 1 && strides[0] == 0) {  // made once, then copied, twice as much each time
    Bits* const first = out;
    int64_t made = Gather(in, dims + 1, strides + 1, rank - 1, out) - out;
    for (const int64_t all = made * dims[0]; made < all;) {
      const int64_t count = std::min(made, all - made);
      std::memcpy(first + made, first, static_cast<size_t>(count) * sizeof(Bits));
      made += count;
    }
    return first + made;
  }
  if (rank > 1) {
    for (int64_t i = 0; i < dims[0]; ++i) {
      out = Gather(in + i * strides[0], dims + 1, strides + 1, rank - 1, out);
    }
    return out;
  }
  const int64_t count = dims[0];
  const int64_t stride = strides[0];
  if (stride == 0) {
    const Bits value = *in;
    for (int64_t i = 0; i < count; ++i) out[i] = value;
  } else if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) out[i] = in[i];
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] = in[i * stride];
  }
  return out + count;
}

void Expand(const void* in, const int64_t* dims, const int64_t* strides, int rank,
            int element_bytes, void* out) {
  const auto run = [&]<typename Bits>(Bits) {
    Gather(static_cast<const Bits*>(in), dims, strides, rank, static_cast<Bits*>(out));
  };
  switch (element_bytes) {
    case 1: return run(uint8_t{});
    case 2: return run(uint16_t{});
    case 4: return run(uint32_t{});
    default: return run(uint64_t{});
  }
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {
namespace {

template <typename Bits>
void CopyTile(const TileArgs& args) {
  std::memmove(args.out, args.in[0], static_cast<size_t>(args.count) * sizeof(Bits));
}

}  // namespace

HWY_EXPORT(FindCast);
HWY_EXPORT(FindFill);
HWY_EXPORT(Expand);

TileFn CastTileFn(DType from, DType to) {
  if (from == DType::kFloat16) return to == DType::kFloat32 ? HalfTileFn(false) : nullptr;
  if (to == DType::kFloat16) return from == DType::kFloat32 ? HalfTileFn(true) : nullptr;
  if (IsByteFloat(from) || IsByteFloat(to)) return SmallFloatTileFn(from, to);
  const TileFn truncate = TruncateTileFn(from, to);
  return truncate != nullptr ? truncate : HWY_DYNAMIC_DISPATCH(FindCast)(from, to);
}

TileFn FillTileFn(int element_bytes) { return HWY_DYNAMIC_DISPATCH(FindFill)(element_bytes); }

TileFn CopyTileFn(int element_bytes) {
  switch (element_bytes) {
    case 1: return CopyTile<uint8_t>;
    case 2: return CopyTile<uint16_t>;
    case 4: return CopyTile<uint32_t>;
    default: return CopyTile<uint64_t>;
  }
}

void ExpandTile(const void* in, const int64_t* dims, const int64_t* strides, int rank,
                int element_bytes, void* out) {
  HWY_DYNAMIC_DISPATCH(Expand)(in, dims, strides, rank, element_bytes, out);
}

}  // namespace sardonyx
#endif
