#include "base/cast.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <locale>
#include <sstream>
#include <string>

#include "base/small_float.h"

namespace sardonyx {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// float8e8m0: a biased exponent alone; 255 is NaN.
constexpr int kScaleBias = 127;
constexpr uint32_t kScaleNaN = 255;

double Decode(const SmallFloat& format, uint32_t bits) {
  const uint32_t sign_bit = format.sign_bit();
  if (!format.negative_zero && bits == sign_bit) return kNaN;
  const uint32_t magnitude = bits & (sign_bit - 1);
  const int exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  const uint32_t mantissa = magnitude & ((1u << format.mantissa_bits) - 1);
  const double sign = (bits & sign_bit) != 0 ? -1.0 : 1.0;
  if (format.has_infinity && exponent == (1 << format.exponent_bits) - 1) {
    return mantissa == 0 ? sign * kInfinity : kNaN;
  }
  // E4M3FN has no infinity, and one NaN a sign.
  if (format.type == DType::kFloat8E4M3FN && magnitude == sign_bit - 1) return kNaN;
  const int scale = std::max(exponent, 1) - format.bias - format.mantissa_bits;
  const uint32_t significand = exponent == 0 ? mantissa : mantissa | (1u << format.mantissa_bits);
  return sign * std::ldexp(static_cast<double>(significand), scale);
}

uint32_t Encode(const SmallFloat& format, double value, bool saturate) {
  const uint32_t sign = std::signbit(value) ? format.sign_bit() : 0;
  if (std::isnan(value)) return format.nan(sign);
  // Rounded half to even: the bits of a normal number, a subnormal one by the addition of a number
  // whose last bit is its unit.
  const auto magnitude = std::bit_cast<uint64_t>(std::abs(value));
  const auto exponent = [](int e) { return static_cast<uint64_t>(e + 1023) << 52; };
  const int left_out = 52 - format.mantissa_bits;
  uint64_t code;
  if (magnitude >= exponent(1 - format.bias)) {
    const uint64_t odd = magnitude >> left_out & 1, half = uint64_t{1} << (left_out - 1);
    code = (magnitude - exponent(-format.bias) + half - 1 + odd) >> left_out;
  } else {
    const uint64_t unit = exponent(1 - format.bias + left_out);
    code = std::bit_cast<uint64_t>(std::abs(value) + std::bit_cast<double>(unit)) - unit;
  }
  if (code > format.largest) {
    if (!saturate && format.has_nan)
      return format.has_infinity ? sign | format.infinity() : format.nan(sign);
    code = format.largest;
  }
  return static_cast<uint32_t>(code) | (code != 0 || format.negative_zero ? sign : 0);
}

uint32_t EncodeScale(double value, bool saturate, ScaleRounding rounding) {
  if (std::isnan(value)) return kScaleNaN;
  const double magnitude = std::abs(value);
  const double least = std::ldexp(1.0, -kScaleBias), most = std::ldexp(1.0, kScaleBias);
  if (magnitude > most) return saturate ? kScaleNaN - 1 : kScaleNaN;
  if (magnitude < least) return saturate ? 0 : kScaleNaN;
  int exponent = std::ilogb(magnitude);
  const double fraction = std::ldexp(magnitude, -exponent);  // in [1, 2)
  if (rounding == ScaleRounding::kUp ? fraction > 1.0
                                     : rounding == ScaleRounding::kNearest && fraction >= 1.5) {
    ++exponent;
  }
  return static_cast<uint32_t>(std::min(exponent, kScaleBias) + kScaleBias);
}

// The small integers' and floats' code of an element, whatever its width.
uint32_t ReadBits(int bits, const void* data, int64_t i) {
  return bits == 8 ? static_cast<const uint8_t*>(data)[i] : ReadPacked(data, bits, i);
}
void WriteBits(int bits, void* data, int64_t i, uint32_t value) {
  if (bits == 8) {
    static_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(value);
  } else {
    WritePacked(data, bits, i, value);
  }
}

// 2- and 4-bit integers and every float below 16 bits.
bool IsSmall(DType type) {
  return (IsPacked(type) || FindSmallFloat(type) != nullptr || type == DType::kFloat8E8M0);
}

int8_t SmallInteger(DType type, uint32_t bits) {
  const int width = BitWidth(type);
  if (IsSigned(type) && (bits >> (width - 1)) != 0)
    return static_cast<int8_t>(bits | (0xffu << width));
  return static_cast<int8_t>(bits);
}

template <typename From, typename To>
To ConvertNumber(From from) {
  if constexpr (std::is_same_v<From, To>) {
    return from;
  } else if constexpr (std::is_same_v<To, bool>) {
    return static_cast<ComputeType<From>>(from) != 0;
  } else if constexpr (std::is_integral_v<To> && !std::is_integral_v<From>) {
    using Real = ComputeType<From>;
    const Real value = static_cast<Real>(from);
    if (std::isnan(value)) return 0;
    // 2^digits is exact in both float types, the largest integer is not.
    const Real bound = std::ldexp(Real{1}, std::numeric_limits<To>::digits);
    if (value >= bound) return std::numeric_limits<To>::max();
    if (std::is_signed_v<To> ? value < -bound : value <= -1) return std::numeric_limits<To>::min();
    return static_cast<To>(value);
  } else if constexpr (std::is_same_v<From, double> && !std::is_same_v<To, ComputeType<To>>) {
    return To(RoundToOdd(from));
  } else {
    return static_cast<To>(static_cast<ComputeType<From>>(from));
  }
}

std::string_view Strip(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())))
    text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())))
    text.remove_suffix(1);
  return text;
}

