#pragma once
// Panels of a NarrowMatrix (gemm_narrow.h), as the vector code reads them.
//
// Panels are as wide as those of a float32 matrix (gemm_block.h). One of halves holds its rows one
// after the other. One of codes holds its blocks one after the other: a float scale for each
// column, a float offset for each, then words of 32 bits, one a column for as many rows as a word
// has codes. With a code of b bits in the upper bits of its mantissa a float in [2^b, 2^(b+1)) is
// 2^b + code, exactly: the weight is that, times scale, minus offset = scale * (2^b + zero). Codes
// that stand for the values of a table are looked up there; the offset then is 0.

#include <cstdint>

#include "kernels/gemm_narrow.h"

namespace sardonyx {

// Rows whose codes share a word.
inline int64_t RowsPerWord(const NarrowMatrix& b) { return 32 / BitWidth(b.type); }
// Blocks of a column; of halves none.
inline int64_t Blocks(const NarrowMatrix& b) {
  return b.block == 0 ? 0 : (b.k + b.block - 1) / b.block;
}
// Bytes of `rows` rows of a panel; whole blocks if there are such.
inline int64_t PanelBytes(const NarrowMatrix& b, int64_t rows, int64_t width) {
  if (b.block == 0) return rows * width * 2;
  const int64_t words = b.block / RowsPerWord(b);
  return (rows + b.block - 1) / b.block * width * 4 * (2 + words);
}

// A block of a panel: where its parts begin.
struct PanelBlock {
  const float* scales;
  const float* offsets;
  const uint32_t* words;
};
inline PanelBlock BlockAt(const void* panel, int64_t index, int64_t width, int64_t words) {
  const auto* from = static_cast<const float*>(panel) + index * width * (2 + words);
  return {from, from + width, reinterpret_cast<const uint32_t*>(from + 2 * width)};
}

// Widens rows [k0, k0 + kc) of a panel of `width` columns into to[kc, width]; k0 is a multiple of
// the block, and whole words are written.
void WidenPanel(const NarrowMatrix& b, const void* panel, int64_t width, int64_t k0, int64_t kc,
                float* to);

// m <= kNarrowRows: c[0:m, 0:width] = a[0:m, 0:k] * panel. a is zero from k to the end of the last
// block, a_sums[i * blocks + j] the sum of row i over block j.
void MultiplyPanel(const NarrowMatrix& b, const void* panel, int64_t width, int64_t m,
                   const float* a, int64_t lda, const float* a_sums, float* c, int64_t ldc);

// Rounds a row of A, zero from k to the end of the last block, to [-127, 127] times a scale for
// each block, in its own place: it then holds the codes, in the order that MultiplyRounded reads.
// sums are of the rounded numbers, one a block; where the matrix has one zero point, they are
// int32 instead: the sums of the codes times less that, where sums of products then begin.
void RoundRow(const NarrowMatrix& b, float* a, float* scales, float* sums);

// Rows that RoundRow made, `stride` floats apart; scales and sums are [rows, blocks].
struct RoundedRows {
  const float* codes;
  int64_t stride;
  const float *scales, *sums;
};

// c[0:m, 0:width] = a[0:m, 0:k] * panel.
void MultiplyRounded(const NarrowMatrix& b, const void* panel, int64_t width, int64_t m,
                     const RoundedRows& a, float* c, int64_t ldc);

}  // namespace sardonyx
