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
  const auto [q, k, v] = Inputs(op, heads);
  if (op.has(6) != op.has(7)) op.Fail("past_key and past_value come together");
  const Val filled = op.in(8), beams = op.in(9);
  const Cached keys = Append(op, op.in(6), k, filled, beams),
               values = Append(op, op.in(7), v, filled, beams);

  Scoring scoring{.scale = ScaleOf(op, q)};
  scoring.bias = ScoreTerms(op, op.in(4), op.in(5), q, keys, keys.total - SizeOf(k, 2));
  const Attended result = Attend(op, q, keys.visible, values.visible, scoring);
  return {JoinHeads(result.y), keys.present, values.present, result.biased};
}

// The same of one token, with the inputs in another order. Queries, keys and values that lie side
// by side may have values of another size, which those of the past then tell.
Outputs LowerDecoderMaskedMultiHeadAttention(Lowering& op) {
  enum {
    kQuery,
    kKey,
    kValue,
    kMask,
    kTerms,
    kPastKey,
    kPastValue,
    kFilled,
    kWidth,
    kBeams,
    kBias
  };
  const Val query = op.in(kQuery);
  if (query.rank() != 3) op.Fail("query has rank {}, not 3", query.rank());
  const Dim tokens = query.shape()[1];
  if (tokens.known() && !(tokens == 1)) op.Fail("query has {} tokens, not 1", tokens.value());
  const bool shares = op.Int("past_present_share_buffer") != 0;
  if (shares && op.has(kPastKey) && !op.has(kFilled)) {
    op.Fail("past_present_share_buffer needs the input past_sequence_length");
  }
  if (op.has(kWidth) && op.in(kWidth).is_constant() && !op.has(kBeams)) {
    const std::vector<int64_t> width = op.in(kWidth).ints();
    if (width.size() != 1 || width[0] > 1) {
      op.Fail("beam_width is [{}], which needs cache_indirection", fmt::join(width, ", "));
    }
  }
  std::vector<Val> parts = {query, op.in(kKey), op.in(kValue)};
  if (!op.has(kKey)) {
    if (op.has(kValue)) op.Fail("value must be absent beside a packed query");
    const int64_t heads = HeadCount(op, "num_heads"), all = query.size(2);
    const int64_t of_values = op.has(kPastValue) ? op.in(kPastValue).size(3) * heads : all / 3;
    const int64_t each = (all - of_values) / 2;
    if (each < heads || each % heads != 0 || of_values % heads != 0 ||
        2 * each + of_values != all) {
      op.Fail("a packed query of {} features is not of {} heads with values of {}", all, heads,
              of_values);
    }
    parts = Split(query, {each, each, of_values}, 2);
  }
  op.inputs = {parts[0],        parts[1],          parts[2],
               op.in(kBias),    op.in(kMask),      op.in(kTerms),
               op.in(kPastKey), op.in(kPastValue), shares ? op.in(kFilled) : Val{},
               op.in(kBeams)};
  return LowerMultiHeadAttention(op);
}

}  // namespace sardonyx::ops::contrib
