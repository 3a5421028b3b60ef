#include "ops/contrib/attention_parts.h"

namespace sardonyx::ops::contrib {
namespace {

// [batch,sequence,heads,count,size] -> count times [batch,heads,sequence,size].
std::vector<Val> Unpack(Val packed, int64_t count) {
  std::vector<Val> parts =
      Split(Transpose(packed, {3, 0, 2, 1, 4}), std::vector<int64_t>(count, 1), 0);
  for (Val& part : parts) part = Squeeze(part, {0});
  return parts;
}

struct Projected {
  Val q, k, v;
};

// Queries, keys and values of any layout, with their part of the bias. Keys that come as heads
// already are those of a cross attention's cache: nothing is to be added to them.
Projected Inputs(Lowering& op, int64_t heads) {
  const Val query = op.in(0), key = op.in(1), value = op.in(2), bias = op.in(3);
  const bool all_packed = query.rank() == 5;
  Projected result;
  bool biased = true;
  if (all_packed) {
    if (key || value) op.Fail("key and value must be absent beside a packed query");
    const std::vector<Val> parts = Unpack(query, 3);
    result = {parts[0], parts[1], parts[2]};
  } else {
    if (query.rank() != 3) op.Fail("query has rank {}, not 3 or 5", query.rank());
    if (!key) op.Fail("key is missing beside a query that is not packed");
    result.q = SplitHeads(query, heads);
    if (key.rank() == 5) {
      if (value) op.Fail("value must be absent beside a packed key");
      const std::vector<Val> parts = Unpack(key, 2);
      result.k = parts[0];
      result.v = parts[1];
    } else {
      if (!value) op.Fail("value is missing beside a key that is not packed");
      biased = key.rank() == 3;
      if (key.rank() != value.rank() || (!biased && key.rank() != 4)) {
        op.Fail("key and value have ranks {} and {}, not both 3 or 4", key.rank(), value.rank());
      }
      result.k = biased ? SplitHeads(key, heads) : key;
      result.v = biased ? SplitHeads(value, heads) : value;
    }
  }
  if (!bias) return result;
  const int64_t size = result.q.size(3) * heads;
  const std::vector<int64_t> sizes = {size, size, result.v.size(3) * heads};
  const std::vector<Val> parts = Split(bias, sizes, 0);
  const auto add = [&](Val* x, Val part) {
    *x = *x + Reshape(part, std::vector<int64_t>{heads, 1, -1});
  };
  add(&result.q, parts[0]);
  if (biased) {
    add(&result.k, parts[1]);
    add(&result.v, parts[2]);
  }
  return result;
}

}  // namespace

Outputs LowerMultiHeadAttention(Lowering& op) {
  const int64_t heads = HeadCount(op, "num_heads");
  if (op.has(9)) op.Unsupported("the input cache_indirection (beam search) is not implemented");
  const auto [q, k, v] = Inputs(op, heads);
  if (op.has(6) != op.has(7)) op.Fail("past_key and past_value come together");
  const Val filled = op.in(8);
  const Cached keys = Append(op.in(6), k, filled), values = Append(op.in(7), v, filled);

  Scoring scoring{.scale = ScaleOf(op, q)};
  const auto add = [&](Val term) { scoring.bias = scoring.bias ? scoring.bias + term : term; };
  if (op.has(4)) add(KeyMask(op, op.in(4), q, keys.visible, op.Float("mask_filter_value", -10000)));
  if (op.has(5)) add(op.in(5));
  if (op.Int("unidirectional") != 0) {
    add(Causal(q, keys.visible, SizeOf(keys.visible, 2) - SizeOf(k, 2)));
  }
  const Attended result = Attend(op, q, keys.visible, values.visible, scoring);
  return {JoinHeads(result.y), keys.present, values.present, result.biased};
}

}  // namespace sardonyx::ops::contrib
