#include "kernels/gemm_int8.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

// Processors that multiply bytes (VNNI) are a target of their own here alone.
#define HWY_WANT_AVX3_DL
#include "base/round.h"
#include "kernels/gemm_int8_amx.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm_int8.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"
#include "kernels/int8_excess-inl.h"
#include "kernels/int8_products-inl.h"
#include "kernels/int8_store-inl.h"
#include "kernels/int8_tile_store-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

// As many sums as registers allow, with two columns of B and a group of A beside them.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
constexpr int kTileRows = 14;
#elif HWY_TARGET == HWY_NEON
constexpr int kTileRows = 12;
#else
constexpr int kTileRows = 6;
#endif

// A panel is widened once for so many tiles, else by each tile: that adds 3 to 4 % to its products
// (Zen 3), but nothing to the time that few rows wait for weights.
constexpr int64_t kLeastTilesOfWidened = 4;

// Rows cut into as few tiles as can be, the first ones a row higher than the others.
struct TileHeights {
  explicit TileHeights(int64_t rows)
      : count((rows + kTileRows - 1) / kTileRows), least(rows / count), higher(rows % count) {}
  int64_t count, least, higher;
  int64_t Of(int64_t tile) const { return least + (tile < higher ? 1 : 0); }
};

// What a tile multiplies.
struct TileOperands {
  const uint8_t* a;    // row 0
  int64_t a_bytes;     // from a row to the next
  int64_t line_bytes;  // from the first half of the rows to the second, in tiles of two lines
  const uint8_t* b;    // the panel
  int64_t groups, segments, segment_bytes;
  const int32_t* init;
  int64_t init_stride;  // from a row to the next, of Groups::kBytes: 0, if all begin alike
  // Memory to have in the second-level cache soon, some of it with each group: more at a time
  // than a core can wait for would hold it up.
  const uint8_t* next;
  int64_t next_step;
};

// What a tile multiplies: what the target does (see kGroup), groups of bytes or pairs of int16;
// groups of bytes on a target that has both (kAddsBytes), or may have (kMayHaveVnni). Or, where
// sums alone are stored: groups of int16 and bytes, which it widens; pairs of int16.
enum class Groups : uint8_t { kOwn, kBytes, kVnni, kWidened, kPairs, kVnniPairs };
constexpr bool StoresSums(Groups groups) { return groups >= Groups::kWidened; }

// The first two of the groups in `b`, and the other two, as int16 (see Int8OrderPairs).
HWY_INLINE Lanes LowPairs(Lanes b) {
  const hn::Repartition<int16_t, Sums> pairs;
  return hn::BitCast(Sums(), hn::ShiftRight<8>(hn::ShiftLeft<8>(hn::BitCast(pairs, b))));
}
HWY_INLINE Lanes HighPairs(Lanes b) {
  const hn::Repartition<int16_t, Sums> pairs;
  return hn::BitCast(Sums(), hn::ShiftRight<8>(hn::BitCast(pairs, b)));
}

// A panel of so many groups as pairs of int16 [2 * groups, kWidth, 2].
void WidenPanel(const uint8_t* HWY_RESTRICT panel, int64_t groups, int32_t* HWY_RESTRICT to) {
  const Sums d;
  const hn::Repartition<uint8_t, Sums> bytes;
  for (int64_t g = 0; g < groups; ++g, to += 2 * kWidth) {
    for (int64_t j = 0; j < kWidth; j += kSumLanes, panel += 4 * kSumLanes) {
      const Lanes values = hn::BitCast(d, hn::Load(bytes, panel));
      hn::Store(LowPairs(values), d, to + j);
      hn::Store(HighPairs(values), d, to + kWidth + j);
    }
  }
}

// From here on in a register: what is added to a sum later is not added up before, which would take
// more registers than there are, and what several use is not loaded for each.
HWY_INLINE void KeepInRegister(Lanes& value) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  __asm__("" : "+v"(value.raw));
#elif HWY_ARCH_X86
  __asm__("" : "+x"(value.raw));
#elif HWY_ARCH_ARM
  __asm__("" : "+w"(value.raw));
#endif
}

