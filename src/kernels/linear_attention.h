#pragma once
// Linear attention: each head of keys and values has a state S [keys, values], which every token
// decays, corrects and adds to, and each query reads.

#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"

namespace sardonyx {

struct LinearAttentionShape {
  enum class Decay : uint8_t { kNone, kHead, kKey };  // no factor, one a head, one a key

  int64_t batch = 1, tokens = 1;  // tokens: of an item of the batch
  int64_t heads = 1, group = 1;   // of keys and values; queries that share one of these
  int64_t keys = 1, values = 1;   // features of a head's key and of its value
  // Elements from one token to the next, whose heads lie side by side; the batch's items follow
  // each other.
  int64_t q_stride = 0, k_stride = 0, v_stride = 0, y_stride = 0;
  int64_t decay_stride = 0, beta_stride = 0;
  Decay decay = Decay::kNone;
  // What is added is the key times beta (v - S^T k), of one beta a head or one for all, else times
  // v.
  bool has_beta = false, beta_per_head = false;
  float scale = 1;  // of what queries read

  int64_t Decays() const {  // of a token
    return decay == Decay::kNone ? 0 : decay == Decay::kHead ? heads : heads * keys;
  }
};

struct LinearAttentionArgs {
  const float *q, *k, *v;
  const float *past, *decay, *beta;  // past: null for zeros; decay: logarithms of the factors
  float* y;
  float* present;  // null if nobody wants the last state
};

// past and present are [batch, heads, keys, values], dense. Outputs overlap nothing. No size is 0.
void LinearAttention(const LinearAttentionShape& shape, const LinearAttentionArgs& args,
                     void* scratch, const Parallel& par);
size_t LinearAttentionScratchBytes(const LinearAttentionShape& shape, int threads);

}  // namespace sardonyx
