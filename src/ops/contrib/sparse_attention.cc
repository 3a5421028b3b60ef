#include <algorithm>

#include "ops/contrib/attention_parts.h"

namespace sardonyx::ops::contrib {
namespace {

enum Input : size_t {
  kQuery,
  kKey,
  kValue,
  kPastKey,
  kPastValue,
  kRowIndices,
  kColumnIndices,
  kTotal,
  kLengths,
  kCosine,
  kSine
};

Val Cut(Val x, Val end, int64_t axis) {
  Builder& b = *x.builder;
  return b.Make(core::slice, {x, b.Ints({0}), end, b.Ints({axis}), Val{}});
}

// The first `blocks` rows and columns of sparse matrices whose rows begin at starts [layouts, more
// than blocks] among the columns [layouts, entries]: bool [layouts, blocks, blocks].
Val Dense(Lowering& op, Val starts, Val columns, int64_t blocks) {
  Builder& b = op.builder();
  constexpr int64_t kMost = int64_t{1} << 31;
  if ((blocks + 1) * blocks > kMost / std::max<int64_t>(starts.size(0), 1)) {
    op.Fail("{} layouts of {} blocks by {} are too many", starts.size(0), blocks, blocks);
  }
  const Val layouts = SizeOf(starts, 0), entries = SizeOf(columns, 1);
  const auto filled = [&](Val width, DType type, double value) {
    return Filled(Concat({layouts, width}, 0), MakeFilled(type, {1}, value));
  };
  // The row of an entry is how many rows end at it or before. Behind them all is another one, for
  // paddings and what is left out.
  const Val cut = Cast(Slice(starts, {1}, {blocks + 1}, {1}), DType::kInt64);
  const Val ends = Min(Max(cut, 0.0), entries);
  const Val none = filled(entries + 1.0, DType::kInt64, 0);
  const Val ones = filled(b.Ints({blocks}), DType::kInt64, 1);
  const Val marks = b.Make(core::scatter_elements, {none, ends, ones},
                           {{"axis", int64_t{1}}, {"reduction", std::string("add")}});
  const Val sums =
      b.Make(core::cumulative, {marks}, {{"kind", std::string("sum")}, {"axis", int64_t{1}}});
  const auto width = static_cast<double>(blocks);
  const Val column = Cast(columns, DType::kInt64);
  const Val fits = And(GreaterEqual(column, 0.0), Less(column, width));
  const Val beyond = b.Scalar(DType::kInt64, width * width);
  const Val place = Where(fits, Cut(sums, entries, 1) * width + column, beyond);
  const Val dense = ScatterElements(filled(b.Ints({(blocks + 1) * blocks}), DType::kBool, 0), place,
                                    filled(entries, DType::kBool, 1), 1);
  return Reshape(Slice(dense, {0}, {blocks * blocks}, {1}),
                 std::vector<int64_t>{-1, blocks, blocks});
}

// The matrix of each head, or one for all.
Val OfHeads(Lowering& op, Val matrices, int64_t heads) {
  const int64_t layouts = matrices.size(0);
  if (layouts < 1 || heads % layouts != 0) {
    op.Fail("{} heads cannot share {} layouts of blocks", heads, layouts);
  }
  if (layouts == 1 || layouts == heads) return matrices;
  std::vector<int64_t> layout(heads);
  for (int64_t i = 0; i < heads; ++i) layout[i] = i % layouts;
  return Gather(matrices, op.builder().Ints(layout), 0);
}

// Where the tokens of this call stand in their sequences.
struct Place {
  Val total;      // [1]: length of the longest sequence, these tokens included
  Val end;        // [batch,1]: length of each
  Val start;      // [batch]: how many tokens come before
  Val positions;  // [batch, tokens]
};

Place PlaceOf(Lowering& op, Val length) {
  const Val total = Reshape(Cast(op.in(kTotal), DType::kInt64), std::vector<int64_t>{1});
  const Val end = Reshape(Cast(op.in(kLengths), DType::kInt64), std::vector<int64_t>{-1, 1});
  const Val zero = op.builder().Scalar(DType::kInt64, 0);
  const Val start = Where(Equal(length, total), zero, end - length);
  return {total, end, Squeeze(start, {1}), start + Positions(length)};
}

// Which of the first rows of a cache each query sees, [batch, heads or 1, tokens, rows]; no more
// rows than the blocks tell of.
Val Visible(Lowering& op, const Place& place, int64_t heads, int64_t rows) {
  const int64_t given = op.Int("sparse_block_size");
  if (given < 1) op.Fail("attribute sparse_block_size is {}, but must be positive", given);
  const Val starts = op.in(kRowIndices);
  if (rows < 1 || starts.size(1) < 2) {
    op.Fail("a cache of {} rows and {} block_row_indices hold no block", rows, starts.size(1));
  }
  const int64_t size = std::min(given, rows);
  const int64_t count = std::min((rows - 1) / size + 1, starts.size(1) - 1);
  const Val blocks = OfHeads(op, Dense(op, starts, op.in(kColumnIndices), count), heads);
  const auto width = static_cast<double>(size);
  const Val seen = Transpose(Gather(blocks, place.positions / width, 1), {1, 0, 2, 3});
  const Val i = Unsqueeze(place.positions, {1, 3, 4});
  const Val j = Unsqueeze(Positions(op.builder().Ints({count})), {1}) * width +
                Positions(op.builder().Ints({size}));
  const Val all = And(Unsqueeze(seen, {4}), LessEqual(j, i));
  return Slice(Reshape(all, std::vector<int64_t>{0, 0, 0, -1}), {0}, {rows}, {3});
}

void Check(const Lowering& op) {
  if (op.has(kKey) != op.has(kValue)) op.Fail("key and value come together");
  if (op.in(kQuery).rank() != 3) op.Fail("query has rank {}, not 3", op.in(kQuery).rank());
  if (op.in(kPastKey).rank() != 4 || op.in(kPastValue).rank() != 4) {
    op.Fail("past_key and past_value have ranks {} and {}, not 4", op.in(kPastKey).rank(),
            op.in(kPastValue).rank());
  }
  const Val rows = op.in(kRowIndices), columns = op.in(kColumnIndices);
  if (rows.rank() != 2 || columns.rank() != 2) {
    op.Fail("block_row_indices and block_col_indices have ranks {} and {}, not 2", rows.rank(),
            columns.rank());
  }
  if (rows.size(0) != columns.size(0)) {
    op.Fail("block_row_indices and block_col_indices have {} and {} layouts", rows.size(0),
            columns.size(0));
  }
}

}  // namespace

// Attention of groups of query heads that share keys and values in a cache, in which each block of
// queries sees some blocks of keys alone.
Outputs LowerSparseAttention(Lowering& op) {
  Check(op);
  const int64_t heads = HeadCount(op, "num_heads"), shared = HeadCount(op, "kv_num_heads");
  auto [q, k, v] = GroupedHeads(op, heads, shared);
  const Val length = SizeOf(q, 2);
  const Place place = PlaceOf(op, length);
  if (op.Int("do_rotary") != 0) Rotate(op, op.in(kCosine), op.in(kSine), place.positions, {&q, &k});
  const Val present_key = WriteRows(op.in(kPastKey), k, place.start, 2);
  const Val present_value = WriteRows(op.in(kPastValue), v, place.start, 2);
  const Val seen = Visible(op, place, heads, op.in(kPastKey).size(2));
  // Rows that nobody sees may hold anything. Attention to float32 does not read them; products of
  // other types must not meet a NaN.
  const bool reads_all = q.dtype() != DType::kFloat32;
  const Val end = reads_all ? place.total : SizeOf(seen, 3);
  Val keys = Cut(present_key, end, 2), values = Cut(present_value, end, 2);
  if (reads_all) {
    const Val exists = Less(Positions(end), Unsqueeze(place.end, {1, 2}));
    for (Val* cut : {&keys, &values}) *cut = Existing(*cut, exists);
  }
  Scoring scoring{.scale = ScaleOf(op, q)};
  scoring.bias = Hide(Cut(seen, end, 3), q.dtype());
  const Val y = Attend(op, q, keys, values, scoring).y;
  return {JoinHeads(y), present_key, present_value};
}

}  // namespace sardonyx::ops::contrib