// The k loop of a small tile runs several times interleaved, each with sums of its own: alone it
// would wait for the latency of the products.
constexpr int SplitsOf(int rows, int vectors) {
  const int sums = rows * vectors;
  return sums == 1 ? 8 : sums == 2 ? 4 : sums <= 4 ? 2 : 1;
}

// How the rows of a tile are reached: five a pointer, as their multiples of a_bytes fit into
// registers.
template <int kM, int kLines>
struct RowPointers {
  static constexpr int kLineRows = kM / kLines, kOfLine = (kLineRows + 4) / 5;
  static constexpr int kCount = kLines * kOfLine;
};

// Adds a group's products to the sums: group `at` of those that `from` leads to, and of b.
template <int kM, int kLines, bool kFlip, Groups kGroups, int kVectors>
SARDONYX_INT8_TILE HWY_INLINE void AddGroupOf(
    const uint8_t* (&from)[RowPointers<kM, kLines>::kCount], int at, int64_t a_bytes,
    const uint8_t* HWY_RESTRICT b, Lanes (&sums)[kM][2]) {
  using Pointers = RowPointers<kM, kLines>;
  const Sums d;
  const hn::Repartition<uint8_t, Sums> bytes;
  constexpr int kWords = kGroups == Groups::kWidened ? 2 : 1;  // of a group of A
  Lanes group0 = hn::BitCast(d, hn::Load(bytes, b));
  Lanes group1 = hn::BitCast(d, hn::Load(bytes, b + 4 * kSumLanes));
  if constexpr (kM == 2 || kM == 3) {
    KeepInRegister(group0);
    KeepInRegister(group1);
  }
#pragma GCC unroll 2
  for (int word = 0; word < kWords; ++word) {
    Lanes b0 = group0, b1 = group1;
    if constexpr (kWords == 2) {
      b0 = word == 0 ? LowPairs(b0) : HighPairs(b0);
      b1 = word == 0 ? LowPairs(b1) : HighPairs(b1);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kM; ++r) {
      const int line = r / Pointers::kLineRows, row = r % Pointers::kLineRows;
      const uint8_t* const row_words =
          from[line * Pointers::kOfLine + row / 5] + row % 5 * a_bytes + at * 4 * kWords;
      int32_t values;
      std::memcpy(&values, row_words + 4 * word, 4);
      Lanes av = hn::Set(d, values);
      if constexpr (kFlip) av = hn::Xor(av, hn::BitCast(d, hn::Set(bytes, uint8_t{0x80})));
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        auto& sum = sums[r][v];
        const Lanes bv = v == 0 ? b0 : b1;
        if constexpr (kGroups == Groups::kBytes) {
          sum = AddByteProducts(sum, av, b + v * 4 * kSumLanes);
        } else if constexpr (kGroups == Groups::kVnni) {
          sum = AddVnniProducts(sum, av, bv);
        } else if constexpr (kGroups == Groups::kVnniPairs ||
                             (kGroups == Groups::kPairs && kGroup == 4)) {
          sum = AddPairs(sum, bv, av);
        } else {
          sum = AddProducts(sum, av, bv);
        }
        if constexpr (kWords == 2) KeepInRegister(sum);
      }
    }
  }
}

