#pragma once
// Attention in float32, y = softmax(softcap(q k' scale) + mask) v for each head. Scores exist for a
// block of queries and keys at a time; the softmax goes on from block to block (Milakov and
// Gimelshein, arXiv:1805.02867). Of bfloat16 that is kept in float32, what a graph of nodes would
// round is rounded, and processors whose pairs are faster (Bf16HasPairs) multiply such.

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/thread_pool.h"

namespace sardonyx {

struct AttentionShape {
  int64_t batch = 1, heads = 1;  // heads of q
  int64_t group = 1;             // heads of q that share one of k and v, a divisor of heads
  int64_t queries = 0, keys = 0;
  int64_t size = 0, width = 0;  // features of q and k, of v and y
  // Floats from one item of the batch, head (of k and v: shared head) and row to the next. A stride
  // of 0 shares k or v. Features are contiguous; of k the rows are instead if k_transposed, and
  // then the third stride is that of features.
  int64_t q_stride[3] = {}, k_stride[3] = {}, v_stride[3] = {}, y_stride[3] = {};
  bool k_transposed = false;
  float scale = 1;
  float softcap = 0;  // 0: none
  // Query i sees keys up to i + ahead, if causal.
  bool causal = false;
  int64_t ahead = 0;
  // Queries that give zeros: whose scores are all -infinity; and those whose weights are NaN.
  bool zero_blind = false, zero_nan = false;
  // Of products, scaled and masked scores, weights and results: float32 (none) or bfloat16.
  DType rounding = DType::kFloat32;
};

// Added to the scores; or, as bytes, 0 hides a key. Strides count elements of batch, head of q,
// query and key (0 or 1), of which each may be 0. A key whose mask is less than -1e37 in all later
// places too is left out altogether, if the query has another one.
struct AttentionMask {
  const float* terms = nullptr;
  const uint8_t* seen = nullptr;
  int64_t stride[4] = {};
  // Query i sees keys [firsts[...], counts[...]) alone; strides as those of the terms, but for
  // keys.
  const int64_t* counts = nullptr;
  int64_t count_stride[3] = {};
  const int64_t* firsts = nullptr;
  int64_t first_stride[3] = {};
  // The score of a further key, whose values are 0; strides as of counts.
  const float* sinks = nullptr;
  int64_t sink_stride[3] = {};
};

// Bytes of scratch, 64-byte aligned.
size_t AttentionScratchBytes(const AttentionShape& shape, int threads);

void Attention(const AttentionShape& shape, const float* q, const float* k, const float* v,
               const AttentionMask& mask, float* y, void* scratch, const Parallel& par);

}  // namespace sardonyx
