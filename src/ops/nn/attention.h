#pragma once
// What the attention operators share, on heads: [batch,heads,sequence,size].

#include "ops/lowering.h"

namespace sardonyx::ops {

// Repeats each head (axis 1) of keys and values for the group of query heads that share it.
void ShareHeads(const Lowering& op, Val queries, Val* keys, Val* values);

struct Scoring {
  double scale;
  double softcap = 0;                   // 0: none
  Val bias = {};                        // added to the scores; -infinity hides a key
  Val sink = {};                        // [...,1]: score of a further key, whose value is 0
  DType precision = DType::kUndefined;  // of the softmax; that of the queries
};

struct Attended {
  Val y;
  Val product, capped, biased, weights;  // the scores on their way: [batch,heads,queries,keys]
};

// softmax(softcap(Q K' scale) + bias) V. A group of query heads may share a head of keys and
// values. A query that may see no key gives zeros.
Attended Attend(const Lowering& op, Val queries, Val keys, Val values, const Scoring& scoring);

// In which type FlexAttention's softmax and the bodies around it compute: attribute
// softmax_precision, else float32 for all but float64. Throws kInvalidModel.
DType FlexPrecision(const Attributes& attributes, DType type);

// [batch,sequence,heads * size] -> [batch,heads,sequence,size], and back.
Val SplitHeads(Val x, int64_t heads);
Val JoinHeads(Val x);
// What to add to scores: 0 where seen, else -infinity.
Val Hide(Val seen, DType type);

}  // namespace sardonyx::ops