// Sums of kM rows, in kLines lines, and one panel, or of the first kVectors vectors of its columns:
// others have weights of zero.
template <int kM, int kLines, bool kFlip, Groups kGroups, int kVectors>
SARDONYX_INT8_TILE HWY_NOINLINE void Tile(const TileOperands& in, const TileResult& to) {
  const Sums d;
  if (to.kind == TileResult::Kind::kBytesWithResidual) {
    for (int r = 0; r < kM; ++r) __builtin_prefetch(to.residual + r * to.residual_stride, 1);
  }
  if (to.kind == TileResult::Kind::kBytes) {
    for (int r = 0; r < kM; ++r) {
      __builtin_prefetch(static_cast<uint8_t*>(to.y) + r * to.y_stride, 1);
    }
  }
  using Pointers = RowPointers<kM, kLines>;
  constexpr int kGroupBytes = kGroups == Groups::kWidened ? 8 : 4;  // of A
  constexpr int kSplits = SplitsOf(kM, kVectors);
  Lanes sums[kSplits][kM][2];
#pragma GCC unroll 16
  for (int r = 0; r < kM; ++r) {
    const int32_t* const init = in.init + (kGroups == Groups::kBytes ? r * in.init_stride : 0);
    sums[0][r][0] = hn::LoadU(d, init);
    if constexpr (kVectors == 2) sums[0][r][1] = hn::LoadU(d, init + kSumLanes);
#pragma GCC unroll 8
    for (int s = 1; s < kSplits; ++s) sums[s][r][0] = sums[s][r][1] = hn::Zero(d);
  }
  const int64_t a_bytes = in.a_bytes;
  const uint8_t *a = in.a, *HWY_RESTRICT b = in.b, *next = in.next;
  for (int64_t segment = 0; segment < in.segments; ++segment, a += in.segment_bytes) {
    const uint8_t* from[Pointers::kCount];
    for (int i = 0; i < Pointers::kCount; ++i) {
      from[i] = a + i / Pointers::kOfLine * in.line_bytes + i % Pointers::kOfLine * 5 * a_bytes;
      __asm__("" : "+r"(from[i]));  // or the compiler sees one pointer
    }
    const auto advance = [&](int groups) {
      b += groups * 8 * kSumLanes;
#pragma GCC unroll 4
      for (int i = 0; i < Pointers::kCount; ++i) {
        from[i] += groups * kGroupBytes;
        // Or the compiler makes a vector of them.
        if constexpr (kGroups == Groups::kBytes) __asm__("" : "+r"(from[i]));
      }
    };
    int64_t left = in.groups;
    for (; left >= kSplits; left -= kSplits) {
#pragma GCC unroll 8
      for (int s = 0; s < kSplits; ++s) {
        __builtin_prefetch(next, 0, 2);
        next += in.next_step;
        AddGroupOf<kM, kLines, kFlip, kGroups, kVectors>(from, s, a_bytes, b + s * 8 * kSumLanes,
                                                         sums[s]);
      }
      advance(kSplits);
    }
    for (; kSplits > 1 && left > 0; --left) {
      __builtin_prefetch(next, 0, 2);
      next += in.next_step;
      AddGroupOf<kM, kLines, kFlip, kGroups, kVectors>(from, 0, a_bytes, b, sums[0]);
      advance(1);
    }
  }
  Lanes acc[kM][2];
#pragma GCC unroll 16
  for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      acc[r][v] = sums[0][r][v];
#pragma GCC unroll 8
      for (int s = 1; s < kSplits; ++s) acc[r][v] = hn::Add(acc[r][v], sums[s][r][v]);
    }
  }
  if constexpr (!StoresSums(kGroups)) {
    if (kVectors < 2 && to.kind != TileResult::Kind::kSums) {
#pragma GCC unroll 16
      for (int r = 0; r < kM; ++r) acc[r][1] = hn::Zero(d);
    }
    switch (to.kind) {
      case TileResult::Kind::kFloats: return StoreFloats<kM>(acc, to);
      case TileResult::Kind::kBytes:
        return to.range.bare ? StoreBytes<kM, false, true>(acc, to)
                             : StoreBytes<kM, false, false>(acc, to);
      case TileResult::Kind::kBytesWithResidual:
        return to.range.bare ? StoreBytes<kM, true, true>(acc, to)
                             : StoreBytes<kM, true, false>(acc, to);
      case TileResult::Kind::kSums: break;
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kM; ++r) {
    hn::Store(acc[r][0], d, to.sums + r * kWidth);
    if constexpr (kVectors == 2) hn::Store(acc[r][1], d, to.sums + r * kWidth + kSumLanes);
  }
}

using TileFn = void (*)(const TileOperands&, const TileResult&);

// By rows of a line, less one.
using TileFns = std::array<TileFn, kTileRows>;
template <int kLines, bool kFlip, Groups kGroups, int kVectors, size_t... kM>
constexpr TileFns MakeTiles(std::index_sequence<kM...>) {
  return {Tile<kLines*(static_cast<int>(kM) + 1), kLines, kFlip, kGroups, kVectors>...};
}
template <int kLines, bool kFlip, Groups kGroups, int kVectors = 2>
constexpr TileFns kTilesOf =
    MakeTiles<kLines, kFlip, kGroups, kVectors>(std::make_index_sequence<kTileRows / kLines>());