// std::from_chars reads "inf" and "nan" in any case as well; a leading plus is
// ours to take.
template <typename Number>
bool Parse(std::string_view text, Number* value) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  if constexpr (std::is_floating_point_v<Number>) {
    if (error == std::errc::result_out_of_range) {
      // Too large or too small: a stream tells which, with the largest number for infinity.
      std::istringstream stream{std::string(text)};
      stream.imbue(std::locale::classic());
      stream >> *value;
      if (std::abs(*value) == std::numeric_limits<Number>::max()) *value *= 2;
      return true;
    }
  }
  return error == std::errc() && end == text.data() + text.size();
}

constexpr std::string_view kTruths[] = {"False", "True"};

template <typename From>
std::string PrintNumber(From from) {
  if constexpr (std::is_integral_v<From>) {
    return fmt::format_int(from).str();
  } else if constexpr (!std::is_same_v<From, double>) {
    // Fewest digits that read back as the same number of the narrow type; a double of these digits
    // prints them again, and so all types change to exponents at the same magnitudes.
    const float value = from;
    if (!std::isfinite(value)) return PrintNumber<double>(value);
    std::string text = fmt::format("{}", value);
    if constexpr (!std::is_same_v<From, float>) {
      for (int digits = 1; digits <= 9; ++digits) {
        text = fmt::format("{:.{}g}", value, digits);
        float back = 0;
        Parse<float>(text, &back);
        if (From(back).bits == from.bits) break;
      }
    }
    double shortest = 0;
    Parse<double>(text, &shortest);
    return PrintNumber(shortest);
  } else {
    std::string text = fmt::format("{}", from);
    if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
    return text;
  }
}

template <typename To>
To ParseNumber(const std::string& source) {
  const std::string_view text = Strip(source);
  if constexpr (std::is_integral_v<To> && !std::is_same_v<To, bool>) {
    std::conditional_t<std::is_signed_v<To>, int64_t, uint64_t> integer = 0;
    if (Parse(text, &integer)) return static_cast<To>(integer);
  }
  double real = 0;
  if (Parse(text, &real)) {
    if constexpr (std::is_same_v<To, float>) {
      // Straight to float: rounding twice may differ in the last bit.
      float value = 0;
      if (Parse(text, &value)) return value;
    }
    return ConvertNumber<double, To>(real);
  }
  if constexpr (std::is_same_v<To, bool>) {
    if (text == "True" || text == "true") return true;
    if (text == "False" || text == "false") return false;
  }
  Fail(ErrorCode::kInvalidArgument, "cannot cast the string '{}' to {}", source,
       Name(kDTypeOf<To>));
}

// Small floats go through double, small integers through int64, which hold each
// of them exactly.
DType WideOf(DType small) { return IsInteger(small) ? DType::kInt64 : DType::kFloat64; }

void Widen(DType from, const void* in, void* out, int64_t count) {
  const int width = BitWidth(from);
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = ReadBits(width, in, i);
    if (IsInteger(from)) {
      static_cast<int64_t*>(out)[i] = IsSigned(from) ? SmallInteger(from, bits) : int64_t{bits};
    } else {
      static_cast<double*>(out)[i] = DecodeSmallFloat(from, bits);
    }
  }
}

void Narrow(const void* in, DType to, void* out, int64_t count, bool saturate,
            ScaleRounding rounding) {
  const SmallFloat* format = FindSmallFloat(to);
  const int width = BitWidth(to);
  const bool is_integer = IsInteger(to);
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    if (is_integer) {
      // The low bits, as between the wider integers.
      bits = static_cast<uint32_t>(static_cast<const int64_t*>(in)[i]) & ((1u << width) - 1);
    } else {
      const double value = static_cast<const double*>(in)[i];
      bits = format != nullptr ? Encode(*format, value, saturate)
                               : EncodeScale(value, saturate, rounding);
    }
    WriteBits(width, out, i, bits);
  }
}

constexpr int64_t kBlock = 256;

