#include "ops/contrib/standard.h"

namespace sardonyx::ops::contrib {

// The standard's, with position ids of one element for the position of the first token.
// `is_packed_batching` is about what sequences the positions belong to, which is in their values;
// `scale` has no effect in ONNX Runtime, nor here.
Outputs LowerRotaryEmbedding(Lowering& op) {
  const Val x = op.in(0), cosine = op.in(2);
  Val positions = op.in(1);
  const bool flat = x.rank() == 3;
  if (positions.rank() < 2) {
    const Val first = Reshape(positions, std::vector<int64_t>{1});
    positions = Unsqueeze(first + Positions(SizeOf(x, flat ? 1 : 2)), {0});
  }
  Attributes attributes{{"interleaved", op.Int("interleaved")}};
  int64_t turned = op.Int("rotary_embedding_dim");
  const int64_t heads = op.Int("num_heads");
  if (turned > 0 && heads < 1) op.Fail("rotary_embedding_dim needs the attribute num_heads");
  if (turned == 0) turned = 2 * cosine.size(1);
  attributes.Set("rotary_embedding_dim", turned);
  if (turned < 1) op.Fail("cos_cache has no columns");
  if (flat) attributes.Set("num_heads", heads > 0 ? heads : x.size(2) / turned);
  return Standard(op, "RotaryEmbedding", {x, cosine, op.in(3), positions}, attributes);
}

}  // namespace sardonyx::ops::contrib
