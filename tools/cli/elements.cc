#include "elements.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>

namespace sardonyx::cli {
namespace {

// A floating-point format below 32 bits: exponent and mantissa widths, and what the highest codes
// mean. Specification: "Float stored in 8 bits" of the ONNX documentation; OCP MX for 6 and 4 bits.
struct SmallFloat {
  int exponent_bits, mantissa_bits, bias;
  enum { kIeee, kNanOnly, kFinite, kUnsignedZero } special;
};

const SmallFloat* FormatOf(DType dtype) {
  static constexpr SmallFloat kHalf{5, 10, 15, SmallFloat::kIeee};
  static constexpr SmallFloat kBrain{8, 7, 127, SmallFloat::kIeee};
  static constexpr SmallFloat kE4M3FN{4, 3, 7, SmallFloat::kNanOnly};
  static constexpr SmallFloat kE4M3FNUZ{4, 3, 8, SmallFloat::kUnsignedZero};
  static constexpr SmallFloat kE5M2{5, 2, 15, SmallFloat::kIeee};
  static constexpr SmallFloat kE5M2FNUZ{5, 2, 16, SmallFloat::kUnsignedZero};
  static constexpr SmallFloat kE2M1{2, 1, 1, SmallFloat::kFinite};
  static constexpr SmallFloat kE2M3{2, 3, 1, SmallFloat::kFinite};
  static constexpr SmallFloat kE3M2{3, 2, 3, SmallFloat::kFinite};
  switch (dtype) {
    case DType::kFloat16: return &kHalf;
    case DType::kBFloat16: return &kBrain;
    case DType::kFloat8E4M3FN: return &kE4M3FN;
    case DType::kFloat8E4M3FNUZ: return &kE4M3FNUZ;
    case DType::kFloat8E5M2: return &kE5M2;
    case DType::kFloat8E5M2FNUZ: return &kE5M2FNUZ;
    case DType::kFloat4E2M1: return &kE2M1;
    case DType::kFloat6E2M3: return &kE2M3;
    case DType::kFloat6E3M2: return &kE3M2;
    default: return nullptr;
  }
}

double Decode(uint32_t code, const SmallFloat& format) {
  const uint32_t mantissas = 1U << format.mantissa_bits;
  const uint32_t exponents = 1U << format.exponent_bits;
  const uint32_t mantissa = code & (mantissas - 1);
  const uint32_t exponent = (code >> format.mantissa_bits) & (exponents - 1);
  const bool negative = (code >> (format.mantissa_bits + format.exponent_bits)) != 0;
  const double sign = negative ? -1.0 : 1.0;
  switch (format.special) {
    case SmallFloat::kIeee:
      if (exponent == exponents - 1) return mantissa == 0 ? sign * INFINITY : NAN;
      break;
    case SmallFloat::kNanOnly:
      if (exponent == exponents - 1 && mantissa == mantissas - 1) return NAN;
      break;
    case SmallFloat::kUnsignedZero:
      if (negative && exponent == 0 && mantissa == 0) return NAN;
      break;
    case SmallFloat::kFinite: break;
  }
  const double fraction = static_cast<double>(mantissa) / mantissas;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - format.bias);
  return sign * std::ldexp(1.0 + fraction, static_cast<int>(exponent) - format.bias);
}

// The code of the value nearest to `value`, by search: codes of one sign ascend with their values.
uint32_t Encode(double value, const SmallFloat& format) {
  const uint32_t sign_bit = 1U << (format.mantissa_bits + format.exponent_bits);
  uint32_t low = 0;
  uint32_t high = sign_bit - 1;
  while (!std::isfinite(Decode(high, format))) --high;
  const double magnitude = std::abs(value);
  while (low + 1 < high) {
    const uint32_t middle = (low + high) / 2;
    (Decode(middle, format) <= magnitude ? low : high) = middle;
  }
  const bool down = magnitude - Decode(low, format) <= Decode(high, format) - magnitude;
  const uint32_t code = down ? low : high;
  return value < 0 && code != 0 ? code | sign_bit : code;
}

uint32_t ReadBits(const Tensor& tensor, int64_t i, int bits) {
  const auto* bytes = tensor.data<uint8_t>();
  uint32_t code = 0;
  for (int b = 0; b < bits; ++b) {
    const int64_t at = i * bits + b;
    code |= ((bytes[at / 8] >> (at % 8)) & 1U) << b;
  }
  return code;
}

void WriteBits(Tensor* tensor, int64_t i, int bits, uint32_t code) {
  auto* bytes = tensor->data<uint8_t>();
  for (int b = 0; b < bits; ++b) {
    const int64_t at = i * bits + b;
    const auto mask = static_cast<uint8_t>(1U << (at % 8));
    if (((code >> b) & 1U) != 0) {
      bytes[at / 8] |= mask;
    } else {
      bytes[at / 8] &= static_cast<uint8_t>(~mask);
    }
  }
}

// Calls f(T{}) with the C++ type of the elements; false if there is none.
template <typename F>
bool WithNative(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kFloat32: f(float{}); return true;
    case DType::kFloat64: f(double{}); return true;
    case DType::kInt8: f(int8_t{}); return true;
    case DType::kInt16: f(int16_t{}); return true;
    case DType::kInt32: f(int32_t{}); return true;
    case DType::kInt64: f(int64_t{}); return true;
    case DType::kUInt8: f(uint8_t{}); return true;
    case DType::kUInt16: f(uint16_t{}); return true;
    case DType::kUInt32: f(uint32_t{}); return true;
    case DType::kUInt64: f(uint64_t{}); return true;
    case DType::kBool: f(bool{}); return true;
    default: return false;
  }
}

}  // namespace

