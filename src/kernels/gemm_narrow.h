#pragma once
// Matrix product in float32 with a constant B that is stored in fewer bits: float16, or
// integers of 2, 4 or 8 bits in blocks with a scale and a zero point each. B is packed for the
// kernels once and widened as it is read: in registers for few rows of A, which are bound by
// reading B, else a panel at a time into the cache.

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/thread_pool.h"
#include "kernels/epilogue.h"

namespace sardonyx {

// B[k, n]. Of float16 `block` is 0. Else the type is uint2, uint4 or uint8, and rows
// [i * block, (i + 1) * block) of each column have a scale and a zero point: the element is (code -
// zero) * scale. `block` is a multiple of 16.
struct NarrowMatrix {
  DType type = DType::kFloat16;
  int64_t k = 0, n = 0, block = 0;
  // A too is rounded, to bytes with a scale for each block of a row: what a model allows that gives
  // MatMulNBits accuracy_level 4. Of codes alone, in blocks of at most kMostRoundedBlock.
  bool rounds_a = false;
  // Of all blocks, where they have one zero point that is a code; else none. Rows that are rounded
  // are multiplied faster.
  int zero = kNoZero;
  static constexpr int kNoZero = -1;
  // What codes of 4 bits stand for, where that is not themselves less a zero point.
  bool has_values = false;
  std::array<float, 16> values{};
};
// Sums of products of bytes over a block are exact in int32.
inline constexpr int64_t kMostRoundedBlock = int64_t{1} << 16;

// Up to so many rows of A codes are widened in registers.
inline constexpr int64_t kNarrowRows = 4;

// Bytes of the packed form, a multiple of 64. The format depends on the SIMD target that runs.
size_t NarrowPackedBytes(const NarrowMatrix& b);

// Packs halves whose element (k, j) is b[k * ldb + j], or b[j * ldb + k] if transposed.
void PackNarrowHalves(const NarrowMatrix& b, const uint16_t* halves, int64_t ldb, bool transposed,
                      void* packed, const Parallel& par);

// Packs codes as MatMulNBits has them: for each column its blocks one after the other, the last one
// whole too, codes from the low bits of a byte on. scales and zeros are [n, blocks], the latter not
// read where the matrix has values.
void PackNarrowBlocks(const NarrowMatrix& b, const uint8_t* codes, const float* scales,
                      const float* zeros, void* packed, const Parallel& par);

size_t GemmNarrowScratchBytes(const NarrowMatrix& b, int64_t m, int64_t lda, int threads);

// C[m, n] = epilogue(A[m, k] * B). Rows of A are lda apart, of C ldc, in elements. `scratch`:
// GemmNarrowScratchBytes, 64-byte aligned. The same bits for any number of threads.
void GemmNarrow(const NarrowMatrix& b, const void* packed, int64_t m, const float* a, int64_t lda,
                float* c, int64_t ldc, const Epilogue& epilogue, void* scratch,
                const Parallel& par);

}  // namespace sardonyx
