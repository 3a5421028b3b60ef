#include "ops/contrib/next_token.h"

#include <limits>

namespace sardonyx::ops::contrib {
namespace {

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
constexpr double kLowest = std::numeric_limits<float>::lowest();
constexpr int64_t kMaxNgram = 256;  // each token of one is a comparison

// How many tokens there are, as far as that is known.
Dim TokenCount(Lowering& op) {
  if (const int64_t given = op.Int("vocab_size"); given > 0) return given;
  const auto decoder = op.attributes.Body("decoder");
  if (decoder != nullptr && !decoder->outputs.empty()) {
    const Fact& logits = decoder->outputs[0]->fact;
    if (logits.ranked() && logits.rank() == 3) return (*logits.shape)[2];
  }
  return op.builder().symbols().Fresh();
}

// An n-gram of which the first n - 1 tokens are the last ones of the text is not to end as it does.
Val WithoutRepeats(Val scores, Val texts, int64_t n) {
  const Val ends = Slice(texts, {n - 1}, {kEnd}, {1});
  const Val here = GatherElements(scores, ends, 1);
  const Val lowest = scores.builder->Scalar(DType::kFloat32, kLowest);
  Val repeats;
  for (int64_t i = 0; i < n - 1; ++i) {
    const int64_t from_end = i - (n - 1);
    const int64_t next = from_end + 1 < 0 ? from_end + 1 : kEnd;
    const Val equal =
        Equal(Slice(texts, {i}, {from_end}, {1}), Slice(texts, {from_end}, {next}, {1}));
    repeats = repeats ? And(repeats, equal) : equal;
  }
  // A token may end several n-grams: one that repeats is enough.
  const Val updates = repeats ? Where(repeats, lowest, here) : Min(here, lowest);
  return scores.builder->Make(core::scatter_elements, {scores, ends, updates},
                              {{"axis", int64_t{1}}, {"reduction", std::string("min")}});
}

}  // namespace

TokenRules TokenRules::Inside(LoopScope& scope) const {
  TokenRules inside = *this;
  for (Val* value : {&inside.repetition_penalty, &inside.forbidden, &inside.forbidden_first,
                     &inside.min_length, &inside.temperature, &inside.penalties}) {
    *value = scope.Outside(*value);
  }
  if (inside.timestamps) inside.timestamps->applies = scope.Outside(timestamps->applies);
  return inside;
}

TokenRules RulesOf(Lowering& op, const RuleInputs& inputs) {
  TokenRules rules;
  rules.repetition_penalty =
      Number(op, inputs.repetition_penalty, "repetition_penalty", DType::kFloat32, {});
  if (rules.repetition_penalty && rules.repetition_penalty.is_constant()) {
    const double penalty = rules.repetition_penalty.doubles().at(0);
    if (!(penalty > 0)) op.Fail("repetition_penalty is {}, must be positive", penalty);
    if (penalty == 1) rules.repetition_penalty = {};
  }
  rules.no_repeat_ngram_size = std::max<int64_t>(op.Int("no_repeat_ngram_size"), 0);
  if (rules.no_repeat_ngram_size > kMaxNgram) {
    op.Unsupported("no_repeat_ngram_size is {}, at most {} is supported",
                   rules.no_repeat_ngram_size, kMaxNgram);
  }
  if (op.has(inputs.vocab_mask)) {
    rules.forbidden = Equal(TokenMask(op, inputs.vocab_mask, "vocab_mask", false), 0);
  }
  if (op.has(inputs.prefix_vocab_mask)) {
    rules.forbidden_first =
        Equal(TokenMask(op, inputs.prefix_vocab_mask, "prefix_vocab_mask", true), 0);
  }
  rules.min_length = Number(op, inputs.min_length, "min_length", DType::kInt64, {1});
  rules.end = TokenAttribute(op, "eos_token_id");
  return rules;
}

int64_t TokenAttribute(Lowering& op, std::string_view name) {
  const int64_t token = op.Int(name, -1);
  if (token != static_cast<int32_t>(token)) op.Fail("{} is {}, which is no int32", name, token);
  return token;
}

void CheckRank(Lowering& op, size_t input, std::string_view name, int rank) {
  const Val x = op.in(input);
  if (x && x.rank() != rank) op.Fail("{} has rank {}, expected {}", name, x.rank(), rank);
}

Val Number(Lowering& op, size_t input, std::string_view name, DType type,
           const std::vector<int64_t>& dims) {
  const Val x = op.in(input);
  if (!x) return {};
  if (x.ranked()) {
    for (const Dim dim : x.shape()) {
      if (x.rank() > 1 || (dim.known() && !(dim == 1))) {
        op.Fail("{} must be one number, has rank {} and {} elements along axis 0", name, x.rank(),
                op.builder().symbols().Print(dim));
      }
    }
  }
  return Cast(Reshape(x, dims), type);
}

Val MaxLength(Lowering& op, Dim begin) {
  const Val length = Number(op, 1, "max_length", DType::kInt64, {1});
  if (!length) op.Fail("the input max_length is missing");
  if (length.is_constant() && begin.known() && length.ints()[0] <= begin.value()) {
    op.Fail("max_length is {}, must be more than the {} tokens that texts begin with",
            length.ints()[0], begin.value());
  }
  return length;
}

Val TokenMask(Lowering& op, size_t input, std::string_view name, bool for_each_prompt) {
  const Val mask = op.in(input);
  Dims wanted{TokenCount(op)};
  if (for_each_prompt) wanted.insert(wanted.begin(), op.in(0).shape().at(0));
  CheckRank(op, input, name, static_cast<int>(wanted.size()));
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Dim found = mask.shape()[i];
    if (found.known() && wanted[i].known() && !(found == wanted[i])) {
      op.Fail("{} has {} elements along axis {}, expected {}", name, found.value(), i,
              wanted[i].value());
    }
  }
  return mask;
}

