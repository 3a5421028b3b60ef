#pragma once
// Matrix product in float32, C[M,N] = epilogue(A[M,K] * B[K,N]), batched, with a packed B.

#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"
#include "kernels/epilogue.h"

namespace sardonyx {

// Sizes, layout and batch of a product. All strides count elements.
//
// A's element (i, k) is a[i * lda + k], or a[k * lda + i] if a_transposed; B's (k, j) is
// b[k * ldb + j], or b[j * ldb + k] if b_transposed. C is row-major with rows ldc apart (ldc >= n),
// so it may be a slice of a wider matrix. Item (p, q) of the batch, 0 <= p < batch[0] and
// 0 <= q < batch[1], lies p * stride[0] + q * stride[1] further; a stride of 0 shares the operand
// (not allowed for C). Two batch dimensions let attention run on heads inside [B, S, H * D].
// K = 0 gives a product of zeros. C must not overlap A or B.
struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;
  bool a_transposed = false;
  bool b_transposed = false;
  int64_t batch[2] = {1, 1};
  int64_t a_stride[2] = {0, 0};
  int64_t b_stride[2] = {0, 0};
  int64_t c_stride[2] = {0, 0};
};

// Bytes of the packed form of one K x N matrix; a multiple of 64. The format depends on the SIMD
// target that runs (kernels/targets.h), not on M.
size_t GemmPackedBytes(int64_t k, int64_t n);

// Packs one matrix B, laid out as GemmShape says, into `packed` (64-byte aligned).
void GemmPackB(int64_t k, int64_t n, const float* b, int64_t ldb, bool b_transposed, float* packed,
               const Parallel& par);

// The same for rows [first, first + count) of B alone, which begin at `rows`, not transposed.
void GemmPackRows(int64_t k, int64_t n, int64_t first, int64_t count, const float* rows,
                  int64_t ldb, float* packed, const Parallel& par);

// Bytes of scratch that Gemm needs with this many threads; 64-byte aligned; may be 0.
// `packed` says whether Gemm gets B packed.
size_t GemmScratchBytes(const GemmShape& shape, bool packed, int threads);

// Whether rows of A, a page apart, fall into the same few lines of the first-level cache, which a
// tile of many rows then evicts in turn: tiles are less high, and convolutions gather them.
constexpr bool RowsCollide(int64_t lda, int64_t rows) {
  return rows > 4 && lda % 1024 == 0 && lda > 0;
}

// Whether they are so many that they had better lie apart from the begin (Zen 3, with rows 64 bytes
// further apart: 1,024 columns 0.92 of the time, 3,072 0.98).
constexpr bool BetterApart(int64_t lda, int64_t rows) {
  return rows >= 16 && RowsCollide(lda, rows);
}

// Whether C is stored once, complete, where B is packed: else C holds partial sums before.
bool GemmStoresOnce(const GemmShape& shape);

// Computes all items of the batch. If packed_b is given, b and its layout are not looked at;
// item (p, q) uses packed_b + p * shape.b_stride[0] + q * shape.b_stride[1] then, strides in floats
// of the packed form (GemmPackedBytes / 4, or 0). Otherwise b is read, and packed on the way where
// that pays. The result is the same, bit for bit, for any number of threads, but may differ in
// rounding between packed and unpacked B.
void Gemm(const GemmShape& shape, const float* a, const float* b, const float* packed_b, float* c,
          const Epilogue& epilogue, void* scratch, const Parallel& par);

}  // namespace sardonyx
