#pragma once
// Elements of tensors one by one: widths, reading as a number, writing from one. For files, tables
// and random data; not fast.

#include <cstdint>

#include "sardonyx/sardonyx.hpp"

namespace sardonyx::cli {

// Width of an element in bits; 0 for strings.
int BitsOf(DType dtype);
// A type that NumPy does not have: bfloat16, float8, float6, float4 and integers below a byte.
bool IsSmallType(DType dtype);
bool IsFloatType(DType dtype);    // real, of any width
bool IsIntegerType(DType dtype);  // of any width; not bool

// Element i as a number: the real part of a complex one, 0 or 1 for bool; not for strings.
double ElementAsDouble(const Tensor& tensor, int64_t i);
// The nearest value of the type, in whose range `value` must lie; integers are cut to whole
// numbers.
void SetElement(Tensor* tensor, int64_t i, double value);

// Elements of `bits` bits, low bits first, from one byte an element.
void PackBits(const uint8_t* from, int64_t count, int bits, uint8_t* to);

}  // namespace sardonyx::cli
