#pragma once
// Products with few rows of A and a B that is not packed: bound by reading B once.

#include <cstdint>

namespace sardonyx {

inline constexpr int64_t kGemvRows = 4;

// C[0:m, n0:n1] = A[0:m, 0:k] * B[0:k, n0:n1], m <= kGemvRows. A's row i begins at a + i * lda, C's
// at c + i * ldc. B's element (k, j) is b[k * ldb + j], or b[j * ldb + k] if b_transposed.
void GemvBlock(int64_t m, int64_t n0, int64_t n1, int64_t k, const float* a, int64_t lda,
               const float* b, int64_t ldb, bool b_transposed, float* c, int64_t ldc);

}  // namespace sardonyx
