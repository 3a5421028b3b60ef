#include "ops/contrib/encoder_decoder.h"

namespace sardonyx::ops::contrib {
namespace {

constexpr int64_t kAlone = 0, kEncoded = 1, kSpeech = 2;  // model_type
constexpr int64_t kTimestamps = 1;                        // logits_processor

BeamDecoder AsBeamDecoder(const Subgraph& decoder, bool reorders) {
  return {.call =
              [&decoder](LoopScope& scope, std::span<const Val> feeds) {
                return decoder.Call(scope, GptFeeds::Of(feeds).Arguments());
              },
          .next =
              [reorders](std::span<const Val> feeds, const BeamStep& step,
                         std::span<const Val> outputs) {
                std::vector<Val> presents(outputs.begin() + 1, outputs.end());
                for (Val& present : presents) {
                  if (reorders) present = Gather(present, step.rows, 1);
                }
                return NextFeeds(GptFeeds::Of(feeds), step.tokens, presents).States();
              }};
}

// Words but for padding before the first, of what an encoder reads.
Val MaskOfPrompts(Lowering& op, Val prompts) {
  Builder& b = op.builder();
  const Val is_word = Cast(Not(Equal(prompts, Padding(op, b))), DType::kInt32);
  const Val words =
      b.Make(core::cumulative, {is_word}, {{"kind", std::string("sum")}, {"axis", int64_t{1}}});
  return Cast(Greater(words, 0), DType::kInt32);
}

// What texts begin with [prompts,length], for a decoder apart: input 10 or one start token.
Val BeginOfTexts(Lowering& op) {
  Builder& b = op.builder();
  if (const Val given = op.in(10)) return given;
  const int64_t start = TokenAttribute(op, "decoder_start_token_id");
  if (start < 0) {
    op.Fail("decoder_start_token_id is {}, and there are no decoder_input_ids", start);
  }
  return Expand(b.Scalar(DType::kInt32, static_cast<double>(start)),
                Concat({SizeOf(op.in(0), 0), b.Ints({1})}, 0));
}

BeamSearchState SearchAlone(Lowering& op, const BeamRules& rules, const std::vector<Val>& captures,
                            Val max_length) {
  const auto for_each_beam = [&](Val x) { return x ? Repeat(x, 0, rules.beams) : x; };
  const Subgraph decoder = GptDecoder(op, "decoder", captures);
  const Subgraph first = GptDecoder(op, "init_decoder", captures);
  const Val texts = for_each_beam(op.in(0));
  BeamSearchState state{.beams = BeginBeams(op, rules, SizeOf(op.in(0), 0), texts),
                        .feeds = FirstFeeds(op, decoder, texts, for_each_beam(op.in(9))).States(),
                        .scores = {}};
  Val trips = max_length - SizeOf(texts, 1);
  if (first.body != nullptr) {
    CheckSameInputs(op, first, decoder);
    RunBeams(op, rules, AsBeamDecoder(first, rules.reorders()), op.builder().Ints({1}), op.wants(2),
             &state);
    trips = trips - 1;
  }
  RunBeams(op, rules, AsBeamDecoder(decoder, rules.reorders()), trips, op.wants(2), &state);
  return state;
}

// The type of scores that are given, which is that of the penalties and of the temperature.
DType TypeOfScores(Lowering& op) {
  for (const size_t i : {5, 6, 14}) {
    if (op.has(i)) return op.in(i).dtype();
  }
  return DType::kFloat32;
}

// How a search ended, of a model of that type, by rules of tokens which are more than those of all.
struct Results {
  std::vector<Val> outputs;
  Val logits;  // of the encoder, if it gives any
};

Results Search(Lowering& op, int64_t type, TokenRules more) {
  Builder& b = op.builder();
  const std::vector<Val> captures = TakeCaptures(op);
  CheckRank(op, 0, "input_ids", type == kSpeech ? 3 : 2);
  if (type != kSpeech) CheckRank(op, 9, "attention_mask", 2);
  CheckRank(op, 10, "decoder_input_ids", 2);
  BeamRules rules;
  rules.tokens = RulesOf(
      op, {.min_length = 2, .repetition_penalty = 6, .vocab_mask = 7, .prefix_vocab_mask = 8});
  rules.tokens.temperature = more.temperature;
  rules.tokens.timestamps = more.timestamps;
  rules.beams = CountOfTexts(op, 3, "num_beams", {});
  rules.length_penalty = Number(op, 5, "length_penalty", DType::kFloat32, {});
  rules.early_stopping = op.Int("early_stopping") != 0;
  if (rules.tokens.forbidden_first) {
    rules.tokens.forbidden_first = Repeat(rules.tokens.forbidden_first, 0, rules.beams);
  }
  const Val count = CountOfTexts(op, 4, "num_return_sequences", rules.beams);
  const Val begin = type == kAlone ? op.in(0) : BeginOfTexts(op);
  const Val max_length = MaxLength(op, begin.shape()[1]);
  BeamSearchState state;
  Results results;
  if (type == kAlone) {
    state = SearchAlone(op, rules, captures, max_length);
  } else {
    Val mask = op.in(9);
    if (type == kSpeech) mask = {};
    if (type == kEncoded && !mask) mask = MaskOfPrompts(op, op.in(0));
    EncodedSearch search = Encode(op, rules, captures, mask, begin, max_length, op.wants(2));
    RunBeams(op, rules, search.decoder, search.trips, op.wants(2), &search.state);
    state = search.state;
    results.logits = search.logits;
  }
  results.outputs = FinishBeams(op, rules, state.beams, max_length, count);
  if (op.wants(2)) {
    const Val missing = max_length - SizeOf(begin, 1) - SizeOf(state.scores, 0);
    results.outputs.push_back(b.Make(core::pad,
                                     {state.scores, Concat({b.Ints({0}), missing}, 0),
                                      b.Scalar(DType::kFloat32, 0), b.Ints({0})},
                                     {{"mode", std::string("constant")}}));
  }
  for (size_t i = 1; i < results.outputs.size(); ++i) {
    results.outputs[i] = Cast(results.outputs[i], TypeOfScores(op));
  }
  return results;
}

// The rules of timestamps, where the node asks for them or may.
std::optional<TimestampRules> Timestamps(Lowering& op) {
  const Val asked = Number(op, 11, "logits_processor", DType::kInt64, {1});
  if (!asked || (asked.is_constant() && asked.ints()[0] != kTimestamps)) return {};
  TimestampRules rules;
  if (!asked.is_constant()) rules.applies = Equal(asked, static_cast<double>(kTimestamps));
  rules.first = op.Int("beginning_timestamp_token_id", -1);
  if (rules.first <= 0) {
    if (rules.applies) return {};
    op.Fail("beginning_timestamp_token_id is {}, must be positive", rules.first);
  }
  rules.end = op.Int("eos_token_id");
  rules.start = op.Int("decoder_start_token_id", -1);
  rules.translate = op.Int("translate_token_id", -1);
  rules.transcribe = op.Int("transcribe_token_id", -1);
  rules.without = op.Int("no_timestamps_token_id", -1);
  rules.start_of_lm = op.Int("start_of_lm_token_id", -1);
  return rules;
}

}  // namespace

Outputs LowerBeamSearch(Lowering& op) {
  const int64_t type = op.Int("model_type");
  if (type != kAlone && type != kEncoded && type != kSpeech) {
    op.Fail("model_type is {}, must be 0 (a decoder), 1 (as T5) or 2 (as Whisper)", type);
  }
  const Val rules = Number(op, 11, "logits_processor", DType::kInt64, {1});
  if (type == kSpeech && rules && rules.is_constant() && rules.ints()[0] == kTimestamps) {
    op.Fail("logits_processor is 1: only WhisperBeamSearch tells which tokens are timestamps");
  }
  return Search(op, type, {}).outputs;
}

Outputs LowerWhisperBeamSearch(Lowering& op) {
  Builder& b = op.builder();
  if (op.Int("model_type") != kSpeech) {
    op.Fail("model_type is {}, must be 2", op.Int("model_type"));
  }
  if (op.wants(3) || op.Int("decoder_output_cross_qk") != 0) {
    op.Unsupported("the output cross_qk is not supported");
  }
  TokenRules more;
  more.temperature = Number(op, 14, "temperature", DType::kFloat32, {});
  more.timestamps = Timestamps(op);
  Results results = Search(op, kSpeech, more);
  if (op.wants(4)) {
    const int64_t token = op.Int("no_speech_token_id", -1);
    const Val probabilities = Softmax(LastScores(op, results.logits), 1);
    const Dim tokens = probabilities.shape()[1];
    if (token < 0 || (tokens.known() && token >= tokens.value())) {
      op.Fail("no_speech_token_id is {}, which is no token", token);
    }
    results.outputs.resize(5);
    const Val found = Gather(probabilities, b.Scalar(DType::kInt64, static_cast<double>(token)), 1);
    results.outputs[4] = Cast(found, TypeOfScores(op));
  }
  return results.outputs;
}

}  // namespace sardonyx::ops::contrib
