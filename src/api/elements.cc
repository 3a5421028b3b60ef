// Element types and tensors of other types, for programs.

#include "base/cast.h"
#include "sardonyx/sardonyx.hpp"

namespace sardonyx {

std::string_view DTypeName(DType dtype) { return Name(dtype); }
DType DTypeByName(std::string_view name) { return DTypeFromName(name); }
int DTypeBits(DType dtype) { return BitWidth(dtype); }
bool DTypeIsFloat(DType dtype) { return IsFloat(dtype); }
bool DTypeIsInteger(DType dtype) { return IsInteger(dtype); }

Tensor Converted(const Tensor& tensor, DType to) {
  if (tensor.dtype() == to) return tensor;
  Tensor result(to, tensor.dims());
  ConvertElements(tensor.dtype(), tensor.raw(), to, result.raw(), tensor.size(), true);
  return result;
}

Tensor Packed(DType dtype, std::vector<int64_t> dims, const uint8_t* codes) {
  Tensor result(dtype, std::move(dims));
  const int bits = BitWidth(dtype);
  auto* out = result.data<uint8_t>();
  uint32_t pending = 0;
  int held = 0;
  for (int64_t i = 0; i < result.size(); ++i) {
    pending |= (codes[i] & ((1U << bits) - 1)) << held;
    for (held += bits; held >= 8; held -= 8, pending >>= 8) *out++ = static_cast<uint8_t>(pending);
  }
  if (held > 0) *out = static_cast<uint8_t>(pending);
  return result;
}

Tensor Unpacked(const Tensor& tensor) {
  Tensor result(DType::kUInt8, tensor.dims());
  const int bits = BitWidth(tensor.dtype());
  for (int64_t i = 0; i < tensor.size(); ++i) {
    result.data<uint8_t>()[i] = static_cast<uint8_t>(ReadPacked(tensor.raw(), bits, i));
  }
  return result;
}

}  // namespace sardonyx