Val LastScores(Lowering& op, Val logits) {
  if (logits.rank() != 3) op.Fail("logits have rank {}, expected 3", logits.rank());
  Val scores = Squeeze(Slice(logits, {-1}, {kEnd}, {1}), {1});
  const int64_t count = op.Int("vocab_size");
  const Dim tokens = scores.shape()[1];
  if (count > 0 && !(tokens == count)) {
    if (tokens.known() && tokens.value() < count) {
      op.Fail("vocab_size is {}, but logits are of {} tokens", count, tokens.value());
    }
    scores = Slice(scores, {0}, {count}, {1});
  }
  return Cast(scores, DType::kFloat32);
}

Val Apply(const TokenRules& rules, Val scores, Val texts, Val is_first) {
  const Val lowest = scores.builder->Scalar(DType::kFloat32, kLowest);
  if (const Val penalty = rules.repetition_penalty) {
    const Val here = GatherElements(scores, texts, 1);
    const Val penalised = Where(Less(here, 0), here * penalty, here / penalty);
    scores = ScatterElements(scores, texts, penalised, 1);
  }
  if (rules.no_repeat_ngram_size > 0) {
    scores = WithoutRepeats(scores, texts, rules.no_repeat_ngram_size);
  }
  if (rules.forbidden) scores = Where(rules.forbidden, lowest, scores);
  if (rules.forbidden_first) {
    scores = Where(And(rules.forbidden_first, is_first), lowest, scores);
  }
  if (rules.min_length) {
    const Val is_short = Less(SizeOf(texts, 1), rules.min_length);
    const Val is_end = Equal(Positions(SizeOf(scores, 1)), static_cast<double>(rules.end));
    scores = Where(And(is_end, is_short), lowest, scores);
  }
  if (rules.temperature) scores = scores / rules.temperature;
  if (rules.penalties) scores = scores - rules.penalties;
  if (rules.timestamps) scores = WithTimestamps(*rules.timestamps, scores, texts);
  return scores;
}

Val Padding(Lowering& op, Builder& builder) {
  return builder.Scalar(DType::kInt32, static_cast<double>(TokenAttribute(op, "pad_token_id")));
}

// Not by `pad`, which would cut off tokens where a length that only a run knows is too short.
Val Padded(Lowering& op, Val texts, Val length) {
  const int last = texts.rank() - 1;
  const Val missing = length - SizeOf(texts, last);
  const Val shape = Concat({ShapeOf(texts, 0, last), missing}, 0);
  return Concat({texts, Filled(shape, Padding(op, *texts.builder).constant())}, last);
}

Val Stacked(Val first, Val later) {
  const Val shape = Concat({SizeOf(later, 0), ShapeOf(first, 1, first.rank())}, 0);
  return Concat({first, Reshape(later, shape, true)}, 0);
}

Val Any(Val x) { return Greater(ReduceAll("sum", Cast(x, DType::kInt64), false), 0); }

}  // namespace sardonyx::ops::contrib
