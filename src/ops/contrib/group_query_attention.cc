#include "ops/contrib/attention_parts.h"

namespace sardonyx::ops::contrib {
namespace {

enum Input : size_t {
  kQuery,
  kKey,
  kValue,
  kPastKey,
  kPastValue,
  kLast,
  kTotal,
  kCosine,
  kSine,
  kPositions,
  kBias,
  kSink,
  kKeyScale,
  kValueScale,
  kQueryNorm,
  kKeyNorm
};

constexpr size_t kScores = 3;  // an output

void Check(const Lowering& op) {
  if (op.has(kPastKey) != op.has(kPastValue)) op.Fail("past_key and past_value come together");
  if (op.has(kKey) != op.has(kValue)) op.Fail("key and value come together");
  if (op.has(kQueryNorm) != op.has(kKeyNorm)) {
    op.Fail("q_norm_weight and k_norm_weight come together");
  }
  const int64_t causal = op.Int("causal", 1), mode = op.Int("qk_output");
  if (causal != 0 && causal != 1) op.Fail("attribute causal is {}, not 0 or 1", causal);
  if (causal == 0 && op.Int("local_window_size", -1) != -1) {
    op.Fail("attribute local_window_size needs causal attention");
  }
  if (op.Int("sliding_window_cache") != 0) {
    if (op.Int("local_window_size", -1) < 1) {
      op.Fail("attribute sliding_window_cache needs local_window_size");
    }
    if (!op.has(kPastKey)) op.Fail("attribute sliding_window_cache needs past_key and past_value");
    if (mode != 0) op.Unsupported("attribute qk_output beside sliding_window_cache");
  }
  if (mode < 0 || mode > 2) op.Fail("attribute qk_output is {}, not 0, 1 or 2", mode);
}

// How keys or values stand in a cache: as they are, or in units of a scale, which belongs to all or
// to each channel: as 8-bit integers or floats, or two to a byte, each with 8 added, the first in
// the lower half.
class CacheFormat {
 public:
  CacheFormat(const Lowering& op, std::string_view kind, Input scale, Input past, int64_t heads)
      : plain_(op.in(kQuery).dtype()), stored_(plain_), scale_(op.in(scale)) {
    const std::string given = op.String(kind, "NONE");
    const int64_t bits = op.Int("kv_cache_bit_width", 8);
    if (given != "NONE") {
      if (given != "PER_TENSOR" && given != "PER_CHANNEL")
        op.Fail("attribute {} is '{}', not NONE, PER_TENSOR or PER_CHANNEL", kind, given);
      if (!scale_) op.Fail("attribute {} is {}, but there is no scale", kind, given);
      // In whatever shape they are given.
      if (given == "PER_CHANNEL") scale_ = Reshape(scale_, {1, heads, 1, -1});
      stored_ = bits == 4 ? DType::kUInt8 : DType::kInt8;
    }
    if (op.has(past)) {
      const bool eight = given != "NONE" && bits != 4;
      if (eight && op.in(past).dtype() == DType::kFloat8E4M3FN) stored_ = DType::kFloat8E4M3FN;
      if (op.in(past).dtype() != stored_) {
        op.Fail("a cache of {} with {} {} and {} bits must be {}", Name(op.in(past).dtype()), kind,
                given, bits, Name(stored_));
      }
    }
  }

  Val Encode(Val x) const {
    if (stored_ == plain_) return x;
    const Val units = Widen(x) / scale_;
    if (stored_ == DType::kInt8) return Cast(Clip(Round(units), -128, 127), stored_);
    if (stored_ != DType::kUInt8) return CastTo(units, stored_, true, "nearest");
    const Val halves =
        Reshape(Clip(Round(units), -8, 7) + 8.0, std::vector<int64_t>{0, 0, 0, -1, 2});
    const std::vector<Val> parts = Split(halves, {1, 1}, 4);
    return Cast(Squeeze(parts[0] + parts[1] * 16.0, {4}), stored_);
  }

  Val Decode(Val cache) const {
    if (stored_ == plain_) return cache;
    Val units = Cast(cache, DType::kFloat32);
    if (stored_ == DType::kUInt8) {
      const Val high = Floor(units / 16.0);
      const Val halves = Concat({Unsqueeze(units - high * 16.0, {4}), Unsqueeze(high, {4})}, 4);
      units = Reshape(halves, std::vector<int64_t>{0, 0, 0, -1}) - 8.0;
    }
    return Cast(units * scale_, plain_);
  }

