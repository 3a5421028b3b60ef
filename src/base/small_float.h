#pragma once
// Floating-point formats of at most eight bits: their values are sign, exponent and mantissa with
// subnormals; what the top codes mean differs. float8e8m0, a power of two, is none of them.

#include <cstdint>

#include "base/dtype.h"

namespace sardonyx {

struct SmallFloat {
  DType type;
  int exponent_bits;
  int mantissa_bits;
  int bias;
  bool has_infinity;   // the all-ones exponent is infinity and NaN, as in IEEE 754
  bool negative_zero;  // false: the code of -0 is the only NaN
  bool has_nan;
  uint32_t largest;  // the code of the largest number

  constexpr uint32_t sign_bit() const { return 1u << (exponent_bits + mantissa_bits); }
  // The code of NaN; without one, that of -0.
  constexpr uint32_t nan(uint32_t sign) const {
    if (!has_nan || !negative_zero) return sign_bit();
    return has_infinity ? sign | infinity() | 1u << (mantissa_bits - 1) : sign | (sign_bit() - 1);
  }
  constexpr uint32_t infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }
};

// OCP 8-bit Floating Point Specification 1.0; OCP Microscaling Formats 1.0; the FNUZ formats after
// Noune et al., "8-bit Numerical Formats for Deep Neural Networks" (2022).
inline constexpr SmallFloat kSmallFloats[] = {
    {DType::kFloat8E4M3FN, 4, 3, 7, false, true, true, 0x7e},
    {DType::kFloat8E4M3FNUZ, 4, 3, 8, false, false, true, 0x7f},
    {DType::kFloat8E5M2, 5, 2, 15, true, true, true, 0x7b},
    {DType::kFloat8E5M2FNUZ, 5, 2, 16, false, false, true, 0x7f},
    {DType::kFloat4E2M1, 2, 1, 1, false, true, false, 0x07},
    {DType::kFloat6E2M3, 2, 3, 1, false, true, false, 0x1f},
    {DType::kFloat6E3M2, 3, 2, 3, false, true, false, 0x1f},
};

// Null for other types.
constexpr const SmallFloat* FindSmallFloat(DType type) {
  for (const SmallFloat& format : kSmallFloats) {
    if (format.type == type) return &format;
  }
  return nullptr;
}

}  // namespace sardonyx