// Blocks begin on whole bytes, for kBlock elements of any width fill whole
// bytes.
template <typename Pointer>
auto* At(DType type, Pointer* data, int64_t i) {
  using Byte = std::conditional_t<std::is_const_v<Pointer>, const char, char>;
  return reinterpret_cast<Byte*>(data) + ByteSize(type, i);
}

void CheckSupported(DType type) {
  if (type == DType::kUndefined || type == DType::kComplex64 || type == DType::kComplex128) {
    Fail(ErrorCode::kUnsupported, "cast: element type {} is not supported", Name(type));
  }
}

}  // namespace

float RoundToOdd(double x) {
  const float nearest = static_cast<float>(x);
  if (!std::isfinite(nearest) || nearest == x) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (std::abs(static_cast<double>(nearest)) > std::abs(x)) --bits;
  return std::bit_cast<float>(bits | 1);
}

uint32_t ReadPacked(const void* data, int bits, int64_t i) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  const int64_t at = i * bits;
  const int shift = static_cast<int>(at % 8);
  uint32_t value = bytes[at / 8] >> shift;
  if (shift + bits > 8) value |= static_cast<uint32_t>(bytes[at / 8 + 1]) << (8 - shift);
  return value & ((1u << bits) - 1);
}

void WritePacked(void* data, int bits, int64_t i, uint32_t value) {
  auto* bytes = static_cast<uint8_t*>(data);
  const int64_t at = i * bits;
  const int shift = static_cast<int>(at % 8);
  const uint32_t mask = (1u << bits) - 1;
  value &= mask;
  bytes[at / 8] = static_cast<uint8_t>((bytes[at / 8] & ~(mask << shift)) | (value << shift));
  if (shift + bits > 8) {
    uint8_t& next = bytes[at / 8 + 1];
    next = static_cast<uint8_t>((next & ~(mask >> (8 - shift))) | (value >> (8 - shift)));
  }
}

double DecodeSmallFloat(DType type, uint32_t bits) {
  if (type == DType::kFloat8E8M0) {
    return bits == kScaleNaN ? kNaN : std::ldexp(1.0, static_cast<int>(bits) - kScaleBias);
  }
  const SmallFloat* format = FindSmallFloat(type);
  if (format == nullptr) Fail(ErrorCode::kInternal, "{} is no small float format", Name(type));
  return Decode(*format, bits);
}

void ConvertElements(DType from, const void* in, DType to, void* out, int64_t count, bool saturate,
                     ScaleRounding rounding) {
  CheckSupported(from);
  CheckSupported(to);
  if (from == to) {
    if (from == DType::kString) {
      std::copy_n(static_cast<const std::string*>(in), count, static_cast<std::string*>(out));
    } else if (count > 0) {
      std::memcpy(out, in, ByteSize(from, count));
    }
  } else if (IsSmall(from) || IsSmall(to)) {
    // Eight bytes an element: int64 or double.
    alignas(8) std::byte read[kBlock * 8], block[kBlock * 8];
    for (int64_t begin = 0; begin < count; begin += kBlock) {
      const int64_t n = std::min(kBlock, count - begin);
      const void* source = At(from, in, begin);
      void* target = At(to, out, begin);
      DType wide = from;
      if (IsSmall(from)) {
        wide = WideOf(from);
        Widen(from, source, read, n);
        source = read;
      }
      if (IsSmall(to)) {
        if (wide != WideOf(to)) ConvertElements(wide, source, WideOf(to), block, n, saturate);
        Narrow(wide != WideOf(to) ? block : source, to, target, n, saturate, rounding);
      } else {
        ConvertElements(wide, source, to, target, n, saturate);
      }
    }
  } else if (from == DType::kString) {
    DispatchReal(to, "cast", [&](auto tag) {
      using To = typename decltype(tag)::type;
      for (int64_t i = 0; i < count; ++i) {
        static_cast<To*>(out)[i] = ParseNumber<To>(static_cast<const std::string*>(in)[i]);
      }
    });
  } else if (to == DType::kString) {
    DispatchReal(from, "cast", [&](auto tag) {
      using From = typename decltype(tag)::type;
      for (int64_t i = 0; i < count; ++i) {
        std::string& text = static_cast<std::string*>(out)[i];
        if constexpr (std::is_same_v<From, bool>) {
          text = kTruths[static_cast<const uint8_t*>(in)[i] != 0];
        } else {
          text = PrintNumber(static_cast<const From*>(in)[i]);
        }
      }
    });
  } else {
    DispatchReal(from, "cast", [&](auto from_tag) {
      using From = typename decltype(from_tag)::type;
      DispatchReal(to, "cast", [&](auto to_tag) {
        using To = typename decltype(to_tag)::type;
        const From* source = static_cast<const From*>(in);
        To* target = static_cast<To*>(out);
        for (int64_t i = 0; i < count; ++i) target[i] = ConvertNumber<From, To>(source[i]);
      });
    });
  }
}

}  // namespace sardonyx
