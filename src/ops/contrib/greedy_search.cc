#include <functional>

#include "ops/contrib/gpt_decoder.h"

namespace sardonyx::ops::contrib {
namespace {

// The next token [rows,1] by its score, int64, and what is to be stacked for it.
struct Choice {
  Val token;
  std::vector<Val> stacked;
};
using Choose = std::function<Choice(LoopScope&, Val scores)>;

struct Search {
  Lowering& op;
  const TokenRules& rules;
  const Choose& choose;
};

// Runs a decoder for at most `trips` tokens. States: sequences [rows,length], whether rows have
// ended [rows,1], whether any has not, feeds.
std::vector<Val> Extend(const Search& search, const Subgraph& decoder, Val trips,
                        const std::vector<Val>& states, bool from_prompts) {
  Lowering& op = search.op;
  return MakeLoop(op.builder(), trips, states[2], states, [&](LoopScope& scope) -> LoopStep {
    Builder& b = scope.builder();
    const Val sequences = scope.states()[0], ended = scope.states()[1];
    const GptFeeds feeds = GptFeeds::Of(std::span(scope.states()).subspan(3));
    const std::vector<Val> found = decoder.Call(scope, feeds.Arguments());
    const Val is_first = from_prompts ? Equal(scope.iteration(), 0) : b.Scalar(DType::kBool, 0);
    const Val scores =
        Apply(search.rules.Inside(scope), LastScores(op, found[0]), sequences, is_first);
    const Choice choice = search.choose(scope, scores);
    const Val ends = Or(ended, Equal(choice.token, static_cast<double>(search.rules.end)));
    const Val token = Where(ends, Padding(op, b), Cast(choice.token, DType::kInt32));
    const Val goes_on = Any(Not(ends));
    std::vector<Val> next{Concat({sequences, token}, 1), ends, goes_on};
    for (const Val& state : NextFeeds(feeds, token, std::span(found).subspan(1)).States()) {
      next.push_back(state);
    }
    return {.goes_on = goes_on, .states = std::move(next), .stacked = choice.stacked};
  });
}

// As many calls of the decoder as there are tokens to make, the first for the whole prompt. Where
// all texts have ended before, the rest is padding.
std::vector<Val> LowerSearch(Lowering& op, const std::vector<Val>& captures,
                             const TokenRules& rules, const Choose& choose) {
  Builder& b = op.builder();
  if (const int64_t type = op.Int("model_type"); type != 0) {
    op.Unsupported("model_type is {}, only 0 is supported: a decoder alone", type);
  }
  const Subgraph decoder = GptDecoder(op, "decoder", captures);
  const Subgraph first = GptDecoder(op, "init_decoder", captures);
  const Val prompts = op.in(0);
  const Val max_length = MaxLength(op, prompts.shape()[1]);
  const Val rows = SizeOf(prompts, 0);
  Val trips = max_length - SizeOf(prompts, 1);
  const Val ended = Expand(b.Scalar(DType::kBool, 0), Concat({rows, b.Ints({1})}, 0));
  std::vector<Val> states{prompts, ended, b.Scalar(DType::kBool, 1)};
  for (const Val& state : FirstFeeds(op, decoder, prompts, op.in(6)).States()) {
    states.push_back(state);
  }
  const Search search{.op = op, .rules = rules, .choose = choose};
  std::vector<Val> stacked;
  if (first.body != nullptr) {
    CheckSameInputs(op, first, decoder);
    const size_t count = states.size();
    states = Extend(search, first, b.Ints({1}), states, true);
    stacked.assign(states.begin() + count, states.end());
    states.resize(count);
    trips = trips - 1;
  }
  const size_t count = states.size();
  std::vector<Val> results = Extend(search, decoder, trips, states, first.body == nullptr);
  std::vector<Val> outputs{Padded(op, results[0], max_length)};
  for (size_t i = count; i < results.size(); ++i) {
    const Val part = results[i];
    outputs.push_back(stacked.empty() ? part : Stacked(stacked[i - count], part));
  }
  return outputs;
}

// Scores of which those of tokens that are too unlikely are `filter_value`: in the order of their
// probabilities, all but the most likely that add up to top_p.
Val Filtered(Lowering& op, Val scores) {
  Builder& b = *scores.builder;
  const double top_p = op.Float("top_p");
  const bool descending = op.Int("custom") != 0;
  const Val tokens = SizeOf(scores, 1);
  const std::vector<Val> sorted = b.MakeMany(
      core::topk, {scores, tokens}, {{"axis", int64_t{1}}, {"largest", int64_t{descending}}}, 2);
  const Val sums = b.Make(
      core::cumulative, {Softmax(sorted[0], 1)},
      {{"kind", std::string("sum")}, {"axis", int64_t{1}}, {"exclusive", int64_t{descending}}});
  Val filtered;
  if (descending) {
    filtered = Greater(sums, top_p);
  } else {
    const Val kept = tokens - static_cast<double>(op.Int("min_tokens_to_keep"));
    filtered = And(LessEqual(sums, 1 - top_p), Less(Positions(tokens), Max(kept, 1)));
  }
  const Val value = b.Scalar(DType::kFloat32, op.Float("filter_value"));
  return ScatterElements(scores, sorted[1], Where(filtered, value, sorted[0]), 1);
}

// Numbers in [0,1), one a row: drawn, or by the generator SplitMix64 from seed, iteration and row.
Val Uniform(LoopScope& scope, Val rows, Val seed) {
  Builder& b = scope.builder();
  const Val shape = Concat({rows, b.Ints({1})}, 0);
  if (!seed) {
    return b.Make(core::random, {shape},
                  {{"kind", std::string("uniform")},
                   {"dtype", static_cast<int64_t>(DType::kFloat32)},
                   {"scale", 1.0},
                   {"offset", 0.0}});
  }
  const auto constant = [&](uint64_t value) { return b.Constant(MakeScalar(value)); };
  const Val row = Cast(Reshape(Positions(rows), shape), DType::kUInt64);
  Val x = (seed * constant(0xd1342543de82ef95) + Cast(scope.iteration(), DType::kUInt64)) *
              constant(0x2545f4914f6cdd1d) +
          row;
  x = x * constant(0x9e3779b97f4a7c15);
  x = BitXor(x, ShiftRight(x, constant(30))) * constant(0xbf58476d1ce4e5b9);
  x = BitXor(x, ShiftRight(x, constant(27))) * constant(0x94d049bb133111eb);
  x = BitXor(x, ShiftRight(x, constant(31)));
  return Cast(ShiftRight(x, constant(40)), DType::kFloat32) * 0x1p-24;
}

// The token at which the sum of probabilities passes a uniform number.
Val Draw(Val scores, Val uniform) {
  const Val sums = scores.builder->Make(core::cumulative, {Softmax(scores, 1)},
                                        {{"kind", std::string("sum")}, {"axis", int64_t{1}}});
  const Val all = Slice(sums, {-1}, {std::numeric_limits<int64_t>::max()}, {1});
  const Val passed = Cast(LessEqual(sums, uniform * all), DType::kInt64);
  const Val last = SizeOf(scores, 1) - 1;
  return Min(Reduce("sum", passed, {1}, true), last);
}

// What both searches have at the same places.
TokenRules CommonRules(Lowering& op) {
  CheckRank(op, 0, "input_ids", 2);
  CheckRank(op, 6, "attention_mask", 2);
  return RulesOf(
      op, {.min_length = 2, .repetition_penalty = 3, .vocab_mask = 4, .prefix_vocab_mask = 5});
}

}  // namespace

Outputs LowerGreedySearch(Lowering& op) {
  const std::vector<Val> captures = TakeCaptures(op);
  const TokenRules rules = CommonRules(op);
  return LowerSearch(op, captures, rules, [](LoopScope& scope, Val scores) -> Choice {
    return {.token = scope.builder().Make(
                core::arg_reduce, {scores},
                {{"kind", std::string("argmax")}, {"axis", int64_t{1}}, {"keepdims", int64_t{1}}}),
            .stacked = {}};
  });
}

Outputs LowerSampling(Lowering& op) {
  Builder& b = op.builder();
  const std::vector<Val> captures = TakeCaptures(op);
  TokenRules rules = CommonRules(op);
  const double temperature = op.Float("temperature"), top_p = op.Float("top_p");
  if (!(top_p >= 0)) op.Fail("top_p is {}, must not be negative", top_p);
  if (temperature > 0 && temperature != 1) {
    rules.temperature = b.Scalar(DType::kFloat32, temperature);
  }
  if (op.has(7) && op.Float("presence_penalty") != 0) {
    rules.penalties = Cast(TokenMask(op, 7, "presence_mask", true), DType::kFloat32) *
                      op.Float("presence_penalty");
  }
  const Val seed = Number(op, 8, "seed", DType::kUInt64, {});
  const bool wants_filtered = op.wants(1);
  std::vector<Val> outputs =
      LowerSearch(op, captures, rules, [&](LoopScope& scope, Val scores) -> Choice {
        const Val filtered = Filtered(op, scores);
        const Val uniform = Uniform(scope, SizeOf(scores, 0), scope.Outside(seed));
        Choice choice{.token = Draw(filtered, uniform), .stacked = {}};
        if (wants_filtered) choice.stacked.push_back(filtered);
        return choice;
      });
  // Of the last step, as only that is still of use.
  if (wants_filtered) {
    outputs[1] = Gather(outputs[1], b.Scalar(DType::kInt64, -1), 0);
  }
  return outputs;
}

}  // namespace sardonyx::ops::contrib
