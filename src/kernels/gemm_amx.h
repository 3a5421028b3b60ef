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

// What a product of this size takes of the time by vectors, where each row takes so many cycles
// more: for those that only vectors read where they lie. 1 where it is no less, or hardly. More
// rows never take a larger part.
double GemmAmxShare(int64_t rows, int64_t columns, int64_t k, double row_cycles = 0);
inline bool GemmAmxPays(int64_t rows, int64_t columns, int64_t k, double row_cycles = 0) {
  return GemmAmxShare(rows, columns, k, row_cycles) < 1;
}

// The blocks of a matrix of so many rows, or of a part of them: the thirds of B are made once for
// each. A rest of less than kLeastRows joins the block before, for vectors would sum it in another
// order.
struct GemmAmxBlocks {
  explicit GemmAmxBlocks(int64_t all);
  int64_t rows, most_rows;  // most_rows: of the last one
};

// How a product is cut into `parts`, or a few more or less. Each part makes the thirds of its rows
// and of its columns, so that those are cut first which take longer; row_cycles as above.
struct GemmAmxParts {
  GemmAmxParts(int64_t rows, int64_t columns, int64_t k, int64_t parts, double row_cycles = 0);
  int64_t row_parts, column_parts;
  int64_t row_unit, column_step;  // parts of the rows begin at multiples; columns of a part
};

// Bytes of scratch for blocks of as many rows and of K; a multiple of 64.
size_t GemmAmxBytes(int64_t rows, int64_t kc);

// GemmBlock with such scratch at args.thirds. Each row is summed alike in any block.
void GemmBlockByAmx(const GemmBlockArgs& args);

}  // namespace sardonyx
