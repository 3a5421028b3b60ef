#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention_rows.h"
#include "kernels/bf16_block.h"
#include "kernels/gemm.h"
#include "kernels/gemm_block.h"
#include "kernels/gemv.h"
#include "kernels/scratch_slots.h"

namespace sardonyx {
namespace {

constexpr int64_t kBlockKeys = 512;
// Keys and values are packed once for as many queries, which a task has, or fewer where these are
// all of few tasks.
constexpr int64_t kPartQueries = 1024, kLeastQueries = 256, kEnoughTasks = 16;
constexpr int64_t kMaxGroup = 32;  // queries whose scores are held at a time

// How a call is cut; depends on the shape and the SIMD target alone.
struct Cut {
  bool few = false;      // queries: no packing
  bool pairs = false;    // of bfloat16 are multiplied
  int64_t parts = 1;     // of the queries
  int64_t per_task = 1;  // (item, head, part)s
  int64_t items = 0;
  int64_t group = 0;  // queries at a time
  int64_t keys = 0;   // of a block, at most
  int64_t scores_ld = 0;
  // Floats in a slot of scratch.
  int64_t scores = 0, packed_keys = 0, packed_values = 0, paired_queries = 0;

  size_t SlotBytes() const {
    return static_cast<size_t>((scores + packed_keys + packed_values + paired_queries) * 4);
  }
};

Cut CutAttention(const AttentionShape& s) {
  Cut cut;
  cut.few = s.queries <= kGemvRows && !s.k_transposed;
  const bool rounds = s.rounding != DType::kFloat32;
  cut.pairs = s.rounding == DType::kBFloat16 && !cut.few && Bf16HasPairs();
  // Weights that are rounded are those of all keys.
  cut.keys = rounds ? s.keys : std::min(s.keys, kBlockKeys);
  cut.scores_ld = RoundUp(cut.keys, 16) + 16;
  if (cut.few) {
    cut.group = s.queries;
    cut.packed_values = RoundUp(s.queries * s.width, 16);  // of one block, before they are added
  } else {
    const int64_t tile = GemmTileRows();
    const int64_t wanted = CeilDiv(kEnoughTasks, std::max<int64_t>(s.batch * s.heads, 1));
    cut.parts = std::max(CeilDiv(s.queries, kPartQueries),
                         std::min(wanted, CeilDiv(s.queries, kLeastQueries)));
    cut.group = std::min(s.queries, kMaxGroup / tile * tile);
    cut.packed_keys = RoundUp(static_cast<int64_t>(GemmPackedBytes(s.size, cut.keys)) / 4, 16);
    cut.packed_values = RoundUp(static_cast<int64_t>(GemmPackedBytes(cut.keys, s.width)) / 4, 16);
  }
  if (cut.pairs) {
    const int64_t panel = GemmPanelWidth(), rows = RoundUp(s.keys, panel) * Bf16RowWords(s.size);
    const int64_t keys = CeilDiv(s.size, 2) * RoundUp(s.keys, panel);
    const int64_t values = CeilDiv(s.keys, 2) * RoundUp(s.width, panel);
    cut.packed_keys = std::max(cut.packed_keys, RoundUp(keys, 16));
    cut.packed_values = std::max({cut.packed_values, rows, RoundUp(values, 16)});
    cut.paired_queries = cut.group * Bf16RowWords(s.size);
  }
  cut.scores = RoundUp(cut.group * cut.scores_ld, 16);
  cut.items = s.batch * s.heads * cut.parts;
  // Nanoseconds at 50 products each, or 4 bytes; a task has 3 microseconds of them, as elsewhere.
  const int64_t cost =
      std::max<int64_t>(1, s.keys * (s.size + s.width) *
                               (cut.few ? s.queries + 3 : CeilDiv(s.queries, cut.parts)) / 50);
  cut.per_task = std::clamp<int64_t>(CeilDiv(3'000, cost), 1, std::max<int64_t>(cut.items, 1));
  return cut;
}

struct Context {
  const AttentionShape& shape;
  const Cut& cut;
  const float* q;
  const float* k;
  const float* v;
  const AttentionMask& mask;
  float* y;
};

// Queries [begin, end) of one head: where its operands are.
struct Part {
  const float* q;
  const float* k;
  const float* v;
  float* y;
  int64_t rows;
};

// Part `index` of the call, and what its queries may see.
Part Locate(const Context& x, int64_t index, AttentionRow* rows) {
  const AttentionShape& s = x.shape;
  const int64_t part = index % x.cut.parts, head = index / x.cut.parts % s.heads,
                item = index / x.cut.parts / s.heads;
  const int64_t begin = s.queries * part / x.cut.parts, end = s.queries * (part + 1) / x.cut.parts;
  const auto at = [&](const int64_t(&stride)[3], int64_t h, int64_t row) {
    return item * stride[0] + h * stride[1] + row * stride[2];
  };
  const int64_t shared = head / s.group;
  const AttentionMask& mask = x.mask;
  const bool masked = mask.terms != nullptr || mask.seen != nullptr;
  for (int64_t i = begin; i < end; ++i) {
    AttentionRow& row = rows[i - begin];
    row = {0, s.keys, -std::numeric_limits<float>::infinity(), 0.0f, nullptr};
    if (s.causal) row.end = std::clamp<int64_t>(i + s.ahead + 1, 0, s.keys);
    const auto of_row = [&](const int64_t(&stride)[3]) {
      return item * stride[0] + head * stride[1] + i * stride[2];
    };
    if (mask.counts != nullptr) {
      row.end = std::clamp<int64_t>(mask.counts[of_row(mask.count_stride)], 0, row.end);
    }
    if (mask.sinks != nullptr) {
      row.max = mask.sinks[of_row(mask.sink_stride)];
      row.sum = std::isinf(row.max) && row.max < 0 ? 0.0f : 1.0f;
    }
    if (mask.firsts != nullptr) {
      row.begin = std::clamp<int64_t>(mask.firsts[of_row(mask.first_stride)], 0, row.end);
    }
    if (!masked) continue;
    const int64_t offset = item * mask.stride[0] + head * mask.stride[1] + i * mask.stride[2];
    row.mask = mask.seen != nullptr ? static_cast<const void*>(mask.seen + offset)
                                    : static_cast<const void*>(mask.terms + offset);
    const SeenKeys seen = KeysSeen(row.mask, mask.seen != nullptr, mask.stride[3], row.end);
    row.end = std::max(row.begin, seen.end);
    if (seen.alike) row.mask = nullptr;
  }
  return {x.q + at(s.q_stride, head, begin), x.k + at(s.k_stride, shared, 0),
          x.v + at(s.v_stride, shared, 0), x.y + at(s.y_stride, head, begin), end - begin};
}

// Keys that some of the rows see, from a multiple of 16 on: [begin, end).
struct KeyRange {
  int64_t begin, end;
};
KeyRange KeysOf(const AttentionRow* rows, int64_t count) {
  constexpr int64_t kAligned = 16;
  KeyRange range{std::numeric_limits<int64_t>::max(), 0};
  for (int64_t i = 0; i < count; ++i) {
    if (rows[i].begin == rows[i].end) continue;
    range.begin = std::min(range.begin, rows[i].begin / kAligned * kAligned);
    range.end = std::max(range.end, rows[i].end);
  }
  return {std::min(range.begin, range.end), range.end};
}

AttentionBlock BlockOf(const Context& x, AttentionRow* rows, int64_t count, int64_t first,
                       int64_t keys, float* scores, float* y) {
  const AttentionShape& s = x.shape;
  return {rows,
          count,
          scores,
          x.cut.scores_ld,
          first,
          keys,
          s.scale,
          s.softcap,
          x.mask.seen != nullptr,
          x.mask.stride[3],
          y,
          s.y_stride[2],
          s.width,
          s.rounding};
}

// Few queries: keys and values are read once, where they lie.
void RunFew(const Context& x, int64_t index, float* scratch) {
  const AttentionShape& s = x.shape;
  AttentionRow rows[kGemvRows];
  const Part part = Locate(x, index, rows);
  float* const products = scratch + x.cut.scores;
  const auto [begin, end] = KeysOf(rows, part.rows);
  for (int64_t first = begin; first < end; first += x.cut.keys) {
    const int64_t keys = std::min(x.cut.keys, end - first);
    const bool is_later = first > begin;
    GemvBlock(part.rows, 0, keys, s.size, part.q, s.q_stride[2], part.k + first * s.k_stride[2],
              s.k_stride[2], true, scratch, x.cut.scores_ld);
    SoftenBlock(BlockOf(x, rows, part.rows, first, keys, scratch, is_later ? part.y : nullptr));
    float* const out = is_later ? products : part.y;
    const int64_t out_ld = is_later ? s.width : s.y_stride[2];
    GemvBlock(part.rows, 0, s.width, keys, scratch, x.cut.scores_ld, part.v + first * s.v_stride[2],
              s.v_stride[2], false, out, out_ld);
    if (!is_later) continue;
    for (int64_t r = 0; r < part.rows; ++r) {
      float* const y = part.y + r * s.y_stride[2];
      for (int64_t e = 0; e < s.width; ++e) y[e] += products[r * s.width + e];
    }
  }
  FinishRows(rows, part.rows, s.zero_blind, s.zero_nan, s.rounding, part.y, s.y_stride[2], s.width);
}

void RunMany(const Context& x, int64_t index, float* scratch) {
  const AttentionShape& s = x.shape;
  AttentionRow rows[kPartQueries];
  const Part part = Locate(x, index, rows);
  float* const packed_keys = scratch + x.cut.scores;
  float* const packed_values = packed_keys + x.cut.packed_keys;
  const int64_t panel = GemmPanelWidth();
  const auto [begin, end] = KeysOf(rows, part.rows);
  for (int64_t first = begin; first < end; first += x.cut.keys) {
    const int64_t keys = std::min(x.cut.keys, end - first);
    const float* const k = part.k + (s.k_transposed ? first : first * s.k_stride[2]);
    PackPanels(s.size, keys, k, s.k_stride[2], !s.k_transposed, 0, keys, packed_keys);
    PackPanels(keys, s.width, part.v + first * s.v_stride[2], s.v_stride[2], false, 0, s.width,
               packed_values);
    for (int64_t row = 0; row < part.rows; row += x.cut.group) {
      const int64_t count = std::min(x.cut.group, part.rows - row);
      const KeyRange own = KeysOf(rows + row, count);
      const int64_t unseen = std::max<int64_t>(own.begin - first, 0);
      const int64_t seen = std::min(keys, own.end - first);
      if (seen <= unseen) continue;
      const bool is_later = own.begin < first;
      float* const y = part.y + row * s.y_stride[2];
      GemmBlockArgs args{};
      args.rows = count;
      args.a = part.q + row * s.q_stride[2];
      args.lda = s.q_stride[2];
      args.b = args.next = packed_keys;
      args.k_total = args.kc = s.size;
      args.n_total = keys;
      args.n0 = unseen / panel * panel;
      args.n1 = std::min(keys, RoundUp(seen, panel));
      args.c = scratch;
      args.ldc = x.cut.scores_ld;
      GemmBlock(args);
      SoftenBlock(BlockOf(x, rows + row, count, first, seen, scratch, is_later ? y : nullptr));
      args.a = scratch + unseen;
      args.lda = x.cut.scores_ld;
      args.b = args.next = packed_values;
      args.k_total = keys;
      args.k0 = unseen;
      args.kc = seen - unseen;
      args.n0 = 0;
      args.n_total = args.n1 = s.width;
      args.c = y;
      args.ldc = s.y_stride[2];
      args.accumulate = is_later;
      GemmBlock(args);
    }
  }
  FinishRows(rows, part.rows, s.zero_blind, s.zero_nan, s.rounding, part.y, s.y_stride[2], s.width);
}

// Queries, keys and values as pairs of bfloat16. False, and to be done in float32, if they or the
// weights are not all such, or subnormal.
bool RunPairs(const Context& x, int64_t index, float* scratch) {
  const AttentionShape& s = x.shape;
  AttentionRow rows[kPartQueries];
  const Part part = Locate(x, index, rows);
  auto* const scores = reinterpret_cast<uint32_t*>(scratch);
  uint32_t* const packed_keys = scores + x.cut.scores;
  uint32_t* const packed_values = packed_keys + x.cut.packed_keys;
  uint32_t* const queries = packed_values + x.cut.packed_values;
  const int64_t panel = GemmPanelWidth(), keys = KeysOf(rows, part.rows).end;
  const int64_t queries_ld = Bf16RowWords(s.size);
  // Values do not need their place yet.
  if (!Bf16PackPanels(part.k, s.k_stride[2], !s.k_transposed, s.size, keys, packed_values,
                      packed_keys) ||
      !Bf16PackPanels(part.v, s.v_stride[2], false, keys, s.width, nullptr, packed_values)) {
    return false;
  }
  for (int64_t row = 0; row < part.rows; row += x.cut.group) {
    const int64_t count = std::min(x.cut.group, part.rows - row);
    const int64_t seen = KeysOf(rows + row, count).end;
    if (!Bf16PackRows(part.q + row * s.q_stride[2], s.q_stride[2], count, s.size, queries,
                      queries_ld)) {
      return false;
    }
    Bf16BlockArgs args{};
    args.rows = count;
    args.a_pairs = queries;
    args.pairs_ld = queries_ld;
    args.b = args.next = packed_keys;
    args.k_total = s.size;
    args.pairs = CeilDiv(s.size, 2);
    args.n_total = keys;
    args.n1 = std::min(keys, RoundUp(seen, panel));
    args.c = scratch;
    args.ldc = x.cut.scores_ld;
    Bf16Block(args);
    SoftenBlock(BlockOf(x, rows + row, count, 0, seen, scratch, nullptr));
    // In place: a row of pairs is half as long.
    if (!Bf16PackRows(scratch, x.cut.scores_ld, count, seen, scores, x.cut.scores_ld)) return false;
    args.a_pairs = scores;
    args.pairs_ld = x.cut.scores_ld;
    args.b = args.next = packed_values;
    args.k_total = keys;
    args.pairs = CeilDiv(seen, 2);
    args.n_total = args.n1 = s.width;
    args.c = part.y + row * s.y_stride[2];
    args.ldc = s.y_stride[2];
    Bf16Block(args);
  }
  FinishRows(rows, part.rows, s.zero_blind, s.zero_nan, s.rounding, part.y, s.y_stride[2], s.width);
  return true;
}

// One query of each head: heads that share keys are rows of one problem.
void JoinGroups(AttentionShape* shape, AttentionMask* mask) {
  if (shape->queries != 1 || shape->group == 1) return;
  AttentionShape& s = *shape;
  if (s.causal) s.keys = std::clamp<int64_t>(s.ahead + 1, 0, s.keys);
  s.causal = false;
  s.queries = s.group;
  s.heads /= s.group;
  for (int64_t* stride : {s.q_stride, s.y_stride, mask->stride, mask->count_stride,
                          mask->first_stride, mask->sink_stride}) {
    stride[2] = stride[1];
    stride[1] *= s.group;
  }
  s.group = 1;
}

}  // namespace

size_t AttentionScratchBytes(const AttentionShape& shape, int threads) {
  AttentionShape joined = shape;
  AttentionMask mask;
  JoinGroups(&joined, &mask);
  return CutAttention(joined).SlotBytes() * static_cast<size_t>(ScratchSlots::CountFor(threads));
}

void Attention(const AttentionShape& given, const float* q, const float* k, const float* v,
               const AttentionMask& given_mask, float* y, void* scratch, const Parallel& par) {
  AttentionShape shape = given;
  AttentionMask mask = given_mask;
  JoinGroups(&shape, &mask);
  const Cut cut = CutAttention(shape);
  ScratchSlots slots(scratch, cut.SlotBytes(), ScratchSlots::CountFor(par.threads));
  const Context x{shape, cut, q, k, v, mask, y};
  par.For(CeilDiv(cut.items, cut.per_task), [&](int64_t task) {
    const ScratchSlots::Lease lease(slots);
    const int64_t end = std::min(cut.items, (task + 1) * cut.per_task);
    for (int64_t i = task * cut.per_task; i < end; ++i) {
      if (cut.few) {
        RunFew(x, i, lease.floats());
      } else if (!cut.pairs || !RunPairs(x, i, lease.floats())) {
        RunMany(x, i, lease.floats());
      }
    }
  });
}

}  // namespace sardonyx
