#pragma once
// NumPy's .npy format, versions 1 to 3.

#include <string>
#include <string_view>

#include "sardonyx/sardonyx.hpp"

namespace sardonyx::cli {

// The array in the bytes of a .npy file, in C order. Types that NumPy has and ONNX too, and text
// ('U', 'S'). A file of unsigned bytes or words may be read as a small type (bfloat16, float8, int4
// with one byte an element, ...) when `wanted` is one. Throws Error naming `path`.
Tensor ReadNpy(std::string_view bytes, const std::string& path, DType wanted = DType::kUndefined);

// The bytes of a .npy file. Types that NumPy lacks are widened: small floats to float32, integers
// below a byte to int8 or uint8. Strings become fixed-width text.
std::string WriteNpy(const Tensor& tensor);

}  // namespace sardonyx::cli
