#include "base/dtype.h"

#include <array>

namespace sardonyx {
namespace {

enum class Family : uint8_t { kNone, kFloat, kSigned, kUnsigned, kBool, kComplex, kString };

struct Row {
  std::string_view name;
  int bits;
  Family family;
};

constexpr std::array<Row, kDTypeCount> kRows = {{
    {"undefined", 0, Family::kNone},       {"float", 32, Family::kFloat},
    {"uint8", 8, Family::kUnsigned},       {"int8", 8, Family::kSigned},
    {"uint16", 16, Family::kUnsigned},     {"int16", 16, Family::kSigned},
    {"int32", 32, Family::kSigned},        {"int64", 64, Family::kSigned},
    {"string", 0, Family::kString},        {"bool", 8, Family::kBool},
    {"float16", 16, Family::kFloat},       {"double", 64, Family::kFloat},
    {"uint32", 32, Family::kUnsigned},     {"uint64", 64, Family::kUnsigned},
    {"complex64", 64, Family::kComplex},   {"complex128", 128, Family::kComplex},
    {"bfloat16", 16, Family::kFloat},      {"float8e4m3fn", 8, Family::kFloat},
    {"float8e4m3fnuz", 8, Family::kFloat}, {"float8e5m2", 8, Family::kFloat},
    {"float8e5m2fnuz", 8, Family::kFloat}, {"uint4", 4, Family::kUnsigned},
    {"int4", 4, Family::kSigned},          {"float4e2m1", 4, Family::kFloat},
    {"float8e8m0", 8, Family::kFloat},     {"uint2", 2, Family::kUnsigned},
    {"int2", 2, Family::kSigned},          {"float6e2m3", 6, Family::kFloat},
    {"float6e3m2", 6, Family::kFloat},
}};

// What is no element type is undefined.
const Row& RowOf(DType type) {
  return kRows[static_cast<int>(type) < kDTypeCount ? static_cast<size_t>(type) : 0];
}

}  // namespace

std::string_view Name(DType type) { return RowOf(type).name; }

DType DTypeFromName(std::string_view name) {
  for (int i = 1; i < kDTypeCount; ++i) {
    if (kRows[i].name == name) return static_cast<DType>(i);
  }
  return DType::kUndefined;
}

int BitWidth(DType type) { return RowOf(type).bits; }

int64_t ByteSize(DType type, int64_t count) {
  if (type == DType::kString) return count * static_cast<int64_t>(sizeof(std::string));
  const int bits = BitWidth(type);
  return bits >= 8 ? count * (bits / 8) : (count * bits + 7) / 8;
}

bool IsFloat(DType type) { return RowOf(type).family == Family::kFloat; }
bool IsInteger(DType type) {
  return RowOf(type).family == Family::kSigned || RowOf(type).family == Family::kUnsigned;
}
bool IsSigned(DType type) {
  return RowOf(type).family == Family::kSigned || RowOf(type).family == Family::kFloat;
}
bool IsPlainFloat(DType type) { return IsFloat(type) && BitWidth(type) >= 16; }
bool IsHalf(DType type) { return type == DType::kFloat16 || type == DType::kBFloat16; }
bool IsByteFloat(DType type) { return IsFloat(type) && BitWidth(type) == 8; }
bool IsNarrowFloat(DType type) { return IsHalf(type) || IsByteFloat(type); }
bool IsByte(DType type) { return type == DType::kInt8 || type == DType::kUInt8; }
bool IsPacked(DType type) { return BitWidth(type) > 0 && BitWidth(type) < 8; }

float HalfToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 31;
  const uint32_t mantissa = bits & 0x3ff;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  // Subnormal: mantissa * 2^-24.
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}

uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);   // NaN
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // rounds to infinity
  if (magnitude < 0x38800000) {
    // Subnormal result: let the float adder round at the unit 2^-24.
    const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(rounded) - 0x3f000000));
  }
  const uint32_t odd = (magnitude >> 13) & 1;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000 + 0xfff + odd) >> 13));
}

uint16_t FloatToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

}  // namespace sardonyx
