// Of each block of K the codes of a panel, spread to bytes, times those of the rows are four tiles
// of sums, which vectors then scale and add up while the next block is multiplied.

#include "kernels/rounded_amx.h"

#include <algorithm>
#include <cstring>

// Processors with tiles are among those of this target.
#define HWY_WANT_AVX3_DL
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rounded_amx.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "base/round.h"
#include "hwy/highway.h"
#include "kernels/amx-inl.h"
#include "kernels/gemm_block.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_AVX3_DL

namespace hn = hwy::HWY_NAMESPACE;

using Reals = hn::CappedTag<float, 16>;
using Integers = hn::RebindToSigned<Reals>;
using Words = hn::RebindToUnsigned<Reals>;
using V = hn::Vec<Reals>;
constexpr int64_t kLanes = 16, kWidth = 2 * kLanes;
constexpr int64_t kGroupBytes = kWidth * 4;  // of four codes of each column
constexpr int64_t kMostSpread = 1024;        // rows of B whose codes are bytes at a time
constexpr int64_t kMostBlocks = kMostSpread / 16;

// The codes of a block of a panel as bytes, group by group (see rounded_panel.cc for their order).
template <int kBits>
void Spread(const PanelBlock& block, int64_t words, uint8_t* to) {
  const Words d;
  const auto mask = hn::Set(d, ((1u << kBits) - 1) * 0x01010101u);
  for (int64_t w = 0; w < words; ++w, to += 8 / kBits * kGroupBytes) {
#pragma GCC unroll 2
    for (int64_t v = 0; v < 2; ++v) {
      auto word = hn::LoadU(d, block.words + w * kWidth + v * kLanes);
#pragma GCC unroll 4
      for (int p = 0; p < 8 / kBits; ++p) {
        hn::Store(hn::And(word, mask), d,
                  reinterpret_cast<uint32_t*>(to + p * kGroupBytes + v * kTileBytes));
        word = hn::ShiftRight<kBits % 8>(word);
      }
    }
  }
}

// Some blocks of a panel: their codes as bytes, scales, and zero points times scales.
struct Chunk {
  int64_t first, count;
  HWY_ALIGN uint8_t codes[kMostSpread * kWidth];
  HWY_ALIGN float scales[kMostBlocks][kWidth];
  HWY_ALIGN float zeros[kMostBlocks][kWidth];
};

template <int kBits>
void SpreadBlocks(const NarrowMatrix& b, const void* panel, Chunk& chunk) {
  const Reals d;
  const int64_t words = b.block * kBits / 32;
  for (int64_t i = 0; i < chunk.count; ++i) {
    const PanelBlock block = BlockAt(panel, chunk.first + i, kWidth, words);
    Spread<kBits>(block, words, chunk.codes + i * b.block * kWidth);
    for (int64_t j = 0; j < kWidth; j += kLanes) {
      const V scale = hn::LoadU(d, block.scales + j), offset = hn::LoadU(d, block.offsets + j);
      hn::Store(scale, d, chunk.scales[i] + j);
      // Offsets are of codes with 2^kBits added.
      hn::Store(hn::MulSub(scale, hn::Set(d, static_cast<float>(1 << kBits)), offset), d,
                chunk.zeros[i] + j);
    }
  }
}

// The rows of a tile: of those that it reads, `rows` from `again` on are its own, others another's.
struct TileRows {
  RoundedRows a;  // the first that is read
  float* c;       // of the first of its own
  int64_t again, rows;
};

