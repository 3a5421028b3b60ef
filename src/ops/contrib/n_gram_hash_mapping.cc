// Hashes of the last 2, 3, ... ids of tokens: the ids of each times numbers, joined by xor, modulo
// the size of the table of each head.

#include "ops/contrib/shapes.h"

namespace sardonyx::ops::contrib {
namespace {

// What the attributes and the inputs that both operators have say.
struct Hashing {
  int64_t most = 0, heads = 0;  // ids of the longest n-gram; hashes of each length
  Val multipliers, sizes, offsets;
  Val padding;   // [1]: in place of ids that there are none of
  Val eos;       // [1]: ids up to the last of these are not seen; absent: all are
  DType type{};  // of ids

  int64_t before() const { return most - 1; }
};

Hashing HashingOf(Lowering& op, size_t offsets, size_t eos) {
  Hashing found;
  found.most = op.Int("max_ngram_size");
  found.heads = op.Int("n_head_per_ngram");
  found.type = op.in(0).dtype();
  found.multipliers = op.in(1);
  found.sizes = op.in(2);
  found.offsets = op.in(offsets);
  if (found.most < 2) op.Fail("attribute max_ngram_size is {}, but must be 2 or more", found.most);
  constexpr int64_t kMost = 256;
  if (found.most > kMost) op.Unsupported("n-grams of {} ids, more than {}", found.most, kMost);
  if (found.heads < 1 || found.heads > INT64_MAX / kMost) {
    op.Fail("attribute n_head_per_ngram is {}", found.heads);
  }
  ExpectRank(op, found.multipliers, "multipliers", 1);
  if (found.multipliers.size(0) < found.most) {
    op.Fail("{} multipliers for n-grams of {} ids", found.multipliers.size(0), found.most);
  }
  const Dims outputs{found.before() * found.heads};
  ExpectShape(op, found.sizes, "vocab_sizes", outputs);
  if (found.offsets) ExpectShape(op, found.offsets, "head_offsets", outputs);

  const int64_t pad = op.Int("pad_id");
  if (found.type == DType::kInt32 && pad != static_cast<int32_t>(pad)) {
    op.Fail("attribute pad_id is {}, which ids of int32 cannot be", pad);
  }
  found.padding = Cast(op.builder().Ints({pad}), found.type);
  if (!op.has(eos)) return found;
  for (const Dim dim : op.in(eos).shape()) {
    if (dim.known() && !(dim == 1)) {
      op.Fail("eos_token_id is {}, expected one id", Print(op, op.in(eos).shape()));
    }
  }
  found.padding = Reshape(op.in(eos), std::vector<int64_t>{1});
  if (op.Int("reset_on_eos") != 0) found.eos = found.padding;
  return found;
}

// The ids before each token: back[k] those k tokens before, of any shape. breaks[k]: whether the
// token k before begins a segment; none where there are no segments.
Val Hash(const Hashing& hashing, const std::vector<Val>& back, const std::vector<Val>& breaks) {
  const int axis = back[0].rank();
  std::vector<Val> mixes;
  Val mix, hidden;
  for (int64_t k = 0; k < hashing.most; ++k) {
    Val id = back[k];
    if (k > 0) {
      const auto hide = [&](Val more) { hidden = hidden ? Or(hidden, more) : more; };
      if (hashing.eos) hide(Equal(id, hashing.eos));
      if (!breaks.empty()) hide(breaks[k - 1]);
      if (hidden) id = Where(hidden, hashing.padding, id);
    }
    const Val term = id * Slice(hashing.multipliers, {k}, {k + 1}, {0});
    mix = mix ? BitXor(mix, term) : term;
    if (k > 0) mixes.push_back(Unsqueeze(mix, {axis}));
  }
  const std::vector<int64_t> table{hashing.before(), hashing.heads};
  Val y = Mod(Unsqueeze(mixes.size() > 1 ? Concat(mixes, axis) : mixes[0], {-1}),
              Reshape(hashing.sizes, table));
  if (hashing.offsets) y = y + Reshape(hashing.offsets, table);
  std::vector<int64_t> dims(axis, 0);
  dims.push_back(hashing.before() * hashing.heads);
  return Reshape(y, dims);
}

// Row i of the batch stands at [starts[i], ends[i]) of what is packed.
struct Packed {
  Val starts, ends, count;  // [batch], [batch], [1]: batch

