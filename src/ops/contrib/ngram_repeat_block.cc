// NGramRepeatBlock of com.microsoft: no token that would end an n-gram for the second time.

#include <limits>

#include "ops/lowering.h"

namespace sardonyx::ops::contrib {

namespace {

constexpr int64_t kMostTokens = 1024;  // of an n-gram: so many nodes are made
constexpr double kNoToken = std::numeric_limits<int32_t>::max();

}  // namespace

// The last n - 1 tokens are compared with all others in a row; where they are the same, the token
// behind those is blocked.
Outputs LowerNGramRepeatBlock(Lowering& op) {
  const Val ids = op.in(0), scores = op.in(1);
  const int64_t n = op.Int("ngram_size");
  if (n < 1) op.Fail("ngram_size is {}, not positive", n);
  if (ids.rank() != 2 || scores.rank() != 2) {
    op.Fail("input_ids and scores have rank {} and {}, not 2", ids.rank(), scores.rank());
  }
  const Dim batch = ids.shape()[0], length = ids.shape()[1], rows = scores.shape()[0];
  if (batch.known() && rows.known() && batch.value() != rows.value()) {
    op.Fail("input_ids have {} rows, scores have {}", batch.value(), rows.value());
  }
  if (length.known() && length.value() < n) return scores;
  if (n > kMostTokens) op.Unsupported("n-grams of {} tokens, more than {}", n, kMostTokens);
  const int64_t end = std::numeric_limits<int64_t>::max();
  const Val next = Slice(ids, {n - 1}, {end}, {1});
  Builder& builder = op.builder();
  const auto score = [&](double value) { return builder.Scalar(scores.dtype(), value); };
  const double infinity = std::numeric_limits<double>::infinity();
  Val blocked = score(-infinity);
  Val place = Where(Less(next, 0), builder.Scalar(ids.dtype(), kNoToken), next);
  if (n == 1) {
    blocked = Expand(blocked, ShapeOf(next));
  } else {
    Val same;
    for (int64_t i = 0; i < n - 1; ++i) {
      const int64_t behind = i - (n - 1);  // from the end
      const Val token = Slice(ids, {behind}, {behind == -1 ? end : behind + 1}, {1});
      const Val equal = Equal(Slice(ids, {i}, {behind}, {1}), token);
      same = same ? And(same, equal) : equal;
    }
    blocked = Where(same, blocked, score(infinity));
    // Other tokens may be none of those that have scores. Their places differ, for each change of a
    // score waits for the one before.
    const Val unchanged = Min(Positions(SizeOf(next, 1)), SizeOf(scores, 1) - 1);
    place = Where(same, place, unchanged);
  }
  return builder.Make(core::scatter_elements, {scores, place, blocked},
                      {{"axis", int64_t{1}}, {"reduction", "min"}});
}

}  // namespace sardonyx::ops::contrib
