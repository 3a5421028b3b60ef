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

  const int64_t given = op.Int("rotary_embedding_dim"), turned = given == 0 ? x.size(-1) : given;
  const Val y = op.builder().Make(core::rotary, {x, cosine, sine},
                                  {{"turned", turned}, {"interleaved", op.Int("interleaved")}});
  return flat ? Reshape(y, ShapeOf(op.in(0)), true) : y;
}

}  // namespace sardonyx::ops