// Those for groups of a kind, of one line, of one whose bytes are int8, of two lines; the first two
// also for few columns.
struct Tiles {
  const TileFns &one, &flipping, &two, &narrow, &narrow_flipping;
};
template <Groups kGroups, bool kMayFlip>
constexpr Tiles kAllTilesOf = {kTilesOf<1, false, kGroups>, kTilesOf<1, kMayFlip, kGroups>,
                               kTilesOf<2, false, kGroups>, kTilesOf<1, false, kGroups, 1>,
                               kTilesOf<1, kMayFlip, kGroups, 1>};
// int16 have been flipped as they were widened.
constexpr const Tiles &kOwnTiles = kAllTilesOf < Groups::kOwn, kGroup == 4 > ;
constexpr Groups kBytesAsWell = kAddsBytes ? Groups::kBytes : Groups::kOwn;
constexpr const Tiles &kByteTiles = kAllTilesOf < kBytesAsWell, kAddsBytes || kGroup == 4 > ;
constexpr Groups kVnniOrOwn = kMayHaveVnni ? Groups::kVnni : Groups::kOwn;
constexpr const Tiles &kVnniTiles = kAllTilesOf < kVnniOrOwn, kMayHaveVnni || kGroup == 4 > ;
constexpr Groups kWidenedOrOwn = kGroup == 2 ? Groups::kWidened : Groups::kOwn;
constexpr const TileFns& kWidenedTiles = kTilesOf<1, false, kWidenedOrOwn>;
constexpr Groups kVnniOrOwnPairs = kMayHaveVnni ? Groups::kVnniPairs : Groups::kPairs;
constexpr const TileFns& kOwnPairTiles = kTilesOf<1, false, Groups::kPairs>;
constexpr const TileFns& kVnniPairTiles = kTilesOf<1, false, kVnniOrOwnPairs>;

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
// Short products are multiplied and stored at once: between its groups, a tile of this many rows
// stores the one before, whose sums are in registers as well. Rounding and packing take units of
// the processor that the products leave idle, if it has such; else these tiles take 1.02 to 1.15 of
// the time of larger ones.
constexpr int kPairedRows = 6;
constexpr int64_t kLeastPairedTiles = 4;
static_assert(3 * kTileRows % kPairedRows == 0);
bool Pairs(int64_t groups) { return groups >= 12 && groups <= 64 && !SharesWideUnits(); }
int64_t RowUnit(int64_t groups) { return Pairs(groups) ? 3 * kTileRows : kTileRows; }

// Adds the products of a group of each row, in threes that `from` leads to, and of all columns.
SARDONYX_INT8_TILE HWY_INLINE void AddGroup(const uint8_t* (&from)[2], int64_t a_bytes,
                                            const uint8_t* HWY_RESTRICT& b,
                                            Lanes (&acc)[kPairedRows][2]) {
  const Sums d;
  const hn::Repartition<uint8_t, Sums> bytes;
  const Lanes b0 = hn::BitCast(d, hn::Load(bytes, b));
  const Lanes b1 = hn::BitCast(d, hn::Load(bytes, b + 4 * kSumLanes));
#pragma GCC unroll 16
  for (int r = 0; r < kPairedRows; ++r) {
    int32_t group;
    std::memcpy(&group, from[r / 3] + r % 3 * a_bytes, 4);
    const Lanes av = hn::Set(d, group);
    acc[r][0] = AddProducts(acc[r][0], av, b0);
    acc[r][1] = AddProducts(acc[r][1], av, b1);
  }
  b += 8 * kSumLanes;
  from[0] += 4;
  from[1] += 4;
}

