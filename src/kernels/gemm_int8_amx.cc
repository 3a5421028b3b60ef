// A block of 32 columns (a panel) and up to 32 rows is four tiles of sums. Vectors cannot read
// tiles, so sums go through memory: tile by tile within the first step of the block behind, which
// then waits less for them, and from there to results.

#include "kernels/gemm_int8_amx.h"

#include <algorithm>
#include <cstring>

// Processors that multiply bytes (VNNI) are a target of their own; those that have tiles do.
#define HWY_WANT_AVX3_DL
#include "base/round.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm_int8_amx.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"
#include "kernels/amx-inl.h"
#include "kernels/int8_products-inl.h"
#include "kernels/int8_store-inl.h"
#include "kernels/int8_tile_store-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_AVX3_DL

static_assert(kTileRows == kInt8AmxRows);
constexpr int64_t kTileGroups = kTileBytes / 4;
constexpr int64_t kGroupBytes = kWidth * 4;  // of a panel
constexpr int64_t kMostTails = 9;            // segments whose last steps are copied

// The groups of a segment in steps of one size. Where that is not possible the last step goes over
// groups again that the one before has had; a copy of the panel has zeros there.
struct Steps {
  explicit Steps(int64_t all)
      : count(CeilDiv(all, kTileGroups)),
        is_even(all % count == 0),
        groups(is_even ? all / count : kTileGroups),
        last(all - groups) {}
  int64_t count;
  bool is_even;
  int64_t groups;
  int64_t last;  // the first group of the last step
};

// A block's rows in tiles of even height. The last tile goes over rows again that the one before
// has had. Lines that lie whole rows apart count as one, if that makes fewer tiles: what lies
// between them is multiplied as well, and left.
struct RowTiles {
  explicit RowTiles(const Int8BlockArgs& args)
      : rows(args.rows), in_line(CeilDiv(rows, kTileRows)), count(args.lines * in_line) {
    if (args.lines > 1 && args.line_bytes % args.a_bytes == 0) {
      const int64_t apart = args.line_bytes / args.a_bytes, all = (args.lines - 1) * apart + rows;
      if (apart >= rows && CeilDiv(all, kTileRows) < count) {
        pitch = apart;
        line = all;
        in_line = count = CeilDiv(all, kTileRows);
      }
    }
    height = CeilDiv(line, in_line);
  }
  int64_t rows;
  int64_t in_line, count;
  int64_t line = rows, pitch = rows;  // rows of a line, and to the next one, as tiles see them
  int64_t height = 0;

  // Of a tile: the line, its first row there, and how many of its rows have been.
  int64_t LineOf(int64_t tile) const { return tile / in_line; }
  int64_t RowOf(int64_t tile) const { return std::min(tile % in_line * height, line - height); }
  int64_t AgainOf(int64_t tile) const { return tile % in_line * height - RowOf(tile); }
};

// Rows of a tile's sums on their way to y.
struct Unstored {
  TileResult to;
  int32_t* sums = nullptr;
  int64_t row = 0, rows = 0;  // as tiles see them, from the block's first
  int64_t n = 0;
};

HWY_INLINE void LoadSums(const int32_t* from, Lanes (&sums)[2]) {
  const Sums d;
  sums[0] = hn::Load(d, from);
  sums[1] = hn::Load(d, from + kSumLanes);
}

// All rows, straight to results.
template <bool kResidual, bool kBare>
SARDONYX_INT8_TILE HWY_NOINLINE void StoreRowsOfBytes(const Unstored& u) {
  const TileResult to = u.to;
  const Int8Rescale rescale = *to.rescale;
  auto* const y = static_cast<uint8_t*>(to.y);
  for (int64_t row = 0; row < u.rows; row += 2) {
    const int64_t next = row + 1 < u.rows ? 1 : 0;  // or the same again
    Lanes first[2], second[2];
    LoadSums(u.sums + row * kWidth, first);
    LoadSums(u.sums + (row + next) * kWidth, second);
    StoreTwoRows<kResidual, kBare>(first, second, y + row * to.y_stride, next * to.y_stride,
                                   to.residual + row * to.residual_stride,
                                   next * to.residual_stride, to, rescale);
  }
}