// sums[2 * kTileRows, kWidth] = the products of codes of block `index` of two tiles of rows, or of
// the first, with those at `codes`.
template <bool kTwo>
HWY_INLINE void MultiplyBlock(const TileRows (&tiles)[2], int64_t index, int64_t block,
                              const uint8_t* codes, int32_t* sums) {
  const int64_t stride = tiles[0].a.stride * 4, step = std::min<int64_t>(block, kTileBytes);
  const auto* a0 = reinterpret_cast<const uint8_t*>(tiles[0].a.codes) + index * block;
  const auto* a1 = reinterpret_cast<const uint8_t*>(tiles[1].a.codes) + index * block;
  ZeroSumTiles();
  for (int64_t k = 0; k < block; k += step, codes += step * kWidth) {
    LoadTile<6>(codes, kGroupBytes);
    LoadTile<4>(a0 + k, stride);
    AddTileCodes<0, 4, 6>();
    LoadTile<7>(codes + kTileBytes, kGroupBytes);
    AddTileCodes<1, 4, 7>();
    if constexpr (kTwo) {
      LoadTile<5>(a1 + k, stride);
      AddTileCodes<2, 5, 6>();
      AddTileCodes<3, 5, 7>();
    }
  }
  StoreSumTiles(sums, kWidth * 4);
}

// totals[kTileRows, kWidth] += the sums of block i of a chunk times the scales of rows and columns,
// less zero points.
template <bool kOneZero>
HWY_INLINE void AddScaled(const TileRows& tile, int64_t blocks, const Chunk& chunk, int64_t i,
                          const int32_t* sums, float* totals) {
  const Reals d;
  const Integers integers;
  const V scale0 = hn::Load(d, chunk.scales[i]), scale1 = hn::Load(d, chunk.scales[i] + kLanes);
  const V zero0 = hn::Load(d, chunk.zeros[i]), zero1 = hn::Load(d, chunk.zeros[i] + kLanes);
  int64_t at = tile.again * blocks + chunk.first + i;
  sums += tile.again * kWidth;
  for (int64_t r = 0; r < tile.rows; ++r, at += blocks, sums += kWidth, totals += kWidth) {
    auto sum0 = hn::Load(integers, sums), sum1 = hn::Load(integers, sums + kLanes);
    if constexpr (kOneZero) {
      int32_t start;
      std::memcpy(&start, tile.a.sums + at, sizeof(start));
      const auto starts = hn::Set(integers, start);
      sum0 = hn::Add(sum0, starts);
      sum1 = hn::Add(sum1, starts);
    }
    const V factor = hn::Set(d, tile.a.scales[at]);
    V total0 = hn::Load(d, totals), total1 = hn::Load(d, totals + kLanes);
    total0 = hn::MulAdd(hn::ConvertTo(d, sum0), hn::Mul(scale0, factor), total0);
    total1 = hn::MulAdd(hn::ConvertTo(d, sum1), hn::Mul(scale1, factor), total1);
    if constexpr (!kOneZero) {
      const V of_row = hn::Set(d, tile.a.sums[at]);
      total0 = hn::MulAdd(zero0, of_row, total0);
      total1 = hn::MulAdd(zero1, of_row, total1);
    }
    hn::Store(total0, d, totals);
    hn::Store(total1, d, totals + kLanes);
  }
}

// c += two tiles of rows, or the first, times all blocks of a chunk; c is written anew by the first
// chunk.
template <bool kOneZero, bool kTwo>
HWY_NOINLINE void MultiplyChunk(const TileRows (&tiles)[2], const NarrowMatrix& b,
                                const Chunk& chunk, int64_t ldc) {
  HWY_ALIGN int32_t sums[2][2 * kTileRows * kWidth];
  HWY_ALIGN float totals[2][kTileRows * kWidth] = {};
  constexpr int kCount = kTwo ? 2 : 1;
  const auto copy_rows = [&](bool back) {
    for (int t = 0; t < kCount; ++t) {
      for (int64_t r = 0; r < tiles[t].rows; ++r) {
        float *const total = totals[t] + r * kWidth, *const c = tiles[t].c + r * ldc;
        std::memcpy(back ? c : total, back ? total : c, sizeof(float) * kWidth);
      }
    }
  };
  if (chunk.first > 0) copy_rows(false);
  const int64_t blocks = Blocks(b);
  const auto add = [&](int64_t i) HWY_ATTR {
    for (int t = 0; t < kCount; ++t) {
      AddScaled<kOneZero>(tiles[t], blocks, chunk, i, sums[i % 2] + t * kTileRows * kWidth,
                          totals[t]);
    }
  };
  for (int64_t i = 0; i < chunk.count; ++i) {
    MultiplyBlock<kTwo>(tiles, chunk.first + i, b.block, chunk.codes + i * b.block * kWidth,
                        sums[i % 2]);
    if (i > 0) add(i - 1);
  }
  add(chunk.count - 1);
  copy_rows(true);
}