int BitsOf(DType dtype) {
  switch (dtype) {
    case DType::kUndefined:
    case DType::kString: return 0;
    case DType::kComplex128: return 128;
    case DType::kFloat64:
    case DType::kInt64:
    case DType::kUInt64:
    case DType::kComplex64: return 64;
    case DType::kFloat32:
    case DType::kInt32:
    case DType::kUInt32: return 32;
    case DType::kInt16:
    case DType::kUInt16:
    case DType::kFloat16:
    case DType::kBFloat16: return 16;
    case DType::kFloat6E2M3:
    case DType::kFloat6E3M2: return 6;
    case DType::kInt4:
    case DType::kUInt4:
    case DType::kFloat4E2M1: return 4;
    case DType::kInt2:
    case DType::kUInt2: return 2;
    default: return 8;
  }
}

bool IsIntegerType(DType dtype) {
  switch (dtype) {
    case DType::kInt2:
    case DType::kInt4:
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUInt2:
    case DType::kUInt4:
    case DType::kUInt8:
    case DType::kUInt16:
    case DType::kUInt32:
    case DType::kUInt64: return true;
    default: return false;
  }
}

bool IsFloatType(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kFloat8E8M0 ||
         FormatOf(dtype) != nullptr;
}

bool IsSmallType(DType dtype) {
  return dtype != DType::kUndefined && dtype != DType::kFloat16 &&
         (FormatOf(dtype) != nullptr || dtype == DType::kFloat8E8M0 ||
          (IsIntegerType(dtype) && BitsOf(dtype) < 8));
}

double ElementAsDouble(const Tensor& tensor, int64_t i) {
  const DType dtype = tensor.dtype();
  double result = 0;
  const bool native = WithNative(
      dtype, [&](auto zero) { result = static_cast<double>(tensor.data<decltype(zero)>()[i]); });
  if (native) return result;
  if (dtype == DType::kComplex64) return tensor.data<std::complex<float>>()[i].real();
  if (dtype == DType::kComplex128) return tensor.data<std::complex<double>>()[i].real();
  const int bits = BitsOf(dtype);
  const uint32_t code = ReadBits(tensor, i, bits);
  if (const SmallFloat* format = FormatOf(dtype)) return Decode(code, *format);
  if (dtype == DType::kFloat8E8M0)
    return code == 255 ? NAN : std::ldexp(1.0, static_cast<int>(code) - 127);
  const bool is_negative =
      (dtype == DType::kInt4 || dtype == DType::kInt2) && (code >> (bits - 1)) != 0;
  return static_cast<double>(code) - (is_negative ? (1 << bits) : 0);
}

void SetElement(Tensor* tensor, int64_t i, double value) {
  const DType dtype = tensor->dtype();
  const bool native = WithNative(dtype, [&](auto zero) {
    tensor->data<decltype(zero)>()[i] = static_cast<decltype(zero)>(value);
  });
  if (native) return;
  if (dtype == DType::kComplex64) {
    tensor->data<std::complex<float>>()[i] = static_cast<float>(value);
  } else if (dtype == DType::kComplex128) {
    tensor->data<std::complex<double>>()[i] = value;
  } else if (const SmallFloat* format = FormatOf(dtype)) {
    WriteBits(tensor, i, BitsOf(dtype), Encode(value, *format));
  } else if (dtype == DType::kFloat8E8M0) {
    const double exponent = value > 0 ? std::round(std::log2(value)) : -127;
    WriteBits(tensor, i, 8, static_cast<uint32_t>(std::clamp(exponent + 127, 0.0, 254.0)));
  } else {
    WriteBits(tensor, i, BitsOf(dtype), static_cast<uint32_t>(static_cast<int32_t>(value)));
  }
}

void PackBits(const uint8_t* from, int64_t count, int bits, uint8_t* to) {
  const uint32_t mask = (1U << bits) - 1;
  uint32_t pending = 0;
  int held = 0;
  for (int64_t i = 0; i < count; ++i) {
    pending |= (from[i] & mask) << held;
    for (held += bits; held >= 8; held -= 8, pending >>= 8) *to++ = static_cast<uint8_t>(pending);
  }
  if (held > 0) *to = static_cast<uint8_t>(pending);
}

}  // namespace sardonyx::cli