SARDONYX_INT8_TILE HWY_NOINLINE void StoreRowsOfFloats(const Unstored& u) {
  TileResult to = u.to;
  for (int64_t row = 0; row < u.rows; ++row) {
    to.y = static_cast<float*>(u.to.y) + row * to.y_stride;
    Lanes sums[1][2];
    LoadSums(u.sums + row * kWidth, sums[0]);
    StoreFloats<1>(sums, to);
  }
}

// Rows [row, row + u.rows) of the block.
void StoreRows(const Int8BlockArgs& args, int64_t row, Unstored u) {
  const Int8Store store = args.store.From(row, u.n);
  u.to.y = store.y;
  u.to.residual = static_cast<const uint8_t*>(store.residual);
  const bool is_bare = u.to.range.bare;
  HWY_ALIGN uint8_t bytes[kTileRows * kWidth];
  switch (u.to.kind) {
    case TileResult::Kind::kSums:
      if (args.row_sums != nullptr) AddRowSums(args, row, u.rows, u.n, u.to.columns, u.sums);
      StoreSums(u.sums, kWidth, u.rows, u.to.columns, args.first_column + u.n, store);
      break;
    case TileResult::Kind::kFloats: StoreRowsOfFloats(u); break;
    case TileResult::Kind::kBytes:
      if (u.to.columns < kWidth) u.to.y = bytes;
      is_bare ? StoreRowsOfBytes<false, true>(u) : StoreRowsOfBytes<false, false>(u);
      if (u.to.columns < kWidth) {
        CopyRows(bytes, u.rows, u.to.columns, static_cast<uint8_t*>(store.y), store.y_stride);
      }
      break;
    case TileResult::Kind::kBytesWithResidual:
      is_bare ? StoreRowsOfBytes<true, true>(u) : StoreRowsOfBytes<true, false>(u);
      break;
  }
}

// All rows that are no gap between lines.
void StoreLines(const Int8BlockArgs& args, int64_t pitch, Unstored& all) {
  while (all.rows > 0) {
    const int64_t line = all.row / pitch, row = all.row % pitch;
    const int64_t here = std::min(all.rows, pitch - row);
    Unstored part = all;
    part.rows = std::min(here, args.rows - row);
    if (part.rows > 0) StoreRows(args, line * args.rows + row, part);
    all.sums += here * kWidth;
    all.row += here;
    all.rows -= here;
  }
}

// Where a tile's sums begin and where those before them go, if anywhere.
struct FirstStep {
  const int32_t* init;
  int32_t* before;
};

// Tile kSums begins with init in each row.
template <int kSums>
HWY_INLINE void BeginSums(const FirstStep& first) {
  constexpr int kRow = kSums / 2 * kTileRows, kColumn = kSums % 2 * static_cast<int>(kSumLanes);
  if (first.before != nullptr) {
    StoreTile<kSums>(first.before + kRow * kWidth + kColumn, kWidth * 4);
  }
  LoadTile<kSums>(first.init + kColumn, 0);
}

// Weights to have in the second-level cache soon, some lines of them with each step, spread over
// its products: many at once keep waiting what tiles are loaded from (BERT of bytes: all of a
// step's 1.02 times as long, a page's 1.13).
struct Ahead {
  const uint8_t* at;
  int64_t lines;

  template <int kQuarter>
  HWY_INLINE void Fetch() {
    for (int64_t i = (lines + 3 - kQuarter) / 4; i > 0; --i, at += 64) {
      __builtin_prefetch(at, 0, 2);
    }
  }
};

// Rows of floats that are to be written, some of them with each step: they come from memory first.
struct RowsAhead {
  const float* at = nullptr;
  int64_t stride = 0, rows = 0, in_step = 0;

  HWY_INLINE void Fetch() {
    for (int64_t i = std::min(in_step, rows); i > 0; --i, --rows, at += stride) {
      __builtin_prefetch(at, 1, 3);
      __builtin_prefetch(at + kSumLanes, 1, 3);
    }
  }
};

