#include <algorithm>

#include "ops/contrib/shapes.h"
#include "ops/contrib/standard.h"

namespace sardonyx::ops::contrib {
namespace {

enum Input : size_t { kInput, kPositions, kCosine, kSine };

// Rows of the cache for each position in time, height and width.
struct Streams {
  Val positions[3];
  std::vector<int64_t> sections;

  // Each stream has columns of its own, side by side.
  Val Sectioned(Val cache) const {
    std::vector<Val> parts;
    int64_t begin = 0;
    for (size_t i = 0; i < 3; ++i) {
      const int64_t end = begin + sections[i];
      if (sections[i] > 0)
        parts.push_back(Gather(Slice(cache, {begin}, {end}, {1}), positions[i], 0));
      begin = end;
    }
    return parts.size() > 1 ? Concat(parts, 2) : parts[0];
  }

  // Every third column from 1 on is of height, every third from 2 on of width, as far as their
  // sections go; all others are of time.
  Val Interleaved(Val cache, int64_t columns) const {
    Val result = Gather(cache, positions[0], 0);
    for (int64_t i = 1; i < 3; ++i) {
      Tensor mine = MakeFilled(DType::kBool, {columns}, 0);
      bool any = false;
      for (int64_t c = i; c < columns && c / 3 < sections[i]; c += 3) {
        any = static_cast<bool*>(mine.raw())[c] = true;
      }
      if (any)
        result = Where(cache.builder->Constant(mine), Gather(cache, positions[i], 0), result);
    }
    return result;
  }
};

}  // namespace

// Rotary embedding by three positions of each token, each of which turns some of the pairs.
// `is_packed_batching` is about what sequences the positions belong to, which is in their values.
Outputs LowerMRotaryEmbedding(Lowering& op) {
  const Val x = op.in(kInput), positions = op.in(kPositions);
  const int rank = x.rank();
  if (rank != 3 && rank != 4) op.Fail("input has rank {}, not 3 or 4", rank);
  const Dim batch = x.shape()[0], tokens = x.shape()[rank == 3 ? 1 : 2];
  ExpectShape(op, positions, "position_ids", {3, batch, tokens});
  ExpectRank(op, op.in(kCosine), "cos_cache", 2);
  ExpectShape(op, op.in(kSine), "sin_cache", op.in(kCosine).shape());

  const int64_t heads = op.Int("num_heads"), given = op.Int("rotary_embedding_dim");
  if (heads < 0) op.Fail("attribute num_heads is {}", heads);
  if (rank == 3 && heads == 0) op.Fail("an input of rank 3 needs the attribute num_heads");
  if (rank == 3 && x.size(2) % heads != 0) {
    op.Fail("input has {} features, which {} heads do not divide", x.size(2), heads);
  }
  const int64_t size = rank == 3 ? x.size(2) / heads : x.size(3);
  const int64_t turned = given == 0 ? size : given;
  if (turned < 2 || turned % 2 != 0 || turned > size) {
    op.Fail("{} features of a head of {} cannot be turned in pairs", turned, size);
  }
  Streams streams{.positions = {}, .sections = op.Ints("mrope_section")};
  if (streams.sections.size() != 3) {
    op.Fail("attribute mrope_section has {} numbers, not 3", streams.sections.size());
  }
  int64_t rest = turned / 2;
  for (const int64_t section : streams.sections) {
    if (section < 0 || section > rest) {
      op.Fail("attribute mrope_section is {},{},{}, which is no division of {} pairs",
              streams.sections[0], streams.sections[1], streams.sections[2], turned / 2);
    }
    rest -= section;
  }
  if (rest != 0)
    op.Fail("attribute mrope_section is of {} pairs, not {}", turned / 2 - rest, turned / 2);
  if (op.in(kCosine).size(1) != turned / 2) {
    op.Fail("cos_cache has {} columns, not {}", op.in(kCosine).size(1), turned / 2);
  }
  const int64_t layout = op.Int("mrope_layout");
  if (layout != 0 && layout != 1) op.Fail("attribute mrope_layout is {}, not 0 or 1", layout);

  for (int64_t i = 0; i < 3; ++i) {
    streams.positions[i] = Squeeze(Slice(positions, {i}, {i + 1}, {0}), {0});
  }
  const double scale = op.Float("scale", 1);
  const auto rows = [&](Val cache) {
    const Val found =
        layout == 0 ? streams.Sectioned(cache) : streams.Interleaved(cache, turned / 2);
    return scale == 1 ? found : found * scale;
  };
  return Standard(op, "RotaryEmbedding", {x, rows(op.in(kCosine)), rows(op.in(kSine))},
                  {{"interleaved", op.Int("interleaved")},
                   {"num_heads", heads},
                   {"rotary_embedding_dim", turned}});
}

}  // namespace sardonyx::ops::contrib
