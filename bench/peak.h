#pragma once
// The machine's peak arithmetic.

#include <cstdint>

namespace sardonyx {

// Multiplies and adds float32 in registers alone, with as many sums at once as hide how long each
// takes. Returns how many operations that were.
double MultiplyAndAdd(int64_t rounds);

// Likewise bytes, by the processor's matrix tiles, which it has to have (HasMatrixTiles).
double MultiplyTiles(int64_t rounds);

}  // namespace sardonyx
