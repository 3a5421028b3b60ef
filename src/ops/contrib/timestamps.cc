#include "ops/contrib/timestamps.h"

#include <limits>

namespace sardonyx::ops::contrib {
namespace {

constexpr double kLowest = std::numeric_limits<float>::lowest();
constexpr int64_t kMaxFirst = 50;  // the first timestamp is not later than this one

double Number(int64_t token) { return static_cast<double>(token); }

}  // namespace

Val WithTimestamps(const TimestampRules& rules, Val scores, Val texts) {
  Builder& b = *scores.builder;
  const Val given = scores;
  const Val lowest = b.Scalar(DType::kFloat32, kLowest);
  const Val token = Positions(SizeOf(scores, 1)), length = SizeOf(texts, 1);
  const Val is_time = GreaterEqual(token, Number(rules.first));
  const Val was_time = GreaterEqual(texts, Number(rules.first)), place = Positions(length);
  // Up to and with the first timestamp; all, if there is none.
  const Val begin = Reduce("min", Where(was_time, place + 1, length), {1}, true);
  const Val is_begun = Greater(length, begin);
  const Val last = Cast(Gather(texts, length - 1, 1), DType::kInt64);
  const Val before = Gather(texts, Max(length - 2, 0), 1);
  const Val last_is_time = GreaterEqual(last, Number(rules.first));
  const Val is_paired = Or(Not(is_begun), GreaterEqual(before, Number(rules.first)));

  Val refused = Or(Equal(token, Number(rules.without)), Equal(token, Number(rules.start_of_lm)));
  const Val is_task =
      Or(Equal(token, Number(rules.start)),
         Or(Equal(token, Number(rules.translate)), Equal(token, Number(rules.transcribe))));
  refused = Or(refused, And(is_begun, is_task));
  const Val is_word = Less(token, Number(rules.end));
  refused =
      Or(refused, And(last_is_time, Or(And(is_paired, is_time), And(Not(is_paired), is_word))));
  const Val latest_place =
      Reduce("max", Where(was_time, place, b.Scalar(DType::kInt64, -1)), {1}, true);
  const Val latest = Cast(GatherElements(texts, Max(latest_place, 0), 1), DType::kInt64);
  const Val is_open = And(last_is_time, Not(is_paired));
  const Val least = latest + Cast(Not(is_open), DType::kInt64);
  const Val is_early = And(is_time, Less(token, least));
  refused = Or(refused, And(GreaterEqual(latest_place, 0), is_early));
  refused = Or(refused, And(Not(is_begun), Greater(token, Number(rules.first + kMaxFirst))));
  scores = Where(refused, lowest, scores);

  // A timestamp comes if all of them together are more likely than the most likely other token.
  const Val best_time = Reduce("max", Where(is_time, scores, lowest), {1}, true);
  const Val counts = And(is_time, Greater(scores, kLowest));
  const Val none = b.Scalar(DType::kFloat32, 0);
  const Val sum = Reduce("sum", Where(counts, Exp(scores - best_time), none), {1}, true);
  const Val all_times = Where(Greater(sum, 0), Log(sum) + best_time, lowest);
  const Val best_other = Reduce("max", Where(is_time, lowest, scores), {1}, true);
  scores = Where(And(Greater(all_times, best_other), Not(is_time)), lowest, scores);
  return rules.applies ? Where(rules.applies, scores, given) : scores;
}

}  // namespace sardonyx::ops::contrib