// The products of one step: of two tiles of rows, or one, with both tiles of columns. In the first
// step sums begin just before they are needed: moved all at once, nothing else would go on.
template <bool kSigned, bool kTwo, bool kFirst>
HWY_INLINE void MultiplyStep(const uint8_t* a0, const uint8_t* a1, int64_t a_bytes,
                             const uint8_t* b, Ahead& ahead,
                             [[maybe_unused]] const FirstStep& first) {
  LoadTile<6>(b, kGroupBytes);
  LoadTile<4>(a0, a_bytes);
  if constexpr (kFirst) BeginSums<0>(first);
  AddTileProducts<0, 4, 6, kSigned>();
  ahead.Fetch<0>();
  LoadTile<7>(b + kGroupBytes / 2, kGroupBytes);
  if constexpr (kFirst) BeginSums<1>(first);
  AddTileProducts<1, 4, 7, kSigned>();
  ahead.Fetch<1>();
  if constexpr (kTwo) {
    LoadTile<5>(a1, a_bytes);
    if constexpr (kFirst) BeginSums<2>(first);
    AddTileProducts<2, 5, 6, kSigned>();
    ahead.Fetch<2>();
    if constexpr (kFirst) BeginSums<3>(first);
    AddTileProducts<3, 5, 7, kSigned>();
    ahead.Fetch<3>();
  } else {
    if constexpr (kFirst) {
      BeginSums<2>(first);
      BeginSums<3>(first);
    }
    ahead.Fetch<2>();
    ahead.Fetch<3>();
  }
}

// What the tiles of a panel have in common.
struct Panel {
  const uint8_t* b;
  const uint8_t* tails;  // the last steps of all segments, where steps are not even
  const int32_t* init;
  Ahead ahead;
};

// Adds up the products of one or two tiles of rows, whose first ones are given. The sums before
// them go to first.before, and from there to results.
template <bool kSigned, bool kTwo>
void MultiplyTiles(const Int8BlockArgs& args, const Steps& steps, int64_t pitch, Panel& panel,
                   const uint8_t* a0, const uint8_t* a1, RowsAhead results, const FirstStep& first,
                   Unstored (&before)[2]) {
  KeptAwake awake;
  const uint8_t* b = panel.b;
  Ahead ahead = panel.ahead;
  results.in_step = CeilDiv(results.rows, args.segments * steps.count);
  for (int64_t segment = 0; segment < args.segments; ++segment) {
    for (int64_t step = 0; step < steps.count; ++step) {
      results.Fetch();
      int64_t at = step * steps.groups;
      const uint8_t* right = b + at * kGroupBytes;
      if (!steps.is_even && step + 1 == steps.count) {
        at = steps.last;
        right = panel.tails + segment * kTileGroups * kGroupBytes;
      }
      if (segment == 0 && step == 0) {
        MultiplyStep<kSigned, kTwo, true>(a0 + 4 * at, a1 + 4 * at, args.a_bytes, right, ahead,
                                          first);
        for (Unstored& u : before) StoreLines(args, pitch, u);
        continue;
      }
      MultiplyStep<kSigned, kTwo, false>(a0 + 4 * at, a1 + 4 * at, args.a_bytes, right, ahead,
                                         first);
      awake.Step();
    }
    b += args.groups * kGroupBytes;
    a0 += args.segment_bytes;
    a1 += args.segment_bytes;
  }
  panel.ahead.at = ahead.at;
}

// Floats alone: bytes are a fourth, and took no less time (ResNet-50).
RowsAhead ResultsOf(const Int8BlockArgs& args, const TileResult& to, const RowTiles& rows,
                    int64_t tile, int64_t n) {
  if (to.kind != TileResult::Kind::kFloats || args.lines > 1) return {};
  const int64_t first = rows.RowOf(tile);
  return {.at = static_cast<const float*>(args.store.From(first, n).y),
          .stride = to.y_stride,
          .rows = std::min(2 * rows.height, args.rows - first)};
}

