#pragma once
// The register-blocked inner part of products with a packed B of bfloat16: rows of A times column
// panels of B over a range of K, summed in float32. Single-threaded.
//
// B is cut into panels of GemmPanelWidth() columns, the last one filled up with zeros. A panel
// holds a row of words for every two rows of B: in the lower half of a word the first of them, in
// the upper half the second, a zero beyond an odd K.

#include <cstdint>

#include "kernels/gemm_block.h"

namespace sardonyx {

// Whether the target that runs multiplies pairs of bfloat16 (AVX512_BF16, or tiles of them by AMX),
// and these are faster.
// Such an instruction gives the exact products, which float32 holds, and rounds each sum to
// float32; but it takes subnormal factors as zeros, and gives zero for sums below 2^-126.
bool Bf16HasPairs();

// C[0:rows, n0:n1] (+)= A[0:rows, 2 * p0 : 2 * (p0 + pairs)] * B, for k_total rows of B.
struct Bf16BlockArgs {
  const float* a;  // element (0, 0); used if a_pairs is null
  int64_t lda;
  const uint32_t* a_pairs;  // A as Bf16PackRows packs it; needs Bf16HasPairs
  int64_t pairs_ld;
  int64_t rows;
  const uint32_t* b;  // packed
  int64_t k_total, n_total;
  int64_t p0, pairs;
  int64_t n0, n1;  // n0 is a multiple of the panel width, n1 too unless it is n_total
  float* c;        // element (0, 0)
  int64_t ldc;
  bool accumulate;
  const TileEpilogue* epilogue;  // with the last range of K; may be null; indexed as c is
  const uint32_t* next;          // what will be read after this block, fetched on the way
};
void Bf16Block(const Bf16BlockArgs& args);

// Packs rows of A into rows of pairs, `pairs_ld` words apart. False, and what it wrote is of no
// use, if an element is not a bfloat16 or is a subnormal one.
bool Bf16PackRows(const float* a, int64_t lda, int64_t rows, int64_t k, uint32_t* pairs,
                  int64_t pairs_ld);

// Packs B [k, n], whose element (i, j) is b[i * ldb + j], or b[j * ldb + i] if transposed; false as
// above. `rows`: Bf16RowWords(k) words for each column of whole panels, used if transposed.
int64_t Bf16RowWords(int64_t k);
bool Bf16PackPanels(const float* b, int64_t ldb, bool transposed, int64_t k, int64_t n,
                    uint32_t* rows, uint32_t* packed);

}  // namespace sardonyx
