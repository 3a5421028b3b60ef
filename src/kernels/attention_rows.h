#pragma once
// The softmax of attention: a block of scores at a time.

#include <cstdint>

#include "base/dtype.h"
#include "kernels/attention.h"

namespace sardonyx {

// One row of scores and what is known of its softmax so far.
struct AttentionRow {
  int64_t begin, end;  // keys that it sees at most; begin <= end
  float max, sum;      // of the scores so far; of their exponentials, relative to max
  const void* mask;    // its terms or bytes, of key 0; or null
};

// Turns scores [rows, keys] of keys [first, first + keys) into e^(score - max), those outside of a
// row's keys into 0, and multiplies what y holds of earlier blocks by the change of max. If they
// are rounded, a block has all keys, and scores become weights whose sum counts as 1.
struct AttentionBlock {
  AttentionRow* rows;
  int64_t row_count;
  float* scores;  // products of queries and keys
  int64_t scores_ld;
  int64_t first, keys;
  float scale, softcap;
  bool mask_is_bytes;
  int64_t mask_step;  // 0 or 1, from key to key
  float* y;           // null in the first block
  int64_t y_ld, width;
  DType rounding;  // float32: none
};
void SoftenBlock(const AttentionBlock& block);

// y /= sum, rounded, with the rules for queries that see nothing.
void FinishRows(const AttentionRow* rows, int64_t row_count, bool zero_blind, bool zero_nan,
                DType rounding, float* y, int64_t y_ld, int64_t width);

// What a row of the mask leaves of `keys` keys.
struct SeenKeys {
  int64_t end;  // one behind the last that it does not hide; all keys if it hides all
  bool alike;   // those before are seen, and nothing is added to their scores
};
SeenKeys KeysSeen(const void* mask, bool is_bytes, int64_t step, int64_t keys);

}  // namespace sardonyx