 private:
  DType plain_, stored_;
  Val scale_;
};

Val NormalizeHeads(Lowering& op, Val x, Val weight) {
  return op.builder().Make(
      core::layer_norm, {x, weight},
      {{"axis", int64_t{-1}}, {"epsilon", op.Float("qk_norm_epsilon", 1e-6)}, {"rms", int64_t{1}}});
}

// Where the tokens of this call stand in their sequences.
struct Place {
  Val total;   // [1]: length of the longest sequence, these tokens included
  Val prompt;  // bool [1]: whether nothing comes before these tokens
  Val start;   // [batch]: how many tokens come before
  Val end;     // [batch]: length of each sequence
};

Place PlaceOf(Lowering& op, Val batch, Val length) {
  Place place;
  place.total = Reshape(Cast(op.in(kTotal), DType::kInt64), std::vector<int64_t>{1});
  // As many as sequences, whatever its size is called.
  place.end = Reshape(Cast(op.in(kLast), DType::kInt64), batch) + 1.0;
  if (op.has(kPastKey)) {
    place.prompt = Equal(length, place.total);
    place.start = Where(place.prompt, op.builder().Scalar(DType::kInt64, 0), place.end - length);
  } else {
    place.start = op.builder().Ints({0});
  }
  return place;
}

// The past, which may be a buffer that is longer than what it holds, with new rows in their places.
Val Fill(Val past, Val rows, const Place& place) {
  return past ? WriteRows(past, rows, place.start, 2, place.total) : rows;
}

// [batch or 1, sequence]. Position ids of a prompt count from the first of them.
Val TokenPositions(Lowering& op, Val length, const Place& place) {
  const Val steps = Unsqueeze(Positions(length), {0});
  if (!op.has(kPositions)) return Unsqueeze(place.start, {1}) + steps;
  const Val given = op.in(kPositions);
  const Val from_first = Slice(given, {0, 0}, {1, 1}, {0, 1}) + steps;
  return place.prompt ? Where(place.prompt, from_first, given) : from_first;
}

// What queries attend to.
struct Memory {
  Val present_key, present_value;  // the caches afterwards
  Val keys, values;                // rows, as they stand in a cache
  Val position, exists;            // of these rows in their sequence: [batch or 1,1,1,rows]
};

Memory WholeMemory(Lowering& op, Val k, Val v, const Place& place) {
  Memory memory;
  memory.keys = memory.present_key = Fill(op.in(kPastKey), k, place);
  memory.values = memory.present_value = Fill(op.in(kPastValue), v, place);
  // Attention to float32 does not read rows that nobody sees (see Append). One of which the scores
  // are asked is made of products.
  const bool reads_all = k.dtype() != DType::kFloat32 || op.has(kBias) || op.wants(kScores);
  if (op.has(kPastKey) && reads_all) {
    Builder& b = op.builder();
    for (Val* rows : {&memory.keys, &memory.values}) {
      *rows = b.Make(core::slice, {*rows, b.Ints({0}), place.total, b.Ints({2}), Val{}});
    }
  }
  memory.position = Positions(SizeOf(memory.keys, 2));
  memory.exists = Less(memory.position, AlongAxis(place.end, 4, 0));
  if (op.has(kPastKey) && reads_all) {
    for (Val* rows : {&memory.keys, &memory.values}) *rows = Existing(*rows, memory.exists);
  }
  return memory;
}

// How many of the last positions a cache holds that has room for more than the window. When it is
// full, all that the window has left goes at once.
Val Held(Val count, int64_t capacity, int64_t window) {
  const auto surplus = static_cast<double>(capacity - window + 1);
  const Val evictions = (count - static_cast<double>(capacity) + (surplus - 1)) / surplus;
  return Where(LessEqual(count, static_cast<double>(capacity)), count, count - evictions * surplus);
}

// With caches whose first rows are the last positions, in order (sliding_window_cache).
Memory WindowMemory(Lowering& op, Val k, Val v, Val length, const Place& place) {
  Builder& b = op.builder();
  const int64_t capacity = op.in(kPastKey).size(2), window = op.Int("local_window_size");
  if (capacity < window) op.Fail("a cache of {} rows for a window of {}", capacity, window);
  const Val start = AlongAxis(place.start, 4, 0), end = AlongAxis(place.end, 4, 0);
  const Val before = Held(start, capacity, window), after = Held(end, capacity, window);
  Memory memory;
  memory.keys = Concat({op.in(kPastKey), k}, 2);
  memory.values = Concat({op.in(kPastValue), v}, 2);
  const Val old = Positions(b.Ints({capacity})), fresh = Positions(length);
  memory.position = Concat({start - before + old, start + fresh}, 3);
  memory.exists = Concat({Less(old, before), Less(start + fresh, end)}, 3);
  // Rows behind the last position hold anything.
  const Val kept = end - after + old;
  const Val from_old = kept - (start - before),
            from_fresh = kept - start + static_cast<double>(capacity);
  const Val row =
      Min(Max(Where(Less(kept, start), from_old, from_fresh), 0.0), SizeOf(memory.keys, 2) - 1.0);
  const auto pick = [&](Val rows, Val past) {
    return GatherElements(rows, Expand(Transpose(row, {0, 1, 3, 2}), ShapeOf(past)), 2);
  };
  memory.present_key = pick(memory.keys, op.in(kPastKey));
  memory.present_value = pick(memory.values, op.in(kPastValue));
  return memory;
}

// Which rows each query may see, [batch,1,queries,rows].
Val Visible(const Lowering& op, Val length, const Place& place, const Memory& memory) {
  const Val i = AlongAxis(place.start, 4, 0) + AlongAxis(Positions(length), 4, 2);
  Val seen = memory.exists;
  if (op.Int("causal", 1) != 0) seen = And(seen, LessEqual(memory.position, i));
  const int64_t window = op.Int("local_window_size", -1);
  if (window > 0) {
    seen = And(seen, Greater(memory.position, i - static_cast<double>(window)));
  }
  return seen;
}

// attention_bias has a column for each position.
Val BiasOf(Lowering& op, const Memory& memory, Val seen) {
  const Val bias = op.in(kBias);
  if (op.Int("sliding_window_cache") == 0) return bias;
  const Val column = Min(Max(memory.position, 0.0), SizeOf(bias, 3) - 1.0);
  const Val shape = Concat({ShapeOf(seen, 0, 1), ShapeOf(bias, 1, 3), SizeOf(seen, 3)}, 0);
  const Val whole = Concat({ShapeOf(seen, 0, 1), ShapeOf(bias, 1, 4)}, 0);
  return GatherElements(Expand(bias, whole), Expand(column, shape), 3);
}

}  // namespace

// Attention of groups of query heads that share keys and values, with rotary positions and a cache
// of keys and values.
Outputs LowerGroupQueryAttention(Lowering& op) {
  Check(op);
  const int64_t heads = HeadCount(op, "num_heads"), shared = HeadCount(op, "kv_num_heads");
  auto [q, k, v] = GroupedHeads(op, heads, shared);
  if (op.has(kQueryNorm)) {
    q = NormalizeHeads(op, q, op.in(kQueryNorm));
    k = NormalizeHeads(op, k, op.in(kKeyNorm));
  }
  const Val length = SizeOf(q, 2);
  const Place place = PlaceOf(op, SizeOf(q, 0), length);
  if (op.Int("do_rotary") != 0) {
    Rotate(op, op.in(kCosine), op.in(kSine), TokenPositions(op, length, place), {&q, &k});
  }
  const CacheFormat key_format(op, "k_quant_type", kKeyScale, kPastKey, shared);
  const CacheFormat value_format(op, "v_quant_type", kValueScale, kPastValue, shared);
  const Val key_rows = key_format.Encode(k), value_rows = value_format.Encode(v);
  const Memory memory = op.Int("sliding_window_cache") != 0
                            ? WindowMemory(op, key_rows, value_rows, length, place)
                            : WholeMemory(op, key_rows, value_rows, place);

  Builder& b = op.builder();
  const Val seen = Visible(op, length, place, memory);
  Scoring scoring{.scale = ScaleOf(op, q), .softcap = op.Float("softcap")};
  scoring.bias = Hide(seen, q.dtype());
  if (op.has(kBias)) scoring.bias = scoring.bias + BiasOf(op, memory, seen);
  if (op.has(kSink)) {
    scoring.sink = Reshape(op.in(kSink), std::vector<int64_t>{1, heads, 1, 1});
  } else if (op.Int("smooth_softmax") == 1) {
    scoring.sink = b.Scalar(q.dtype(), 0);
  }
  const Attended result =
      Attend(op, q, key_format.Decode(memory.keys), value_format.Decode(memory.values), scoring);
  Val scores = result.weights;
  if (op.Int("qk_output") == 1) scores = Where(seen, result.biased, b.Scalar(q.dtype(), 0));
  if (op.Int("qk_output") == 0) scores = Val{};
  return {JoinHeads(result.y), memory.present_key, memory.present_value, scores};
}

}  // namespace sardonyx::ops::contrib
