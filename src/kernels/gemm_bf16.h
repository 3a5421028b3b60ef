#pragma once
// Matrix product with a constant B of bfloat16, summed in float32. Processors whose
// pairs are faster (Bf16HasPairs) multiply such where A holds values of that type too,
// others float32.

#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"
#include "kernels/epilogue.h"

namespace sardonyx {

// C[m, n] = A[m, k] * B[k, n], k > 0; rows of A are lda apart, of C ldc, in elements.
struct Bf16Gemm {
  int64_t m = 0, n = 0, k = 0, lda = 0, ldc = 0;
};

// Whether a product of m rows is faster so than with float32 panels: in pairs always, else for few
// rows, which are bound by reading B.
bool GemmBf16Pays(int64_t m);

// Bytes of the packed form, a multiple of 64; the format depends on the SIMD target that runs.
size_t GemmBf16PackedBytes(int64_t k, int64_t n);

// Packs a matrix whose element (k, j) is b[k * ldb + j], or b[j * ldb + k] if transposed.
void GemmBf16Pack(int64_t k, int64_t n, const uint16_t* b, int64_t ldb, bool transposed,
                  void* packed, const Parallel& par);

size_t GemmBf16ScratchBytes(const Bf16Gemm& shape);

// C = epilogue(A * B). Rows of A that are not all bfloat16, and subnormal numbers in A or B, take
// products of float32, which lose nothing. `scratch`: GemmBf16ScratchBytes, 64-byte aligned. The
// same bits for any number of threads.
void GemmBf16(const Bf16Gemm& shape, const float* a, const void* packed, float* c,
              const Epilogue& epilogue, void* scratch, const Parallel& par);

}  // namespace sardonyx
