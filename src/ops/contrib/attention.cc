#include "ops/contrib/attention_parts.h"
#include "ops/nn/quantized_product.h"

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

// A scale or zero point must have one element, or one for each of the columns.
void CheckParameter(const Lowering& op, std::string_view name, Val parameter, Dim columns) {
  if (!parameter || parameter.rank() == 0) return;
  const Dim count = parameter.rank() == 1 ? parameter.shape()[0] : Dim(0);
  if (!count.known() || count == 1 || !columns.known() || count == columns) return;
  op.Fail("{} has rank {} and {} elements, expected one{}", name, parameter.rank(), count.value(),
          columns == 1 ? "" : fmt::format(" or {}", columns.value()));
}

// What the two operators differ in: the projected queries, keys and values side by side, and where
// the other inputs stand.
struct Projection {
  Val weights = {}, projected = {};
  Val mask = {}, past = {}, filled = {}, bias = {};  // absent where the operator has none
};

Outputs AttendTo(Lowering& op, const Projection& given) {
  const int64_t heads = HeadCount(op, "num_heads");
  if (op.Int("do_rotary") != 0) {
    op.Unsupported(
        "attribute do_rotary is set, whose angles the schema leaves open; use "
        "RotaryEmbedding and MultiHeadAttention");
  }
  const std::vector<Val> parts = Split(given.projected, HiddenSizes(op, given.weights, heads), 2);
  const Val q = SplitHeads(parts[0], heads), k = SplitHeads(parts[1], heads),
            v = SplitHeads(parts[2], heads);

  Val past_key, past_value;
  if (given.past) {
    const std::vector<Val> past = Split(given.past, {1, 1}, 0);
    past_key = Squeeze(past[0], {0});
    past_value = Squeeze(past[1], {0});
  }
  const Cached keys = Append(op, past_key, k, given.filled),
               values = Append(op, past_value, v, given.filled);

  Scoring scoring{.scale = ScaleOf(op, q)};
  scoring.bias = ScoreTerms(op, given.mask, given.bias, q, keys, keys.total - SizeOf(k, 2));
  const Val y = JoinHeads(Attend(op, q, keys.visible, values.visible, scoring).y);
  if (!op.wants(1)) return y;
  return {y, Concat({Unsqueeze(keys.present, {0}), Unsqueeze(values.present, {0})}, 0)};
}

}  // namespace

// Attention whose queries, keys and values are projections of one input, by weights side by side.
Outputs LowerAttention(Lowering& op) {
  Projection given{.weights = op.in(1), .mask = op.in(3), .past = op.in(4), .bias = op.in(5)};
  if (op.has(4) && op.Int("past_present_share_buffer") != 0) {
    if (!op.has(6)) op.Fail("past_present_share_buffer needs the input past_sequence_length");
    given.filled = op.in(6);
  }
  given.projected = MatMul(op.in(0), given.weights);
  if (op.has(2)) given.projected = given.projected + op.in(2);
  return AttendTo(op, given);
}

// The same of bytes. Scale and zero point of the weights belong to all or to each column.
Outputs LowerQAttention(Lowering& op) {
  const Val x = op.in(0), bias = op.in(2), x_scale = op.in(3), x_zero = op.in(6);
  Projection given{.weights = op.in(1), .mask = op.in(5), .past = op.in(8)};
  if (op.Int("past_present_share_buffer") != 0) {
    op.Unsupported(
        "attribute past_present_share_buffer is set, but no input tells how much of it is filled");
  }
  if (x.rank() != 3 || given.weights.rank() != 2) {
    op.Fail("input and weight have ranks {} and {}, not 3 and 2", x.rank(), given.weights.rank());
  }
  CheckParameter(op, "input_scale", x_scale, Dim(1));
  CheckParameter(op, "input_zero_point", x_zero, Dim(1));
  const Dim columns = given.weights.shape()[1];
  CheckParameter(op, "weight_scale", op.in(4), columns);
  CheckParameter(op, "weight_zero_point", op.in(7), columns);
  const Val product = MultiplyMatrices({x, x_zero}, {given.weights, op.in(7)});
  const Val real = Scaled(product, Widen(x_scale) * Widen(op.in(4))) + Widen(bias);
  given.projected = Cast(real, bias.dtype());
  return AttendTo(op, given);
}

}  // namespace sardonyx::ops::contrib
