#include "ops/contrib/attention_parts.h"

#include <cmath>

namespace sardonyx::ops::contrib {
namespace {

Val SliceTo(Val x, const std::vector<int64_t>& starts, const std::vector<Val>& ends,
            const std::vector<int64_t>& axes) {
  Builder& b = *x.builder;
  return b.Make(core::slice, {x, b.Ints(starts), Concat(ends, 0), b.Ints(axes), Val{}});
}

Val WholeNumber(Val x) { return Reshape(Cast(x, DType::kInt64), std::vector<int64_t>{1}); }

// A vector of numbers, one for each batch element, to compare positions of keys with.
Val EachBatch(Val mask, int64_t begin, int64_t end) {
  return Reshape(Cast(Slice(mask, {begin}, {end}, {0}), DType::kInt64),
                 std::vector<int64_t>{-1, 1, 1, 1});
}

}  // namespace

Cached Append(Val past, Val rows, Val filled) {
  if (!past) return {rows, rows};
  if (!filled) {
    const Val all = Concat({past, rows}, 2);
    return {all, all};
  }
  filled = WholeNumber(filled);
  const Val positions = AlongAxis(Positions(SizeOf(rows, 2)) + filled, 4, 2);
  const Val all = ScatterElements(past, Expand(positions, ShapeOf(rows)), rows, 2);
  return {all, SliceTo(all, {0}, {filled + SizeOf(rows, 2)}, {2})};
}

Val KeyMask(Lowering& op, Val mask, Val queries, Val keys, double filter) {
  const int rank = mask.rank();
  Val seen;
  if (rank == 1) {
    const Val positions = Positions(SizeOf(keys, 2));
    const bool ends_alone = mask.shape()[0] == queries.shape()[0];
    const int64_t batch = ends_alone ? INT64_MAX : queries.size(0);
    if (!ends_alone && mask.size(0) != batch && mask.size(0) != 2 * batch &&
        mask.size(0) != 3 * batch + 2) {
      op.Fail("a mask of {} elements does not fit {} sequences", mask.size(0), batch);
    }
    seen = Less(positions, EachBatch(mask, 0, batch));
    if (!ends_alone && mask.size(0) == 2 * batch) {
      seen = And(seen, GreaterEqual(positions, EachBatch(mask, batch, INT64_MAX)));
    }
  } else {
    if (rank == 2) mask = Unsqueeze(mask, {1, 2});
    if (rank == 3) mask = Unsqueeze(mask, {1});
    if (rank == 4) {
      const Val total = SizeOf(keys, 2), before = total - SizeOf(queries, 2);
      const Val rows = Positions(SizeOf(queries, 2)) + before;
      mask = Gather(SliceTo(mask, {0}, {total}, {3}), rows, 2);
    }
    if (rank < 2 || rank > 4) op.Fail("the mask has rank {}, not 1 to 4", rank);
    seen = Greater(mask, 0.0);
  }
  Builder& b = op.builder();
  const DType type = queries.dtype();
  return Where(seen, b.Scalar(type, 0), b.Scalar(type, filter));
}

Val Causal(Val queries, Val keys, Val past) {
  const Val i = Unsqueeze(Positions(SizeOf(queries, 2)) + past, {1});
  const Val j = Unsqueeze(Positions(SizeOf(keys, 2)), {0});
  return Hide(LessEqual(j, i), queries.dtype());
}

double ScaleOf(const Lowering& op, Val queries) {
  const double scale = op.Float("scale");
  return scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(queries.size(3)));
}

int64_t HeadCount(const Lowering& op, std::string_view attribute) {
  const int64_t heads = op.Int(attribute);
  if (heads < 1) op.Fail("attribute {} is {}, but must be positive", attribute, heads);
  return heads;
}

}  // namespace sardonyx::ops::contrib
