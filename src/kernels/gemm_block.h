#pragma once
// The register-blocked inner part of every matrix product and matrix-like convolution here: one
// block of rows times some column panels of a packed B over one range of K. Single-threaded.
//
// Packed B: columns are cut into panels of GemmPanelWidth() columns; the last panel is as wide as
// the rest rounded up to kPanelGranule, filled with zeros. A panel of width w is K rows of w
// floats.

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/round.h"
#include "base/thread_pool.h"
#include "kernels/activation.h"
#include "kernels/chains.h"

namespace sardonyx {

inline constexpr int64_t kPanelGranule = 8;
inline constexpr int64_t kLeastRows = 8;

// Whether so many ranges of K are read at once, as streams, where a row of a panel has row_bytes:
// processors are slow to see short ones (Zen 3: of 1 KiB they take 1.4 of the time of one stream,
// of 4 KiB 0.75). The row is a full panel's, for the last one, which may be narrower, is summed as
// the others are.
inline bool ReadsRanges(int64_t k, int ranges, int64_t row_bytes) {
  return k / ranges * row_bytes >= 4096;
}

// Columns of a full panel for the target that runs: 32, 16 or 8.
int64_t GemmPanelWidth();
// Rows of the largest register tile: blocks of a multiple of it have no remainder.
int64_t GemmTileRows();

// activation(clamp(value + bias[j] + residual(i,j), lo, hi)), rounded to the values of a 16-bit
// type, all but the activation and what rounds applied in registers; null pointers are left out.
struct TileEpilogue {
  DType sum_rounding = DType::kFloat32;  // of the value, ahead of all else; for products alone
  const float* bias = nullptr;
  const float* residual = nullptr;
  int64_t residual_ld = 0;
  bool clamp = false;
  float lo = 0.0f, hi = 0.0f;
  Activation activation;
  DType rounding = DType::kFloat32;  // none; with an activation that says it

  bool DoesNothing() const {
    return sum_rounding == DType::kFloat32 && bias == nullptr && residual == nullptr && !clamp &&
           activation.kind == Activation::Kind::kNone && rounding == DType::kFloat32;
  }
};

// C[0:rows, n0:n1] (+)= A[0:rows, 0:kc] * B[k0:k0+kc, n0:n1]. A row of A may lie in several pieces
// of equal length, a_step floats apart or wherever a_starts says, as the window of a convolution
// does.
struct GemmBlockArgs {
  const float* a;  // element (0, k0)
  int64_t lda;
  int64_t a_pieces, a_step;  // pieces of a row (0 is 1); a divisor of kc
  // Where each piece begins, floats from the first; kc is kOneChain at most. May be null.
  const int64_t* a_starts;
  int64_t rows;
  const float* b;  // packed matrix of k_total rows and n_total columns
  int64_t k_total, n_total;
  int64_t k0, kc;
  int64_t n0, n1;  // n0 is a multiple of the panel width, n1 too unless it is n_total
  float* c;        // element (0, 0)
  int64_t ldc;
  bool accumulate;               // add to what C holds
  bool is_all;                   // one panel is all of B
  bool keeps_off;                // what lies behind C's rows is another thread's: it is not fetched
  const float* next;             // read after the last panel, as much; null: what lies behind it
  const TileEpilogue* epilogue;  // with the last range of K; may be null; indexed as c is
  void* thirds;                  // scratch for products by matrix tiles (gemm_amx.h); null: without
  bool has_thirds;               // of these rows, from a block before
};
// Of kLeastRows rows or more, all are summed in the same order, however these are cut into blocks
// of as many.
//
// A panel that is all of B may be summed in another order than wider ones. Beside these it must
// not: of equal columns a softmax behind large sums would choose some (the suite of ONNX has a
// SqueezeNet all of whose weights are equal).
void GemmBlock(const GemmBlockArgs& args);

// How much of K to take at a time: all, or even ranges whose rows and panels stay in the cache.
// (GemmBlock alone keeps long sums near rounding.)
inline int64_t GemmDepth(int64_t k) { return k <= 800 ? k : CeilDiv(k, CeilDiv(k, 512)); }

// Packs columns [n0, n1) (n0 a multiple of the panel width) of B; see GemmPackB for the layout.
void PackPanels(int64_t k, int64_t n, const float* b, int64_t ldb, bool b_transposed, int64_t n0,
                int64_t n1, float* packed);

// to[i * ldto + k] = from[k * ldfrom + i] for i < rows, k < cols.
void TransposeCopy(const float* from, int64_t ldfrom, int64_t rows, int64_t cols, float* to,
                   int64_t ldto);

}  // namespace sardonyx
