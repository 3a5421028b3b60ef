#pragma once
// MultiplyRounded (narrow_panel.h) by the processor's matrix tiles (HasMatrixTiles), bit for bit
// the same.

#include "kernels/narrow_panel.h"

namespace sardonyx {

// Whether tiles multiply so many rows with a panel of this width, and faster than vectors.
bool RoundedAmxTakes(const NarrowMatrix& b, int64_t width, int64_t m);
void MultiplyRoundedByAmx(const NarrowMatrix& b, const void* panel, int64_t m, const RoundedRows& a,
                          float* c, int64_t ldc);

}  // namespace sardonyx
