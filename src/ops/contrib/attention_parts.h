#pragma once
// What the contributed attention operators share. Queries, keys and values are split into heads:
// [batch,heads,sequence,size].

#include "ops/contrib/standard.h"
#include "ops/nn/attention.h"

namespace sardonyx::ops::contrib {

struct Cached {
  Val present;  // what the operator returns for its next call
  Val visible;  // what its queries may see of it, and behind that perhaps a rest that they may not
  Val total;    // [1]: how many rows they may see
  bool has_rest = false;
};
// Keys or values behind those of the past. Where `filled` (one integer) is given, the past is a
// buffer that has room for them behind its first `filled` rows. The sequences of the batch may be
// beams that were chosen out of others: beams[i,j,t] of [batch/width,width,most] then says in which
// of the `width` sequences of its kind row t of the past of sequence i * width + j stands.
Cached Append(Lowering& op, Val past, Val rows, Val filled, Val beams = {});

// Rows of keys or values [batch,heads,rows,size], as many as the longest sequence has, where
// `exists` [batch,1,1,rows] says so, and zeros for others, which may hold anything: a product with
// a weight of 0 would make NaN of NaN.
Val Existing(Val rows, Val exists);

// What is to be added to the scores, empty if nothing: a bias; the attribute mask_filter_value
// where a mask hides keys; -infinity where the attribute unidirectional hides from a query the keys
// behind it, the first query being at position `first`, and for rows that nobody may see.
// By the shape of the mask: [batch]: how many keys there are; [2 * batch]: behind the last, and the
// first; [3 * batch + 2]: the first third is how many; [batch,keys] or [batch,queries,keys]: 0
// hides; [batch,1,most,most]: the same for all positions of queries and keys.
Val ScoreTerms(Lowering& op, Val mask, Val bias, Val queries, const Cached& keys, Val first);

// Inputs 0 to 2 as heads: queries, and keys and values that groups of these share; or all of them
// side by side in input 0.
struct Heads {
  Val q, k, v;
};
Heads GroupedHeads(Lowering& op, int64_t heads, int64_t shared);
// Turns the features of each by the angles of the positions [batch,sequence], as the attribute
// rotary_interleaved pairs them.
void Rotate(Lowering& op, Val cosine, Val sine, Val positions, std::initializer_list<Val*> heads);

double ScaleOf(const Lowering& op, Val queries);  // 1 / sqrt(size) unless it is given
int64_t HeadCount(const Lowering& op, std::string_view attribute);

}  // namespace sardonyx::ops::contrib