template <int kBits>
void MultiplyOf(const NarrowMatrix& b, const void* panel, int64_t m, const RoundedRows& a, float* c,
                int64_t ldc) {
  const int64_t blocks = Blocks(b), count = CeilDiv(m, kTileRows), height = CeilDiv(m, count);
  const Tiles configured(
      TileShapes(static_cast<int>(height), std::min<int64_t>(b.block, kTileBytes) / 4));
  const auto rows_of = [&](int64_t tile) {
    const int64_t begin = m * tile / count, read = std::min(begin, m - height);
    return TileRows{.a = {a.codes + read * a.stride, a.stride, a.scales + read * blocks,
                          a.sums + read * blocks},
                    .c = c + begin * ldc,
                    .again = begin - read,
                    .rows = m * (tile + 1) / count - begin};
  };
  const bool one_zero = b.zero != NarrowMatrix::kNoZero;
  const auto multiply_two = one_zero ? MultiplyChunk<true, true> : MultiplyChunk<false, true>;
  const auto multiply_one = one_zero ? MultiplyChunk<true, false> : MultiplyChunk<false, false>;
  Chunk chunk;
  for (chunk.first = 0; chunk.first < blocks; chunk.first += chunk.count) {
    chunk.count = std::min(blocks - chunk.first, kMostSpread / b.block);
    SpreadBlocks<kBits>(b, panel, chunk);
    for (int64_t tile = 0; tile < count; tile += 2) {
      const bool two = tile + 1 < count;
      const TileRows tiles[2] = {rows_of(tile), rows_of(two ? tile + 1 : tile)};
      (two ? multiply_two : multiply_one)(tiles, b, chunk, ldc);
    }
  }
}

void Multiply(const NarrowMatrix& b, const void* panel, int64_t m, const RoundedRows& a, float* c,
              int64_t ldc) {
  switch (b.type) {
    case DType::kUInt2: return MultiplyOf<2>(b, panel, m, a, c, ldc);
    case DType::kUInt4: return MultiplyOf<4>(b, panel, m, a, c, ldc);
    default: return MultiplyOf<8>(b, panel, m, a, c, ldc);
  }
}
bool Takes(const NarrowMatrix& b) {
  return b.block <= kMostSpread && (b.block <= kTileBytes || b.block % kTileBytes == 0);
}

#else
void Multiply(const NarrowMatrix&, const void*, int64_t, const RoundedRows&, float*, int64_t) {}
bool Takes(const NarrowMatrix&) { return false; }
#endif

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Multiply);
HWY_EXPORT(Takes);

bool RoundedAmxTakes(const NarrowMatrix& b, int64_t width, int64_t m) {
  // Of short blocks most of the time goes into scaling sums, as it does with vectors: of 32 values
  // 16 rows took 1.2 times theirs, 128 rows 0.86 (of 128 values 0.8 and 0.44; Granite Rapids).
  const int64_t least_rows = b.block < 64 ? 64 : 16;
  return m >= least_rows && width == GemmPanelWidth() && HasMatrixTiles() &&
         HWY_DYNAMIC_DISPATCH(Takes)(b);
}
void MultiplyRoundedByAmx(const NarrowMatrix& b, const void* panel, int64_t m, const RoundedRows& a,
                          float* c, int64_t ldc) {
  HWY_DYNAMIC_DISPATCH(Multiply)(b, panel, m, a, c, ldc);
}

}  // namespace sardonyx
#endif  // HWY_ONCE