// The `tiles` next to each other from row 0 on, and one panel.
template <bool kResidual, bool kBare>
SARDONYX_INT8_TILE HWY_NOINLINE void PairedTiles(const TileOperands& in, const TileResult& given,
                                                 int64_t tiles) {
  const Sums d;
  const TileResult to = given;
  const Int8Rescale rescale = *given.rescale;
  const int64_t a_bytes = in.a_bytes, third = in.groups / 3;
  const uint8_t *a = in.a, *next = in.next;
  // The first tile has none before it.
  uint8_t nowhere[2 * kWidth] = {};
  uint8_t* y = nowhere;
  const uint8_t* residual = nowhere;
  int64_t y_stride = 0, residual_stride = 0;
  Lanes before[kPairedRows][2];
#pragma GCC unroll 16
  for (int r = 0; r < kPairedRows; ++r) before[r][0] = before[r][1] = hn::Zero(d);
  for (int64_t tile = 0; tile < tiles; ++tile) {
    for (int64_t i = 0; i < in.next_step; i += 64, next += 64) __builtin_prefetch(next, 0, 2);
    Lanes acc[kPairedRows][2];
#pragma GCC unroll 16
    for (int r = 0; r < kPairedRows; ++r) {
      acc[r][0] = hn::LoadU(d, in.init);
      acc[r][1] = hn::LoadU(d, in.init + kSumLanes);
    }
    const uint8_t* from[] = {a, a + 3 * a_bytes};
    __asm__("" : "+r"(from[0]), "+r"(from[1]));  // or the compiler sees one pointer
    a += kPairedRows * a_bytes;
    const uint8_t* HWY_RESTRICT b = in.b;
#pragma GCC unroll 4
    for (int r = 0; r < kPairedRows; r += 2) {
      for (int64_t g = 0; g < third; ++g) AddGroup(from, a_bytes, b, acc);
      StoreTwoRows<kResidual, kBare>(before[r], before[r + 1], y + r * y_stride, y_stride,
                                     residual + r * residual_stride, residual_stride, to, rescale);
    }
    for (int64_t g = 3 * third; g < in.groups; ++g) AddGroup(from, a_bytes, b, acc);
    y = tile == 0 ? static_cast<uint8_t*>(to.y) : y + kPairedRows * y_stride;
    y_stride = to.y_stride;
    if constexpr (kResidual) {
      residual = tile == 0 ? to.residual : residual + kPairedRows * residual_stride;
      residual_stride = to.residual_stride;
    }
#pragma GCC unroll 16
    for (int r = 0; r < kPairedRows; ++r) {
      __builtin_prefetch(kResidual ? residual + r * residual_stride : y + r * y_stride, 1);
      before[r][0] = acc[r][0];
      before[r][1] = acc[r][1];
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kPairedRows; r += 2) {
    StoreTwoRows<kResidual, kBare>(before[r], before[r + 1], y + r * y_stride, y_stride,
                                   residual + r * residual_stride, residual_stride, to, rescale);
  }
}

// Few rows that are left take as long as many: some more are left for a tile with them.
int64_t PairedTilesOf(const Int8BlockArgs& args, TileResult::Kind kind) {
  if (!Pairs(args.groups) || args.segments > 1 || args.lines > 1 || args.flip) return 0;
  if (kind != TileResult::Kind::kBytes && kind != TileResult::Kind::kBytesWithResidual) return 0;
  const int64_t tiles = args.rows / kPairedRows - (args.rows % kPairedRows == 0 ? 0 : 1);
  return tiles >= kLeastPairedTiles ? tiles : 0;
}

// The panel of column n; gives the rows that are done.
HWY_NOINLINE int64_t RunPairedTiles(const Int8BlockArgs& args, int64_t tiles, int64_t n,
                                    TileOperands in, TileResult to) {
  in.a = static_cast<const uint8_t*>(args.a);
  in.next_step = (kWidth * in.groups * 4 + tiles - 1) / tiles;
  to.y = static_cast<uint8_t*>(args.store.y) + n;
  if (to.kind == TileResult::Kind::kBytes) {
    (to.range.bare ? PairedTiles<false, true> : PairedTiles<false, false>)(in, to, tiles);
  } else {
    to.residual = static_cast<const uint8_t*>(args.store.residual) + n;
    (to.range.bare ? PairedTiles<true, true> : PairedTiles<true, false>)(in, to, tiles);
  }
  return tiles * kPairedRows;
}
#else
int64_t RowUnit(int64_t) { return kTileRows; }
int64_t PairedTilesOf(const Int8BlockArgs&, TileResult::Kind) { return 0; }
int64_t RunPairedTiles(const Int8BlockArgs&, int64_t, int64_t, const TileOperands&,
                       const TileResult&) {
  return 0;
}
#endif

bool MultipliesByVnni() { return kMayHaveVnni && HasAvxVnni(); }

void Block(const Int8BlockArgs& args) {
  HWY_ALIGN int32_t sums[kTileRows * kWidth];
  const Tiles& tiles_of = MultipliesByVnni()              ? kVnniTiles
                          : args.excess_counts != nullptr ? kByteTiles
                                                          : kOwnTiles;
  // Tiles of even height, or of two short lines each.
  const bool are_short = args.lines > 1 && 2 * args.rows <= kTileRows;
  const TileHeights heights(args.rows);
  const bool widens = kGroup == 2 && &tiles_of == &kOwnTiles;
  const bool widens_panels =
      widens && args.widened != nullptr && heights.count * args.lines >= kLeastTilesOfWidened;
  const bool tiles_widen = widens && !widens_panels;
  const int64_t at_once = are_short && !tiles_widen ? 2 : 1;
  const int64_t tiles = heights.count * ((args.lines + at_once - 1) / at_once);
  const TileResult::Kind kind =
      args.row_sums != nullptr || tiles_widen
          ? TileResult::Kind::kSums
          : KindOf(args.store.rescale, args.first_column + args.n0, args.first_column + args.n1);
  TileResult to{
      .sums = sums, .rescale = args.store.rescale, .residual_stride = args.store.residual_stride};
  if (to.rescale != nullptr) to.range = RangeOf(*to.rescale);
  TileOperands in{};
  in.a_bytes = args.a_bytes;
  in.line_bytes = args.line_bytes;
  in.groups = widens_panels ? 2 * args.groups : args.groups;
  in.segments = args.segments;
  in.segment_bytes = args.segment_bytes;
  const int64_t groups = args.groups * args.segments, panel_bytes = kWidth * groups * 4;
  const int64_t paired = PairedTilesOf(args, kind);
  // Each tile fetches its share of the next panel.
  const int64_t share = (panel_bytes + tiles - 1) / tiles;
  ExcessSums excess(args);
  for (int64_t n = args.n0; n < args.n1; n += kWidth) {
    in.b = static_cast<const uint8_t*>(args.b) + n * groups * 4;
    in.init = args.init + n;
    in.init_stride = 0;
    const bool exceeds = excess.Begin(n);
    to.columns = std::min(args.n1 - n, kWidth);
    const bool is_narrow = to.columns <= kSumLanes;
    const bool whole = to.columns == kWidth, parts = !whole && kind == TileResult::Kind::kBytes;
    to.kind = whole || parts ? kind : TileResult::Kind::kSums;
    to.y_stride = parts ? kWidth : args.store.y_stride;
    if (to.kind != TileResult::Kind::kSums) {
      to.scale = to.rescale->scale + args.first_column + n;
      to.offset = to.rescale->offset + args.first_column + n;
    }
    // What lies behind the last panel is mostly the next step's first one (see LastingMemory).
    in.next = in.b + panel_bytes;
    in.next_step = (share + groups - 1) / groups;
    if (widens_panels) {
      WidenPanel(in.b, groups, args.widened);
      in.b = reinterpret_cast<const uint8_t*>(args.widened);
      in.next_step = (in.next_step + 1) / 2;
    }
    const int64_t done = whole && paired > 0 ? RunPairedTiles(args, paired, n, in, to) : 0;
    for (int64_t line = 0; line < args.lines; line += at_once) {
      const int64_t lines = std::min(at_once, args.lines - line);
      for (int64_t i = 0, first = done, rows; first < args.rows; ++i, first += rows) {
        rows = std::min(args.rows - first, heights.Of(i));
        const int64_t row = line * args.rows + first;
        const Int8Store store = args.store.From(row, n);
        to.y = parts ? sums : store.y;
        to.residual = static_cast<const uint8_t*>(store.residual);
        in.a = static_cast<const uint8_t*>(args.a) + line * args.line_bytes + first * args.a_bytes;
        if (exceeds) {
          in.init = excess.Of(row, rows * lines);
          in.init_stride = kWidth;
        }
        const auto at = static_cast<size_t>(rows - 1);
        (tiles_widen  ? kWidenedTiles
         : lines == 2 ? tiles_of.two
         : is_narrow  ? (args.flip ? tiles_of.narrow_flipping : tiles_of.narrow)
         : args.flip  ? tiles_of.flipping
                      : tiles_of.one)[at](in, to);
        in.next += share;
        if (parts) {
          CopyRows(reinterpret_cast<const uint8_t*>(sums), rows * lines, to.columns,
                   static_cast<uint8_t*>(store.y), store.y_stride);
        }
        if (to.kind != TileResult::Kind::kSums) continue;
        if (args.row_sums != nullptr) AddRowSums(args, row, rows * lines, n, to.columns, sums);
        StoreSums(sums, kWidth, rows * lines, to.columns, args.first_column + n, store);
      }
    }
  }
}

void PairProduct(const Int16Product& args) {
  HWY_ALIGN static constexpr int32_t kZeros[kWidth] = {};
  const TileHeights heights(args.rows);
  // Each tile fetches its share of the panel behind.
  const int64_t share = (kWidth * args.pairs * 4 + heights.count - 1) / heights.count;
  TileOperands in{};
  in.a_bytes = args.a_stride * 2;
  in.b = reinterpret_cast<const uint8_t*>(args.b);
  in.groups = args.pairs;
  in.segments = 1;
  in.init = kZeros;
  in.next = static_cast<const uint8_t*>(args.next);
  in.next_step = in.next == nullptr ? 0 : (share + args.pairs - 1) / args.pairs;
  if (in.next == nullptr) in.next = in.b;
  TileResult to;
  const TileFns& tiles = MultipliesByVnni() ? kVnniPairTiles : kOwnPairTiles;
  for (int64_t i = 0, row = 0; i < heights.count; ++i) {
    const int64_t rows = heights.Of(i);
    in.a = reinterpret_cast<const uint8_t*>(args.a + row * args.a_stride);
    to.sums = args.y + row * kWidth;
    tiles[static_cast<size_t>(rows - 1)](in, to);
    if (in.next_step > 0) in.next += share;
    row += rows;
  }
}

int64_t Width() { return kWidth; }
int64_t Rows() { return kTileRows; }
bool Widens() { return kGroup == 2 && !MultipliesByVnni(); }
bool SplitsExcess() { return kAddsBytes && !MultipliesByVnni(); }

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Block);
HWY_EXPORT(PairProduct);
HWY_EXPORT(Width);
HWY_EXPORT(Rows);
HWY_EXPORT(RowUnit);
HWY_EXPORT(Widens);
HWY_EXPORT(SplitsExcess);

