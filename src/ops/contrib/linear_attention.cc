#include <algorithm>

#include "ops/contrib/shapes.h"

namespace sardonyx::ops::contrib {
namespace {

enum Input : size_t { kQuery, kKey, kValue, kPast, kDecay, kBeta };

// What each token comes with; null where the rule needs none.
struct Tokens {
  Val q, k, v;
  Val decay{}, beta{};
};

Tokens Part(const Tokens& tokens, int64_t begin, int64_t end) {
  const auto cut = [&](Val x) { return x ? Slice(x, {begin}, {end}, {1}) : x; };
  return {cut(tokens.q), cut(tokens.k), cut(tokens.v), cut(tokens.decay), cut(tokens.beta)};
}

// [batch,tokens,heads * size] with each head `times` times in a row.
Val RepeatHeads(Val x, int64_t heads, int64_t times) {
  const int64_t features = x.size(2);
  if (features % heads != 0 || (features > 0 && times > INT64_MAX / features)) {
    Fail(ErrorCode::kInvalidModel, "{} features are not of {} heads, each {} times", features,
         heads, times);
  }
  const Val parts = Reshape(x, std::vector<int64_t>{0, 0, heads, features / heads});
  return Reshape(Repeat(parts, 2, x.builder->Ints({times})),
                 std::vector<int64_t>{0, 0, features * times});
}

}  // namespace

// As the standard's, and: there may be more heads of keys and values than of queries; keys may
// have fewer heads than values; and the states after each of the last `state_window` tokens may be
// asked for, of which the last is where the next call goes on.
Outputs LowerLinearAttention(Lowering& op) {
  Builder& b = op.builder();
  const int64_t window = op.Int("state_window");
  if (window < 0 || window > 8) op.Fail("attribute state_window is {}, not 0 to 8", window);
  const int64_t given = op.Int("q_num_heads"), heads = op.Int("kv_num_heads");
  const int64_t queries = std::max(given, heads);
  if (given < 1 || heads < 1 || queries % std::min(given, heads) != 0) {
    op.Fail("{} heads of queries and {} of keys and values: neither divides the other", given,
            heads);
  }
  const std::string rule = op.String("update_rule", "gated_delta");
  const bool gated = rule.starts_with("gated"), delta = rule.ends_with("delta");
  Tokens tokens{Widen(op.in(kQuery)), Widen(op.in(kKey)), Widen(op.in(kValue))};
  ExpectRank(op, tokens.q, "query", 3);
  ExpectRank(op, tokens.k, "key", 3);
  if (gated && op.has(kDecay)) tokens.decay = Widen(op.in(kDecay));
  if (delta && op.has(kBeta)) tokens.beta = Widen(op.in(kBeta));

  if (given < queries) tokens.q = RepeatHeads(tokens.q, given, queries / given);
  // Without a past nothing says of which type the state is, and so the node cannot wait for sizes:
  // then keys have as many heads as values.
  const Dim features = tokens.q.shape()[2], width = tokens.k.shape()[2];
  if (op.has(kPast) || (features.known() && width.known())) {
    const int64_t size = tokens.q.size(2) / queries, keys = size > 0 ? tokens.k.size(2) / size : 0;
    if (keys > 0 && keys * size == tokens.k.size(2) && keys < heads && heads % keys == 0) {
      tokens.k = RepeatHeads(tokens.k, keys, heads / keys);
    }
  }
  Val state = op.has(kPast) ? Widen(op.in(kPast)) : Val{};
  if (state) {
    ExpectRank(op, state, "past_state", window > 0 ? 5 : 4);
    if (window > 0) {
      if (state.size(0) != window) {
        op.Fail("past_state has {} states, not state_window = {}", state.size(0), window);
      }
      state = Squeeze(Slice(state, {-1}, {INT64_MAX}, {0}), {0});
    }
  }

  const Attributes attributes{{"q_num_heads", queries},
                              {"kv_num_heads", heads},
                              {"scale", op.Float("scale")},
                              {"update_rule", rule}};
  std::vector<Val> outputs, states;
  const auto run = [&](const Tokens& part) {
    const std::vector<Val> results =
        b.MakeMany(core::linear_attention, {part.q, part.k, part.v, state, part.decay, part.beta},
                   attributes, 2);
    outputs.push_back(results[0]);
    state = results[1];
    states.push_back(Unsqueeze(state, {0}));
  };
  // All tokens but the last few at once.
  const int64_t asked = window > 1 ? std::clamp<int64_t>(tokens.q.size(1), 1, window) : 1;
  if (asked == 1) {
    run(tokens);
  } else {
    const int64_t first = tokens.q.size(1) - asked + 1;
    run(Part(tokens, 0, first));
    for (int64_t t = first; t < first + asked - 1; ++t) run(Part(tokens, t, t + 1));
  }
  if (asked < window) {
    const Val shape = Concat({b.Ints({window - asked}), ShapeOf(state)}, 0);
    states.insert(states.begin(), Filled(shape, MakeFilled(DType::kFloat32, {1}, 0)));
  }
  if (window > 0) state = states.size() > 1 ? Concat(states, 0) : states[0];
  const Val y = outputs.size() > 1 ? Concat(outputs, 1) : outputs[0];
  return {CastLike(y, op.in(kQuery)), CastLike(state, op.in(op.has(kPast) ? kPast : kQuery))};
}

}  // namespace sardonyx::ops::contrib
