#pragma once
// Element types: names, widths, the small floating-point formats, and dispatch from a DType to a
// C++ type.

#include <bit>
#include <complex>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"
#include "sardonyx/dtype.hpp"

namespace sardonyx {

// Name as in ONNX's type strings: "float", "int64", "float16", "float8e4m3fn", ...
std::string_view Name(DType type);
// Inverse of Name; kUndefined when unknown.
DType DTypeFromName(std::string_view name);

// Width of an element in bits: 2, 4, 6 for the packed formats; 0 for strings and undefined.
int BitWidth(DType type);
// Bytes that `count` elements take. Packed formats fill bytes from their low bits and round up;
// 6-bit formats are packed too. Strings take sizeof(std::string) each.
int64_t ByteSize(DType type, int64_t count);

bool IsFloat(DType type);        // every real floating-point format, small ones included
bool IsPlainFloat(DType type);   // float16, bfloat16, float or double: what most operators take
bool IsHalf(DType type);         // float16 or bfloat16: computed as float
bool IsByteFloat(DType type);    // one of 8 bits
bool IsNarrowFloat(DType type);  // of 8 or 16 bits: computed as float
bool IsInteger(DType type);      // signed or unsigned, 2 to 64 bits; not bool
bool IsSigned(DType type);
bool IsByte(DType type);    // int8 or uint8
bool IsPacked(DType type);  // less than a byte an element

// IEEE binary16 and bfloat16 as storage. Arithmetic happens in float.
float HalfToFloat(uint16_t bits);
uint16_t FloatToHalf(float value);  // round to nearest even
inline float BFloat16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
uint16_t FloatToBFloat16(float value);  // round to nearest even, NaN stays NaN

struct Half {
  uint16_t bits = 0;
  Half() = default;
  Half(float value) : bits(FloatToHalf(value)) {}  // NOLINT: implicit as the built-in types are
  operator float() const { return HalfToFloat(bits); }
};
struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  BFloat16(float value) : bits(FloatToBFloat16(value)) {}  // NOLINT
  operator float() const { return BFloat16ToFloat(bits); }
};

template <typename T>
struct DTypeOf;
template <DType kType>
struct DTypeConstant {
  static constexpr DType value = kType;
};
template <>
struct DTypeOf<float> : DTypeConstant<DType::kFloat32> {};
template <>
struct DTypeOf<double> : DTypeConstant<DType::kFloat64> {};
template <>
struct DTypeOf<Half> : DTypeConstant<DType::kFloat16> {};
template <>
struct DTypeOf<BFloat16> : DTypeConstant<DType::kBFloat16> {};
template <>
struct DTypeOf<int8_t> : DTypeConstant<DType::kInt8> {};
template <>
struct DTypeOf<int16_t> : DTypeConstant<DType::kInt16> {};
template <>
struct DTypeOf<int32_t> : DTypeConstant<DType::kInt32> {};
template <>
struct DTypeOf<int64_t> : DTypeConstant<DType::kInt64> {};
template <>
struct DTypeOf<uint8_t> : DTypeConstant<DType::kUInt8> {};
template <>
struct DTypeOf<uint16_t> : DTypeConstant<DType::kUInt16> {};
template <>
struct DTypeOf<uint32_t> : DTypeConstant<DType::kUInt32> {};
template <>
struct DTypeOf<uint64_t> : DTypeConstant<DType::kUInt64> {};
template <>
struct DTypeOf<bool> : DTypeConstant<DType::kBool> {};
template <>
struct DTypeOf<std::string> : DTypeConstant<DType::kString> {};
template <>
struct DTypeOf<std::complex<float>> : DTypeConstant<DType::kComplex64> {};
template <>
struct DTypeOf<std::complex<double>> : DTypeConstant<DType::kComplex128> {};
template <typename T>
inline constexpr DType kDTypeOf = DTypeOf<T>::value;

// Tag that carries a C++ type to a generic lambda.
template <typename T>
struct TypeTag {
  using type = T;
};

// Calls body(TypeTag<T>{}) for the real number types (floats, integers of 8 to 64 bits) and bool.
// Throws kUnsupported for all others, naming `what`.
template <typename Body>
decltype(auto) DispatchReal(DType type, std::string_view what, Body&& body) {
  switch (type) {
    case DType::kFloat32: return body(TypeTag<float>{});
    case DType::kFloat64: return body(TypeTag<double>{});
    case DType::kFloat16: return body(TypeTag<Half>{});
    case DType::kBFloat16: return body(TypeTag<BFloat16>{});
    case DType::kInt8: return body(TypeTag<int8_t>{});
    case DType::kInt16: return body(TypeTag<int16_t>{});
    case DType::kInt32: return body(TypeTag<int32_t>{});
    case DType::kInt64: return body(TypeTag<int64_t>{});
    case DType::kUInt8: return body(TypeTag<uint8_t>{});
    case DType::kUInt16: return body(TypeTag<uint16_t>{});
    case DType::kUInt32: return body(TypeTag<uint32_t>{});
    case DType::kUInt64: return body(TypeTag<uint64_t>{});
    case DType::kBool: return body(TypeTag<bool>{});
    default:
      Fail(ErrorCode::kUnsupported, "{}: element type {} is not supported", what, Name(type));
  }
}

// The C++ type in which values of T are computed: float for the 16-bit formats, else T.
template <typename T>
using ComputeType =
    std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

}  // namespace sardonyx