  explicit Packed(Val cumulative)
      : starts(Slice(cumulative, {0}, {-1}, {0})),
        ends(Slice(cumulative, {1}, {INT64_MAX}, {0})),
        count(SizeOf(starts, 0)) {}

  // What stands `back` positions before each in its row; before the row's first the past [batch,
  // before].
  Val Back(Val x, Val past, int64_t back, int64_t before) const {
    Builder& b = *x.builder;
    // One further place behind the last takes what rows shorter than this have no place for.
    const Val places = Filled(b.Ints({back}), MakeFilled(x.dtype(), {1}, 0));
    const int64_t end = back > 1 ? 1 - back : INT64_MAX;
    const Val moved = Slice(Concat({places, x}, 0), {0}, {end}, {0});
    const Val at = Unsqueeze(starts, {1}) + Positions(b.Ints({back}));
    const Val inside = Where(Less(at, Unsqueeze(ends, {1})), at, SizeOf(x, 0));
    const Val first = Slice(past, {before - back}, {INT64_MAX}, {1});
    const auto flat = [](Val matrix) { return Reshape(matrix, std::vector<int64_t>{-1}); };
    return Slice(ScatterElements(moved, flat(inside), flat(first), 0), {0}, {-1}, {0});
  }

  // The last `before` of the past and of the first `length` [batch,...] of each row.
  Val State(Val x, Val past, Val length, int64_t before) const {
    Builder& b = *x.builder;
    const int rank = length.rank() + 1;
    const Val at =
        Unsqueeze(length, {-1}) + Positions(b.Ints({before}));  // in the past and the row
    const auto width = static_cast<double>(before);
    const Val of_past = AlongAxis(Positions(count), rank, 0) * width + at;
    const Val of_row = AlongAxis(starts, rank, 0) + SizeOf(past, 0) * width + (at - width);
    const Val all = Concat({Reshape(past, std::vector<int64_t>{-1}), x}, 0);
    return Gather(all, Where(Less(at, width), of_past, of_row), 0);
  }
};

}  // namespace

Outputs LowerNGramHashMapping(Lowering& op) {
  enum Input : size_t { kIds, kPast = 3, kOffsets, kEos, kSegments };
  const Hashing hashing = HashingOf(op, kOffsets, kEos);
  const Val ids = op.in(kIds), segments = op.in(kSegments);
  const int64_t before = hashing.before();
  ExpectRank(op, ids, "input_ids", 2);
  Val past = op.in(kPast);
  if (past) {
    ExpectShape(op, past, "past_ids", {ids.shape()[0], before});
  } else {
    past = Expand(hashing.padding, Concat({SizeOf(ids, 0), op.builder().Ints({before})}, 0));
  }
  const Val all = Concat({past, ids}, 1);
  std::vector<Val> back{ids}, breaks;
  for (int64_t k = 1; k <= before; ++k) back.push_back(Slice(all, {before - k}, {-k}, {1}));
  if (segments) {
    ExpectShape(op, segments, "segment_ids", ids.shape());
    // The first token begins none.
    Val differs =
        Not(Equal(Slice(segments, {1}, {INT64_MAX}, {1}), Slice(segments, {0}, {-1}, {1})));
    const Val zeros = Filled(Concat({SizeOf(ids, 0), op.builder().Ints({before})}, 0),
                             MakeFilled(DType::kBool, {1}, 0));
    differs = Concat({zeros, differs}, 1);  // of the tokens from `before` - 1 before the first on
    for (int64_t k = 0; k < before; ++k) {
      const int64_t end = k > 0 ? -k : INT64_MAX;
      breaks.push_back(Slice(differs, {before - 1 - k}, {end}, {1}));
    }
  }
  const Val y = Hash(hashing, back, breaks);
  return {y, op.wants(1) ? Slice(all, {-before}, {INT64_MAX}, {1}) : Val{}};
}

Outputs LowerVarlenNGramHashMapping(Lowering& op) {
  enum Input : size_t {
    kIds,
    kCumulative = 3,
    kPast,
    kOffsets,
    kEos,
    kSegments,
    kPastSegments,
    kCaptured
  };
  Builder& b = op.builder();
  const Hashing hashing = HashingOf(op, kOffsets, kEos);
  const Val ids = op.in(kIds), segments = op.in(kSegments);
  const int64_t before = hashing.before(), capacity = op.Int("state_update_capacity");
  if (capacity < 0 || capacity > 8) {
    op.Fail("attribute state_update_capacity is {}, not 0 to 8", capacity);
  }
  if (op.has(kCaptured) != (capacity > 0)) {
    op.Fail("capture_count and a positive state_update_capacity come together");
  }
  if (op.has(kPastSegments) && !segments) op.Fail("past_segment_ids needs segment_ids");
  if (op.wants(2) && !segments) op.Fail("the output present_segment_ids needs segment_ids");
  if (op.wants(3) && capacity == 0) op.Fail("the output state_update needs state_update_capacity");
  ExpectRank(op, ids, "input_ids", 1);
  const Val cumulative = op.in(kCumulative);
  ExpectRank(op, cumulative, "cumulative_sequence_length", 1);
  const Dim bounds = cumulative.shape()[0];
  if (bounds.known() && bounds.value() < 2) {
    op.Fail("cumulative_sequence_length has {} numbers, not 2 or more", bounds.value());
  }
  const Packed packed(Cast(cumulative, DType::kInt64));
  const Val shape = Concat({packed.count, b.Ints({before})}, 0);
  const Dims batch = packed.starts.shape();
  const auto expect = [&](size_t i, std::string_view name) {
    ExpectShape(op, op.in(i), name, {batch[0], before});
    return op.in(i);
  };
  const Val past = op.has(kPast) ? expect(kPast, "past_ids") : Expand(hashing.padding, shape);
  std::vector<Val> back{ids}, breaks;
  for (int64_t k = 1; k <= before; ++k) back.push_back(packed.Back(ids, past, k, before));

  Val past_segments;
  if (segments) {
    ExpectShape(op, segments, "segment_ids", ids.shape());
    past_segments = op.has(kPastSegments)
                        ? expect(kPastSegments, "past_segment_ids")
                        : Expand(Unsqueeze(Gather(segments, packed.starts, 0), {1}), shape);
    Val after = segments;
    for (int64_t k = 1; k <= before; ++k) {
      const Val segment = packed.Back(segments, past_segments, k, before);
      breaks.push_back(Not(Equal(after, segment)));
      after = segment;
    }
  }
  std::vector<Val> outputs{Hash(hashing, back, breaks), {}, {}, {}};

  const Val length = packed.ends - packed.starts;
  if (op.wants(1)) outputs[1] = packed.State(ids, past, length, before);
  if (op.wants(2)) outputs[2] = packed.State(segments, past_segments, length, before);
  if (op.wants(3)) {
    ExpectShape(op, op.in(kCaptured), "capture_count", batch);
    const Val step = Positions(b.Ints({capacity})) + 1.0, most = Unsqueeze(length, {1});
    const Val state = packed.State(ids, past, Min(step, most), before);
    const Val captured = Min(Unsqueeze(Cast(op.in(kCaptured), DType::kInt64), {1}), most);
    const Val pad = Cast(b.Ints({op.Int("pad_id")}), hashing.type);
    outputs[3] = Where(Unsqueeze(LessEqual(step, captured), {2}), state, pad);
  }
  return outputs;
}

}  // namespace sardonyx::ops::contrib
