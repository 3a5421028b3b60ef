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

// The first `count` rows of a cache, those before `past` where their beams stood.
Val OfBeams(Lowering& op, Val cache, Val beams, Val past, Val count) {
  if (beams.rank() != 3) op.Fail("cache_indirection has rank {}, not 3", beams.rank());
  const Dims &dims = beams.shape(), &rows = cache.shape();
  if (dims[0].known() && dims[1].known() && rows[0].known() &&
      dims[0].value() * dims[1].value() != rows[0].value()) {
    op.Fail("cache_indirection is for {} groups of {} beams, but there are {} sequences",
            dims[0].value(), dims[1].value(), rows[0].value());
  }
  const Val batch = SizeOf(cache, 0), position = Positions(count);
  const Val first = AlongAxis(Positions(SizeOf(beams, 0)) * SizeOf(beams, 1), 3, 0);
  const Val told = Gather(beams, Min(position, SizeOf(beams, 2) - 1.0), 2);
  const Val chosen = Reshape(Cast(told, DType::kInt64) + first, Concat({batch, count}, 0));
  const Val sequence = Where(Less(position, past), chosen, Unsqueeze(Positions(batch), {1}));
  // As rows of all heads of all sequences.
  const Val head = AlongAxis(Positions(SizeOf(cache, 1)), 3, 1);
  const Val row =
      (Unsqueeze(sequence, {1}) * SizeOf(cache, 1) + head) * SizeOf(cache, 2) + position;
  const Val shape = Concat({op.builder().Ints({-1}), SizeOf(cache, 3)}, 0);
  return Gather(Reshape(cache, shape), row, 0);
}

Val KeyMask(Lowering& op, Val mask, Val queries, Val total) {
  const int rank = mask.rank();
  Val seen;
  if (rank == 1) {
    const Val positions = Positions(total);
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
      const Val before = total - SizeOf(queries, 2);
      const Val rows = Positions(SizeOf(queries, 2)) + before;
      mask = Gather(SliceTo(mask, {0}, {total}, {3}), rows, 2);
    }
    if (rank < 2 || rank > 4) op.Fail("the mask has rank {}, not 1 to 4", rank);
    seen = Greater(mask, 0.0);
  }
  Builder& b = op.builder();
  const DType type = queries.dtype();
  return Where(seen, b.Scalar(type, 0), b.Scalar(type, op.Float("mask_filter_value", -10000)));
}

Val Causal(Val queries, const Cached& keys, Val first) {
  const Val i = Unsqueeze(Positions(SizeOf(queries, 2)) + first, {1});
  const Val j = Unsqueeze(Positions(SizeOf(keys.visible, 2)), {0});
  return Hide(LessEqual(j, i), queries.dtype());
}

// The same terms for all rows of the cache.
Val WithRest(Lowering& op, const Cached& keys, Val terms, DType type) {
  const Val row = Positions(SizeOf(keys.visible, 2)), seen = Less(row, keys.total);
  const Val hide = Hide(seen, type);
  if (!terms) return hide;
  const int axis = terms.rank() - 1;
  const Dim width = terms.shape()[axis];
  if (keys.total.fact().known() && width.known() && width.value() > 1 &&
      width.value() != keys.total.ints()[0]) {
    op.Fail("a mask or bias of {} keys, but there are {}", width.value(), keys.total.ints()[0]);
  }
  return Where(seen, Gather(terms, Min(row, SizeOf(terms, axis) - 1.0), axis), hide);
}

}  // namespace

Cached Append(Lowering& op, Val past, Val rows, Val filled, Val beams) {
  if (!past) {
    if (beams) op.Fail("cache_indirection needs past_key and past_value");
    return {rows, rows, SizeOf(rows, 2)};
  }
  if (!filled) {
    const Val all = Concat({past, rows}, 2), total = SizeOf(all, 2);
    return {all, beams ? OfBeams(op, all, beams, SizeOf(past, 2), total) : all, total};
  }
  filled = WholeNumber(filled);
  const Val total = filled + SizeOf(rows, 2);
  const Val all = WriteRows(past, rows, filled, 2);
  // Attention to float32 does not read rows that nobody sees, and the size of the buffer is known
  // where how much of it is filled is not. Products of other types, or those that scores are asked
  // of (the fourth output), must not meet what the rest holds.
  constexpr size_t kScores = 3;
  const bool has_rest = rows.dtype() == DType::kFloat32 && !op.wants(kScores);
  const Val count = has_rest ? SizeOf(all, 2) : total;
  const Val visible = beams      ? OfBeams(op, all, beams, filled, count)
                      : has_rest ? all
                                 : SliceTo(all, {0}, {total}, {2});
  return {all, visible, has_rest ? total : SizeOf(visible, 2), has_rest};
}

Val Existing(Val rows, Val exists) {
  if (rows.shape()[0] == Dim(1)) return rows;  // the only sequence is the longest
  return Where(Transpose(exists, {0, 1, 3, 2}), rows, rows.builder->Scalar(rows.dtype(), 0));
}

Val ScoreTerms(Lowering& op, Val mask, Val bias, Val queries, const Cached& keys, Val first) {
  Val terms;
  const auto add = [&](Val term) { terms = terms ? terms + term : term; };
  if (mask) add(KeyMask(op, mask, queries, keys.total));
  if (bias) add(bias);
  if (keys.has_rest) terms = WithRest(op, keys, terms, queries.dtype());
  if (op.Int("unidirectional") != 0) add(Causal(queries, keys, first));
  return terms;
}

Heads GroupedHeads(Lowering& op, int64_t heads, int64_t shared) {
  if (op.has(1)) {
    return {SplitHeads(op.in(0), heads), SplitHeads(op.in(1), shared),
            SplitHeads(op.in(2), shared)};
  }
  const std::vector<Val> parts =
      Split(SplitHeads(op.in(0), heads + 2 * shared), {heads, shared, shared}, 1);
  return {parts[0], parts[1], parts[2]};
}

void Rotate(Lowering& op, Val cosine, Val sine, Val positions, std::initializer_list<Val*> heads) {
  if (!cosine || !sine) op.Fail("do_rotary needs cos_cache and sin_cache");
  const Attributes attributes{{"interleaved", op.Int("rotary_interleaved")},
                              {"rotary_embedding_dim", 2 * cosine.size(1)}};
  for (Val* x : heads) {
    *x = Standard(op, "RotaryEmbedding", {*x, cosine, sine, positions}, attributes).values[0];
  }
}

double ScaleOf(const Lowering& op, Val queries) {
  const double scale = op.Float("scale");
  return scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(queries.size(3)));
}

int64_t HeadCount(const Lowering& op, std::string_view attribute) {
  const int64_t heads = op.Int(attribute);
  if (heads < 1) op.Fail("attribute {} is {}, but must be positive", attribute, heads);
  if (heads > INT32_MAX) op.Fail("attribute {} is {}, more than {}", attribute, heads, INT32_MAX);
  return heads;
}

}  // namespace sardonyx::ops::contrib
