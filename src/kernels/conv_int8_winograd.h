#pragma once
// Convolution of bytes, 3 x 3 with stride 1, by Winograd's F(4x4, 3x3) in int16 (winograd_int8.h):
// four times fewer multiplications, and exact where no result can reach 2^25.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/conv_int8.h"

namespace sardonyx::conv_int8_winograd {

// Empty if the shape can be run, else why not.
std::string_view Refusal(const ConvShape& shape);
// Whether it is expected to be faster than the direct sum.
bool IsFaster(const ConvShape& shape);

// Weights are dense [cout, cin, 3, 3], int8 or uint8, all with one zero point.
struct Weights {
  const void* data = nullptr;
  bool is_signed = true;
  int32_t zero = 0;
};
// Whether no input of bytes, whatever its zero point, has a result that is out of range.
bool IsExact(const ConvShape& shape, const Weights& weights);

// Packed weights depend on cin, cout and the target that runs.
size_t PackedBytes(const ConvShape& shape);
void Pack(const ConvShape& shape, const Weights& weights, void* packed, const Parallel& par);

// As ConvInt8, but for the zero points of weights, which are in the packed ones.
size_t ScratchBytes(const ConvShape& shape, int threads);
void Run(const ConvShape& shape, const Int8ConvArgs& args, void* scratch, const Parallel& par);

}  // namespace sardonyx::conv_int8_winograd
