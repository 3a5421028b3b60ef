#include "ops/contrib/beams.h"

#include <limits>

namespace sardonyx::ops::contrib {

BeamRules BeamRules::Inside(LoopScope& scope) const {
  return {.tokens = tokens.Inside(scope),
          .beams = scope.Outside(beams),
          .length_penalty = scope.Outside(length_penalty),
          .early_stopping = early_stopping};
}

std::vector<Val> Beams::States() const {
  return {texts, sums, ended, ended_scores, ended_count, done, goes_on};
}

Beams Beams::Of(std::span<const Val> states) {
  return {states[0], states[1], states[2], states[3], states[4], states[5], states[6]};
}

namespace {

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

// Sums of logarithms [prompts,beams] to scores of texts of that length [1].
Val Score(const BeamRules& rules, Val sums, Val length) {
  const Val size = Cast(length, DType::kFloat32);
  return sums / (rules.length_penalty ? Pow(size, rules.length_penalty) : size);
}

// The rows [prompts,count] of [prompts,any,length].
Val Rows(Val x, Val indices) {
  Builder& b = *x.builder;
  const Val length = SizeOf(x, 2);
  const Val flat = Reshape(x, Concat({b.Ints({-1}), length}, 0));
  const Val starts = Unsqueeze(Positions(SizeOf(x, 0)), {1}) * SizeOf(x, 1);
  return Gather(flat, indices + starts, 0);
}

// The texts that have ended, and candidates [prompts,beams,length] with their scores where `valid`
// [prompts,beams]: the best of all, of equal ones those that came first.
Beams WithEnded(Beams beams, const BeamRules& rules, Val candidates, Val scores, Val valid) {
  Builder& b = *scores.builder;
  // A score that is no number any more is still better than none.
  const Val known = Max(scores, static_cast<double>(std::numeric_limits<float>::lowest()));
  const Val none = b.Scalar(DType::kFloat32, -std::numeric_limits<double>::infinity());
  const Val all = Concat({beams.ended_scores, Where(valid, known, none)}, 1);
  const std::vector<Val> best = b.MakeMany(core::topk, {all, rules.beams},
                                           {{"axis", int64_t{1}}, {"largest", int64_t{1}}}, 2);
  beams.ended = Rows(Concat({beams.ended, candidates}, 1), best[1]);
  beams.ended_scores = best[0];
  const Val added = Reduce("sum", Cast(valid, DType::kInt64), {1}, true);
  beams.ended_count = Min(beams.ended_count + added, rules.beams);
  return beams;
}

}  // namespace

BeamStep StepBeams(Lowering& op, const BeamRules& rules, const Beams& before, Val logits,
                   Val is_first) {
  Builder& b = *logits.builder;
  const Val prompts = SizeOf(before.sums, 0), length = SizeOf(before.texts, 1);
  const Val by_row = b.Ints({-1, 1});
  Val scores = Softmax(LastScores(op, logits), -1, true);
  scores = Apply(rules.tokens, scores, before.texts, is_first) + Reshape(before.sums, by_row);
  const Val tokens = SizeOf(scores, 1);
  BeamStep step;
  step.scores = Reshape(scores, Concat({prompts, rules.beams, tokens}, 0));
  // Twice as many as beams: each of these may end once.
  const std::vector<Val> best = b.MakeMany(
      core::topk, {Reshape(scores, Concat({prompts, rules.beams * tokens}, 0)), rules.beams * 2},
      {{"axis", int64_t{1}}, {"largest", int64_t{1}}}, 2);
  const Val beam = best[1] / tokens, token = best[1] - beam * tokens;
  const Val ends = Equal(token, static_cast<double>(rules.tokens.end));
  const Val position = Positions(rules.beams * 2);
  const Val among_best = Less(position, rules.beams);

  const Val old_texts = Reshape(before.texts, Concat({prompts, rules.beams, length}, 0));
  const std::vector<Val> first = b.MakeMany(
      core::split, {beam, Concat({rules.beams, rules.beams}, 0)}, {{"axis", int64_t{1}}}, 2);
  const Val zero = b.Ints({0}), one = b.Ints({1});
  const auto begin = [&](Val x) { return b.Make(core::slice, {x, zero, rules.beams, one}); };
  const Val valid = And(begin(And(ends, among_best)), Not(before.done));
  Beams next = WithEnded(before, rules, Rows(old_texts, first[0]),
                         Score(rules, begin(best[0]), length), valid);
  const Val full = Equal(next.ended_count, rules.beams);
  if (rules.early_stopping) {
    next.done = Or(before.done, full);
  } else {
    const Val worst = Slice(next.ended_scores, {-1}, {kEnd}, {1});
    const Val hope = Score(rules, Slice(best[0], {0}, {1}, {1}), length);
    next.done = Or(before.done, And(full, Not(Less(worst, hope))));
  }
  next.goes_on = Any(Not(next.done));

  // The best that do not end, in their order.
  const Val order = position + Cast(ends, DType::kInt64) * (rules.beams * 2);
  const Val kept = b.MakeMany(core::topk, {order, rules.beams},
                              {{"axis", int64_t{1}}, {"largest", int64_t{0}}}, 2)[1];
  const Val rows = GatherElements(beam, kept, 1) + Unsqueeze(Positions(prompts), {1}) * rules.beams;
  step.rows = Reshape(rows, b.Ints({-1}));
  const Val chosen = Cast(GatherElements(token, kept, 1), DType::kInt32);
  step.tokens = Reshape(Where(before.done, Padding(op, b), chosen), by_row);
  next.sums = GatherElements(best[0], kept, 1);
  next.sums = Where(before.done, b.Scalar(DType::kFloat32, 0), next.sums);
  next.texts = Concat({Gather(before.texts, step.rows, 0), step.tokens}, 1);
  next.ended = Padded(op, next.ended, length + 1);
  step.beams = next;
  return step;
}

// Begins with texts [prompts*beams,length]. But for the first, beams of a prompt have no chance in
// the first step, in which all are the same.
Beams BeginBeams(Lowering& op, const BeamRules& rules, Val prompts, Val texts) {
  Builder& b = op.builder();
  const Val shape = Concat({prompts, rules.beams}, 0);
  const Val each = Concat({prompts, b.Ints({1})}, 0);
  const Val later = Greater(Positions(rules.beams), 0);
  const auto scalar = [&](DType type, double value) { return b.Scalar(type, value); };
  Beams beams;
  beams.texts = texts;
  beams.sums =
      Expand(Where(later, scalar(DType::kFloat32, -1e9), scalar(DType::kFloat32, 0)), shape);
  beams.ended = Expand(Padding(op, b), Concat({shape, SizeOf(texts, 1)}, 0));
  beams.ended_scores =
      Expand(scalar(DType::kFloat32, -std::numeric_limits<double>::infinity()), shape);
  beams.ended_count = Expand(scalar(DType::kInt64, 0), each);
  beams.done = Expand(scalar(DType::kBool, 0), each);
  beams.goes_on = scalar(DType::kBool, 1);
  return beams;
}

std::vector<Val> FinishBeams(Lowering& op, const BeamRules& rules, Beams beams, Val max_length,
                             Val count) {
  Builder& b = op.builder();
  const Val length = SizeOf(beams.texts, 1);
  const Val texts = Reshape(beams.texts, Concat({SizeOf(beams.sums, 0), rules.beams, length}, 0));
  beams = WithEnded(beams, rules, texts, Score(rules, beams.sums, length),
                    Expand(Not(beams.done), ShapeOf(beams.sums)));
  const Val zero = b.Ints({0}), one = b.Ints({1});
  const auto begin = [&](Val x) { return b.Make(core::slice, {x, zero, count, one}); };
  return {Padded(op, begin(beams.ended), max_length), begin(beams.ended_scores)};
}

Val CountOfTexts(Lowering& op, size_t i, std::string_view name, Val most) {
  const Val count = Number(op, i, name, DType::kInt64, {1});
  if (!count) op.Fail("the input {} is missing", name);
  if (!count.is_constant()) return count;
  const int64_t value = count.ints()[0];
  if (value < 1) op.Fail("{} is {}, must be positive", name, value);
  if (most && most.is_constant() && value > most.ints()[0]) {
    op.Fail("{} is {}, more than the {} beams", name, value, most.ints()[0]);
  }
  return count;
}

void RunBeams(Lowering& op, const BeamRules& rules, const BeamDecoder& decoder, Val trips,
              bool wants_scores, BeamSearchState* state) {
  std::vector<Val> states = state->beams.States();
  states.insert(states.end(), state->feeds.begin(), state->feeds.end());
  const bool from_prompts = state->is_first;
  const auto step = [&](LoopScope& scope) -> LoopStep {
    const std::span<const Val> before(scope.states()), feeds = before.subspan(Beams::kCount);
    const std::vector<Val> outputs = decoder.call(scope, feeds);
    const Val is_first =
        from_prompts ? Equal(scope.iteration(), 0) : scope.builder().Scalar(DType::kBool, 0);
    const BeamStep made =
        StepBeams(op, rules.Inside(scope), Beams::Of(before), outputs[0], is_first);
    LoopStep next{.goes_on = made.beams.goes_on, .states = made.beams.States(), .stacked = {}};
    for (const Val& feed : decoder.next(feeds, made, outputs)) next.states.push_back(feed);
    if (wants_scores) next.stacked.push_back(made.scores);
    return next;
  };
  const std::vector<Val> found = MakeLoop(op.builder(), trips, state->beams.goes_on, states, step);
  state->beams = Beams::Of(found);
  state->feeds.assign(found.begin() + Beams::kCount, found.begin() + states.size());
  if (wants_scores) {
    state->scores = state->scores ? Stacked(state->scores, found.back()) : found.back();
  }
  state->is_first = false;
}

}  // namespace sardonyx::ops::contrib
