#pragma once
// Conversion between element types as ONNX Cast defines it, and access to packed elements.

#include <cstdint>
#include <string_view>

#include "base/dtype.h"

namespace sardonyx {

// How a number becomes float8e8m0, a power of two: away from zero, towards zero, or nearest with
// ties away from zero. Other formats round half to even.
enum class ScaleRounding : uint8_t { kUp, kDown, kNearest };

// Converts `count` elements. Packed formats start at the first bits of their memory; strings are
// std::string. `saturate` bounds what leaves the range of a small float format to its largest value
// (else it becomes infinity or NaN, as the format has them). A float becomes an integer by
// truncation and is bounded to the integer's range (NaN: 0); an integer keeps its low bits. Throws
// kInvalidArgument for a string that is no number, kUnsupported for complex with anything else.
void ConvertElements(DType from, const void* in, DType to, void* out, int64_t count, bool saturate,
                     ScaleRounding rounding = ScaleRounding::kUp);

// The float next to x whose last bit is set unless x is a float: rounded again, to 16 bits or
// fewer, it gives what x itself would (Boldo and Melquiond, "Emulation of FMA and correctly rounded
// sums", 2008).
float RoundToOdd(double x);

// Bits of element i of a packed format of `bits` (2, 4, 6) an element, low bits first.
uint32_t ReadPacked(const void* data, int bits, int64_t i);
void WritePacked(void* data, int bits, int64_t i, uint32_t value);

// The value of a code of one of the float formats of 4, 6 and 8 bits.
double DecodeSmallFloat(DType type, uint32_t bits);

}  // namespace sardonyx
