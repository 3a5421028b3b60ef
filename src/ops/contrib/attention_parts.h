#pragma once
// What the contributed attention operators share. Queries, keys and values are split into heads:
// [batch,heads,sequence,size].

#include "ops/contrib/standard.h"
#include "ops/nn/attention.h"

namespace sardonyx::ops::contrib {

struct Cached {
  Val present;  // what the operator returns for its next call
  Val visible;  // what its queries may see of it
};
// Keys or values behind those of the past. Where `filled` (one integer) is given, the past is a
// buffer that has room for them behind its first `filled` rows.
Cached Append(Val past, Val rows, Val filled);

// A mask of keys as numbers to add to the scores, `filter` for those that it hides. By its shape:
// [batch]: how many keys there are; [2 * batch]: behind the last, and the first;
// [3 * batch + 2]: the first third is how many; [batch,keys] or [batch,queries,keys]: 0 hides;
// [batch,1,most,most]: the same for all positions of queries and keys.
Val KeyMask(Lowering& op, Val mask, Val queries, Val keys, double filter);

// Hides from each query the keys behind it; the queries are the last of the sequence after `past`
// positions.
Val Causal(Val queries, Val keys, Val past);

double ScaleOf(const Lowering& op, Val queries);  // 1 / sqrt(size) unless it is given
int64_t HeadCount(const Lowering& op, std::string_view attribute);

}  // namespace sardonyx::ops::contrib
