#include "ops/lowering.h"

namespace sardonyx::ops {

// Turns pairs of features by an angle that belongs to the position: (a, b) becomes
// (a cos - b sin, a sin + b cos). Pairs are the two halves of the features, or neighbours.
Outputs LowerRotaryEmbedding(Lowering& op) {
  Val x = op.in(0);
  Val cosine = op.in(1), sine = op.in(2);
  if (op.has(3)) {
    cosine = Gather(cosine, op.in(3), 0);
    sine = Gather(sine, op.in(3), 0);
  }
  const bool flat =
      x.rank() == 3;  // [batch,sequence,heads * features], else [batch,heads,sequence,features]
  if (flat) {
    const int64_t heads = op.Int("num_heads");
    if (heads < 1) op.Fail("attribute num_heads is needed with an input of rank 3");
    x = Reshape(x, std::vector<int64_t>{0, 0, heads, -1});
  }
  cosine = Unsqueeze(cosine, {flat ? 2 : 1});
  sine = Unsqueeze(sine, {flat ? 2 : 1});

  const int64_t features = x.size(-1), end = INT64_MAX;
  int64_t turned = op.Int("rotary_embedding_dim");
  if (turned == 0) turned = features;
  Val first, second;
  if (op.Int("interleaved") != 0) {
    first = Slice(x, {0}, {turned}, {3}, {2});
    second = Slice(x, {1}, {turned}, {3}, {2});
  } else {
    first = Slice(x, {0}, {turned / 2}, {3});
    second = Slice(x, {turned / 2}, {turned}, {3});
  }
  const Val real = first * cosine - second * sine, imaginary = first * sine + second * cosine;
  Val y;
  if (op.Int("interleaved") != 0) {
    const Val pairs = Concat({Unsqueeze(real, {4}), Unsqueeze(imaginary, {4})}, 4);
    y = Reshape(pairs, std::vector<int64_t>{0, 0, 0, -1});
  } else {
    y = Concat({real, imaginary}, 3);
  }
  if (turned < features) y = Concat({y, Slice(x, {turned}, {end}, {3})}, 3);
  return flat ? Reshape(y, ShapeOf(op.in(0)), true) : y;
}

}  // namespace sardonyx::ops
