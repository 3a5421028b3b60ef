#include <cmath>
#include <limits>

#include "ops/nn/attention.h"

namespace sardonyx::ops {

namespace {

constexpr double kNegativeInfinity = -std::numeric_limits<double>::infinity();

Val InHeads(const Lowering& op, Val x, std::string_view attribute) {
  const int64_t heads = op.Int(attribute);
  if (heads < 1) op.Fail("attribute {} is needed with inputs of rank 3", attribute);
  return SplitHeads(x, heads);
}

// The mask as numbers to add. Since version 24 its last axis is filled up with -infinity to the
// length of the keys; before that a mask could only be broadcast.
Val AdditiveMask(const Lowering& op, Val keys, DType type) {
  Val mask = op.in(3);
  mask = mask.dtype() == DType::kBool ? Hide(mask, type) : Cast(mask, type);
  if (op.version() < 24) return mask;
  const Val missing = SizeOf(keys, 2) - SizeOf(mask, -1);
  if (missing.is_constant() && missing.ints()[0] <= 0) return mask;
  Builder& b = *mask.builder;
  return b.Make(core::pad,
                {mask, Concat({b.Ints({0}), Max(missing, 0.0)}, 0),
                 b.Scalar(type, kNegativeInfinity), b.Ints({-1})},
                {{"mode", std::string("constant")}});
}

// Which keys j a query i may see: i + offset - left <= j <= i + offset + right. The offset is how
// many keys come before the queries: those of the past, or, for a cache that is filled from
// outside, a number for each batch element. Empty if all.
Val Visible(Lowering& op, Val queries, Val keys) {
  const bool causal = op.Int("is_causal") != 0;
  const int64_t left = op.Int("left_window_size", -1), right = op.Int("right_window_size", -1);
  if (!causal && left < 0 && right < 0) return Val{};
  const Val i = Unsqueeze(Positions(SizeOf(queries, 2)), {1});
  const Val j = Unsqueeze(Positions(SizeOf(keys, 2)), {0});
  Val ahead = j - i;  // how far the key is ahead of the query
  if (op.has(4)) {
    ahead = ahead - SizeOf(op.in(4), 2);
  } else if (op.has(6)) {
    const Val offset = Reshape(op.in(6), std::vector<int64_t>{-1, 1, 1, 1}) - SizeOf(queries, 2);
    ahead = ahead - offset;
  }
  Val seen;
  const auto also = [&](Val condition) { seen = seen ? And(seen, condition) : condition; };
  if (causal) also(LessEqual(ahead, 0.0));
  if (left >= 0) also(GreaterEqual(ahead, -static_cast<double>(left)));
  if (right >= 0) also(LessEqual(ahead, static_cast<double>(right)));
  return seen;
}

// What the schema cannot say.
void CheckAttention(const Lowering& op, bool flat) {
  if (op.has(4) != op.has(5)) op.Fail("past_key and past_value come together");
  if (op.has(4) && op.has(6)) op.Fail("nonpad_kv_seqlen has no meaning beside past_key");
  for (const char* side : {"left_window_size", "right_window_size"}) {
    if (op.Int(side, -1) < -1) op.Fail("attribute {} is {}, less than -1", side, op.Int(side));
  }
  if (!flat && op.version() >= 25 &&
      (op.HasAttribute("q_num_heads") || op.HasAttribute("kv_num_heads"))) {
    op.Fail("attributes q_num_heads and kv_num_heads are for inputs of rank 3");
  }
  const DType precision = op.DTypeAttribute("softmax_precision", DType::kFloat32);
  if (!IsPlainFloat(precision)) {
    op.Fail("attribute softmax_precision is {}, no type for it", op.Int("softmax_precision"));
  }
  const int64_t mode = op.Int("qk_matmul_output_mode");
  if (mode < 0 || mode > 3) op.Fail("attribute qk_matmul_output_mode is {}, not 0 to 3", mode);
}

}  // namespace

Outputs LowerAttention(Lowering& op) {
  Val q = op.in(0), k = op.in(1), v = op.in(2);
  const DType type = q.dtype();
  const bool flat = q.rank() == 3;
  if (!flat && q.rank() != 4) op.Fail("Q, K and V must have rank 3 or 4, not {}", q.rank());
  CheckAttention(op, flat);
  if (flat) {
    q = InHeads(op, q, "q_num_heads");
    k = InHeads(op, k, "kv_num_heads");
    v = InHeads(op, v, "kv_num_heads");
  }
  const double scale =
      op.HasAttribute("scale") ? op.Float("scale") : 1 / std::sqrt(static_cast<double>(q.size(3)));
  if (op.has(4)) k = Concat({op.in(4), k}, 2);
  if (op.has(5)) v = Concat({op.in(5), v}, 2);
  const Val present_key = k, present_value = v;

  Val bias;
  const auto add = [&](Val term) { bias = bias ? bias + term : term; };
  if (op.has(3)) add(AdditiveMask(op, k, type));
  if (const Val seen = Visible(op, q, k)) add(Hide(seen, type));
  if (op.has(6)) {
    const Val filled = Reshape(op.in(6), std::vector<int64_t>{-1, 1, 1, 1});
    add(Hide(Less(Positions(SizeOf(k, 2)), filled), type));
  }

  const Attended result = Attend(op, q, k, v,
                                 {.scale = scale,
                                  .softcap = op.Float("softcap"),
                                  .bias = bias,
                                  .precision = op.DTypeAttribute("softmax_precision", type)});
  const std::vector<Val> stages = {result.product, result.capped, result.biased, result.weights};
  return {flat ? JoinHeads(result.y) : result.y, present_key, present_value,
          stages[op.Int("qk_matmul_output_mode")]};
}

}  // namespace sardonyx::ops
