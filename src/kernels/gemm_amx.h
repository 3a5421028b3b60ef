#pragma once
// Products of float32 by the processor's matrix tiles (HasMatrixTiles), which multiply bfloat16.
//
// A float32 is the sum of three bfloat16, its thirds: it rounded to one, what that leaves rounded,
// and the rest. Of the nine products of two numbers' thirds the six largest are summed, each exact,
// in float32; the others are less than 2^-24 of a product. Errors are about 0.42 of those of a
// chain of fused multiply-adds (root mean square; K from 64 to 768), for pairs are rounded, not
// products.
//
// Thirds of numbers below 2^-102 are subnormal, which tiles take as zeros: such numbers keep fewer
// bits beside larger ones of their row or column. Rows and columns that have no larger ones, and
// such as are not finite, are multiplied by vectors.

#include <cstddef>
#include <cstdint>

#include "kernels/gemm_block.h"

namespace sardonyx {

// Bytes of scratch for blocks of as many rows and of K; a multiple of 64.
size_t GemmAmxBytes(int64_t rows, int64_t kc);

// GemmBlock with such scratch at args.thirds. Each row is summed alike in any block.
void GemmBlockByAmx(const GemmBlockArgs& args);

// C[rows, columns], the sums over the first part of K, and those over the rest, added and finished
// as GemmBlock does with `accumulate`.
struct GemmSums {
  const float* sums;
  int64_t sums_ld, rows, columns;
  float* c;
  int64_t ldc;
  const TileEpilogue* epilogue;  // may be null; indexed as c is
};
void AddGemmSums(const GemmSums& args);

}  // namespace sardonyx