template <bool kSigned>
void BlockOf(const Int8BlockArgs& args) {
  HWY_ALIGN int32_t sums[2][2 * kTileRows * kWidth];
  HWY_ALIGN int32_t init[kWidth];
  HWY_ALIGN uint8_t tails[kMostTails * kTileGroups * kGroupBytes];
  const Steps steps(args.groups);
  const RowTiles rows(args);
  const Tiles tiles(TileShapes(rows.height, steps.groups));
  TileResult to{.rescale = args.store.rescale,
                .y_stride = args.store.y_stride,
                .residual_stride = args.store.residual_stride};
  const TileResult::Kind kind =
      args.row_sums != nullptr
          ? TileResult::Kind::kSums
          : KindOf(args.store.rescale, args.first_column + args.n0, args.first_column + args.n1);
  if (to.rescale != nullptr) to.range = RangeOf(*to.rescale);
  const int64_t panel_bytes = args.segments * args.groups * kGroupBytes;
  Unstored before[2];
  int at = 0;  // of the sums
  const auto begin_of = [&](int64_t tile) {
    return static_cast<const uint8_t*>(args.a) + rows.LineOf(tile) * args.line_bytes +
           rows.RowOf(tile) * args.a_bytes;
  };
  for (int64_t n = args.n0; n < args.n1; n += kWidth) {
    Panel panel{};
    panel.b = static_cast<const uint8_t*>(args.b) + n / kWidth * panel_bytes;
    panel.init = args.init + n;
    if constexpr (kSigned) {  // 128 is not added
      for (int64_t j = 0; j < kWidth; ++j) {
        const auto sum = static_cast<uint32_t>(args.column_sums[n + j]);
        init[j] = static_cast<int32_t>(static_cast<uint32_t>(args.init[n + j]) + 128 * sum);
      }
      panel.init = init;
    }
    if (!steps.is_even) {
      constexpr int64_t kBytes = kTileGroups * kGroupBytes;
      const int64_t again = steps.count * kTileGroups - args.groups;
      panel.tails = tails;
      for (int64_t segment = 0; segment < args.segments; ++segment) {
        const uint8_t* const from =
            panel.b + (segment * args.groups + steps.last + again) * kGroupBytes;
        std::memset(tails + segment * kBytes, 0, static_cast<size_t>(again * kGroupBytes));
        std::memcpy(tails + segment * kBytes + again * kGroupBytes, from,
                    static_cast<size_t>(kBytes - again * kGroupBytes));
      }
    }
    // What lies behind the last panel is mostly the next step's first one (see LastingMemory).
    panel.ahead.at = panel.b + panel_bytes;
    panel.ahead.lines =
        CeilDiv(panel_bytes / 64, CeilDiv(rows.count, 2) * args.segments * steps.count);
    to.columns = std::min(args.n1 - n, kWidth);
    to.kind =
        to.columns == kWidth || kind == TileResult::Kind::kBytes ? kind : TileResult::Kind::kSums;
    if (to.columns < kWidth) to.y_stride = kWidth;
    if (to.kind != TileResult::Kind::kSums) {
      to.scale = to.rescale->scale + args.first_column + n;
      to.offset = to.rescale->offset + args.first_column + n;
    }
    for (int64_t tile = 0; tile < rows.count; tile += 2, at ^= 1) {
      const bool two = tile + 1 < rows.count;
      const uint8_t *const a0 = begin_of(tile), *const a1 = begin_of(two ? tile + 1 : tile);
      const FirstStep first{panel.init, before[0].rows > 0 ? sums[at ^ 1] : nullptr};
      const RowsAhead results = ResultsOf(args, to, rows, tile, n);
      if (two) {
        MultiplyTiles<kSigned, true>(args, steps, rows.pitch, panel, a0, a1, results, first,
                                     before);
      } else {
        MultiplyTiles<kSigned, false>(args, steps, rows.pitch, panel, a0, a1, results, first,
                                      before);
      }
      for (int i = 0; i < (two ? 2 : 1); ++i) {
        const int64_t again = rows.AgainOf(tile + i);
        before[i] = {.to = to,
                     .sums = sums[at] + (i * kTileRows + again) * kWidth,
                     .row = rows.LineOf(tile + i) * rows.pitch + rows.RowOf(tile + i) + again,
                     .rows = rows.height - again,
                     .n = n};
      }
    }
  }
  StoreSumTiles(sums[at ^ 1], kWidth * 4);
  for (Unstored& u : before) StoreLines(args, rows.pitch, u);
}

void Block(const Int8BlockArgs& args) { args.flip ? BlockOf<true>(args) : BlockOf<false>(args); }

bool Takes(const Int8BlockArgs& args) {
  constexpr int64_t kLeastRows = 4;
  if (args.lines * args.rows < kLeastRows) return false;
  if (args.flip && args.column_sums == nullptr) return false;
  return args.segments <= kMostTails || Steps(args.groups).is_even;
}

#else
void Block(const Int8BlockArgs&) {}
bool Takes(const Int8BlockArgs&) { return false; }
#endif

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Block);
HWY_EXPORT(Takes);

bool Int8AmxTakes(const Int8BlockArgs& args) {
  return HasMatrixTiles() && HWY_DYNAMIC_DISPATCH(Takes)(args);
}
void Int8BlockByAmx(const Int8BlockArgs& args) { HWY_DYNAMIC_DISPATCH(Block)(args); }

}  // namespace sardonyx
#endif  // HWY_ONCE
