#pragma once
// Products of bytes by the processor's own tiles (HasMatrixTiles), on operands packed for VNNI.

#include "kernels/gemm_int8.h"

namespace sardonyx {

inline constexpr int64_t kInt8AmxRows = 16;

// Whether Int8BlockByAmx does this block, and faster than vectors do.
bool Int8AmxTakes(const Int8BlockArgs& args);
void Int8BlockByAmx(const Int8BlockArgs& args);

}  // namespace sardonyx
