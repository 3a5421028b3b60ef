// Float32 to and from the floating-point formats of at most eight bits, on tiles.
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/tile_ops_small_float.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <array>
#include <cstdint>

#include "base/cast.h"
#include "base/small_float.h"
#include "kernels/row_math-inl.h"
#include "kernels/tile_ops.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr uint32_t BitsOfPower(int exponent) { return static_cast<uint32_t>(exponent + 127) << 23; }

// Codes of float32, as ConvertElements makes them, bounded to the largest number: the bits of a
// normal number rounded half to even, a subnormal one by the addition of a number whose last bit is
// its unit.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Codes(D d, const SmallFloat& format, V bits) {
  const hn::RebindToFloat<D> df;
  const int left_out = 23 - format.mantissa_bits;
  const auto set = [d](uint32_t value) HWY_ATTR { return hn::Set(d, value); };
  const auto unit = set(BitsOfPower(1 - format.bias + left_out));
  const V magnitude = hn::And(bits, set(0x7fffffff));
  const auto is_negative = hn::Ne(magnitude, bits);
  const V odd = hn::And(hn::ShiftRightSame(magnitude, left_out), set(1));
  const V half = set((1u << (left_out - 1)) - 1 - BitsOfPower(-format.bias));
  const V normal = hn::ShiftRightSame(hn::Add(hn::Add(magnitude, half), odd), left_out);
  const auto shifted = hn::Add(hn::BitCast(df, magnitude), hn::BitCast(df, unit));
  const V subnormal = hn::Sub(hn::BitCast(d, shifted), unit);
  const auto is_normal = hn::Gt(magnitude, set(BitsOfPower(1 - format.bias) - 1));
  const V code = hn::Min(hn::IfThenElse(is_normal, normal, subnormal), set(format.largest));
  V sign = hn::IfThenElseZero(is_negative, set(format.sign_bit()));
  const auto is_nan = hn::Gt(magnitude, set(0x7f800000));
  const V nan = hn::IfThenElse(is_negative, set(format.nan(format.sign_bit())), set(format.nan(0)));
  if (!format.negative_zero) sign = hn::IfThenZeroElse(hn::Eq(code, hn::Zero(d)), sign);
  return hn::IfThenElse(is_nan, nan, hn::Or(code, sign));
}

// Powers of two, away from zero, as float8e8m0: the exponent's bits are those of float32.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V PowerCodes(D d, V bits) {
  const auto set = [d](uint32_t value) HWY_ATTR { return hn::Set(d, value); };
  const V magnitude = hn::And(bits, set(0x7fffffff));
  const V up = hn::ShiftRight<23>(hn::Add(magnitude, set(0x7fffff)));
  const auto is_positive = hn::Gt(magnitude, set(0x00400000));  // above the least, 2^-127
  const V code = hn::Min(hn::IfThenElseZero(is_positive, up), set(254));
  return hn::IfThenElse(hn::Gt(magnitude, set(0x7f800000)), set(255), code);
}

template <DType kType>
void Encode(const TileArgs& args) {
  const hn::ScalableTag<uint32_t> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), count = args.count;
  const uint32_t* in = static_cast<const uint32_t*>(args.in[0]);
  uint8_t* out = static_cast<uint8_t*>(args.out);
  const auto codes = [&](auto bits) HWY_ATTR {
    if constexpr (kType == DType::kFloat8E8M0) {
      return hn::DemoteTo(bytes, hn::BitCast(di, PowerCodes(d, bits)));
    } else {
      constexpr SmallFloat kFormat = *FindSmallFloat(kType);
      return hn::DemoteTo(bytes, hn::BitCast(di, Codes(d, kFormat, bits)));
    }
  };
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(codes(hn::LoadU(d, in + i)), bytes, out + i);
  if (i < count) StorePart(codes(LoadPart(d, in + i, count - i)), bytes, out + i, count - i);
}

void Decode(const float* values, const TileArgs& args) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), count = args.count;
  const uint8_t* in = static_cast<const uint8_t*>(args.in[0]);
  float* out = static_cast<float*>(args.out);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto codes = hn::PromoteTo(di, hn::LoadU(bytes, in + i));
    hn::StoreU(hn::GatherIndex(d, values, codes), d, out + i);
  }
  for (; i < count; ++i) out[i] = values[in[i]];
}

TileFn FindEncode(DType type) {
  switch (type) {
    case DType::kFloat8E4M3FN: return Encode<DType::kFloat8E4M3FN>;
    case DType::kFloat8E4M3FNUZ: return Encode<DType::kFloat8E4M3FNUZ>;
    case DType::kFloat8E5M2: return Encode<DType::kFloat8E5M2>;
    case DType::kFloat8E5M2FNUZ: return Encode<DType::kFloat8E5M2FNUZ>;
    case DType::kFloat4E2M1: return Encode<DType::kFloat4E2M1>;
    case DType::kFloat6E2M3: return Encode<DType::kFloat6E2M3>;
    case DType::kFloat6E3M2: return Encode<DType::kFloat6E3M2>;
    case DType::kFloat8E8M0: return Encode<DType::kFloat8E8M0>;
    default: return nullptr;
  }
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(FindEncode);
HWY_EXPORT(Decode);

namespace {

template <DType kType>
void DecodeTile(const TileArgs& args) {
  static const std::array<float, 256> kValues = [] {
    std::array<float, 256> values;
    for (uint32_t code = 0; code < 256; ++code) {
      values[code] = static_cast<float>(DecodeSmallFloat(kType, code));
    }
    return values;
  }();
  HWY_DYNAMIC_DISPATCH(Decode)(kValues.data(), args);
}

}  // namespace

TileFn SmallFloatTileFn(DType from, DType to) {
  if (from == DType::kFloat32) return HWY_DYNAMIC_DISPATCH(FindEncode)(to);
  if (to != DType::kFloat32) return nullptr;
  switch (from) {
    case DType::kFloat8E4M3FN: return DecodeTile<DType::kFloat8E4M3FN>;
    case DType::kFloat8E4M3FNUZ: return DecodeTile<DType::kFloat8E4M3FNUZ>;
    case DType::kFloat8E5M2: return DecodeTile<DType::kFloat8E5M2>;
    case DType::kFloat8E5M2FNUZ: return DecodeTile<DType::kFloat8E5M2FNUZ>;
    case DType::kFloat8E8M0: return DecodeTile<DType::kFloat8E8M0>;
    default: return nullptr;
  }
}

}  // namespace sardonyx
#endif
