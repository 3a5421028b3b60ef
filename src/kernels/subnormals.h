#pragma once
// Numbers below the normal range of float32, which trained weights of dead channels are full of.

#include <cstdint>

namespace sardonyx {

// Sets numbers of a magnitude below 2^-126 to zero, if there is one of at least 2^-60 beside them:
// in sums of products what they add is below 2^-66 of what such a one adds, and float32 keeps
// 2^-24. Intel's processors take some hundred cycles for each vector with one.
void ZeroSubnormals(float* weights, int64_t count);

}  // namespace sardonyx