int64_t Int8PanelWidth() { return HWY_DYNAMIC_DISPATCH(Width)(); }
int64_t Int8TileRows() { return HasMatrixTiles() ? kInt8AmxRows : HWY_DYNAMIC_DISPATCH(Rows)(); }
int64_t Int8RowUnit(int64_t groups) {
  return HasMatrixTiles() ? 2 * kInt8AmxRows : HWY_DYNAMIC_DISPATCH(RowUnit)(groups);
}
bool Int8Widens() { return HWY_DYNAMIC_DISPATCH(Widens)(); }
bool Int8SplitsExcess() { return HWY_DYNAMIC_DISPATCH(SplitsExcess)(); }
size_t Int8ExcessBytes(int64_t rows, int64_t groups) {
  return AlignBytes(static_cast<size_t>(RoundUp(rows, 8) * (groups + Int8PanelWidth()) * 4));
}

size_t Int8WidenedBytes(int64_t groups) {
  return AlignBytes(static_cast<size_t>(groups * Int8PanelWidth() * 8));
}

void Int8Block(const Int8BlockArgs& args) {
  if (Int8AmxTakes(args)) return Int8BlockByAmx(args);
  HWY_DYNAMIC_DISPATCH(Block)(args);
}
void MultiplyInt16(const Int16Product& args) { HWY_DYNAMIC_DISPATCH(PairProduct)(args); }
}  // namespace sardonyx
#endif  // HWY_ONCE
