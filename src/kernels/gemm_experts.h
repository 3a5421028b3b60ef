#pragma once
// Products of rows with the matrices of the experts chosen for each, of which a run reads those
// alone: y[r, s] = x[r] * B[experts[r, s]] + bias[experts[r, s]]. Experts count from the end if
// they are negative.

#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"
#include "kernels/gemm_narrow.h"

namespace sardonyx {

// B[k, n] of each expert, in one of three forms.
struct ExpertMatrices {
  int64_t experts = 0, k = 0, n = 0;
  // In GemmNarrow's packed form, if `is_narrow`; else in Gemm's, if `packed` is given. One begins
  // PackedBytes() behind the other.
  bool is_narrow = false;
  NarrowMatrix narrow;
  const void* packed = nullptr;
  // Else as they lie: [experts, n, k], or [experts, k, n].
  const float* plain = nullptr;
  bool k_first = false;

  int64_t PackedBytes() const;  // of one expert
};

// Bytes of scratch, 64-byte aligned: all, and of one thread's group of rows.
struct ExpertScratch {
  int64_t all = 0, each = 0;
};
// Rows of x and of experts: as many, or 1 of either.
struct ExpertRows {
  int64_t x, chosen;
  int64_t Count() const { return x == 1 ? chosen : x; }
};
// Of `rows` rows with `slots` experts each. `packed` says whether matrices are, which need not be
// given yet.
ExpertScratch GemmExpertsScratch(const ExpertMatrices& b, bool packed, int64_t rows, int64_t slots,
                                 int threads);

// x[rows.x, k], experts[rows.chosen, slots] in [-b.experts, b.experts), bias[experts, n] or null,
// y[rows.Count(), slots, n].
// The same bits for any number of threads.
void GemmExperts(const ExpertMatrices& b, ExpertRows rows, int64_t slots, const float* x,
                 const int64_t* experts, const float* bias, float* y, const ExpertScratch& sizes,
                 void* scratch, const Parallel& par);

}  // namespace sardonyx
