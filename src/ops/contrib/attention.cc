#include "ops/contrib/attention_parts.h"

namespace sardonyx::ops::contrib {
namespace {

std::vector<int64_t> HiddenSizes(const Lowering& op, Val weights, int64_t heads) {
  std::vector<int64_t> sizes = op.Ints("qkv_hidden_sizes");
  if (sizes.empty()) sizes.assign(3, weights.size(1) / 3);
  if (sizes.size() != 3) {
    op.Fail("attribute qkv_hidden_sizes has {} values, not 3", sizes.size());
  }
  for (const int64_t size : sizes) {
    if (size < 1 || size % heads != 0) op.Fail("{} heads cannot share {} features", heads, size);
  }
  if (sizes[0] != sizes[1]) op.Fail("queries and keys have {} and {} features", sizes[0], sizes[1]);
  return sizes;
}

}  // namespace

// Attention whose queries, keys and values are projections of one input, by weights side by side.
Outputs LowerAttention(Lowering& op) {
  const int64_t heads = HeadCount(op, "num_heads");
  if (op.Int("do_rotary") != 0) {
    op.Unsupported(
        "attribute do_rotary is set, whose angles the schema leaves open; use "
        "RotaryEmbedding and MultiHeadAttention");
  }
  const Val weights = op.in(1);
  Val projected = MatMul(op.in(0), weights);
  if (op.has(2)) projected = projected + op.in(2);
  const std::vector<Val> parts = Split(projected, HiddenSizes(op, weights, heads), 2);
  const Val q = SplitHeads(parts[0], heads), k = SplitHeads(parts[1], heads),
            v = SplitHeads(parts[2], heads);

  Val past_key, past_value, filled;
  if (op.has(4)) {
    const std::vector<Val> past = Split(op.in(4), {1, 1}, 0);
    past_key = Squeeze(past[0], {0});
    past_value = Squeeze(past[1], {0});
    if (op.Int("past_present_share_buffer") != 0) {
      if (!op.has(6)) op.Fail("past_present_share_buffer needs the input past_sequence_length");
      filled = op.in(6);
    }
  }
  const Cached keys = Append(past_key, k, filled), values = Append(past_value, v, filled);

  Scoring scoring{.scale = ScaleOf(op, q)};
  const auto add = [&](Val term) { scoring.bias = scoring.bias ? scoring.bias + term : term; };
  if (op.has(3)) add(KeyMask(op, op.in(3), q, keys.visible, op.Float("mask_filter_value", -10000)));
  if (op.has(5)) add(op.in(5));
  if (op.Int("unidirectional") != 0) {
    add(Causal(q, keys.visible, SizeOf(keys.visible, 2) - SizeOf(q, 2)));
  }
  const Val y = JoinHeads(Attend(op, q, keys.visible, values.visible, scoring).y);
  if (!op.wants(1)) return y;
  return {y, Concat({Unsqueeze(keys.present, {0}), Unsqueeze(values.present, {0})}, 0)};
}

}  // namespace sardonyx::ops::contrib
