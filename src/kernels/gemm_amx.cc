#include "kernels/gemm_amx.h"

#include <algorithm>
#include <cstring>

// Processors with tiles are among those of this target.
#define HWY_WANT_AVX3_DL
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm_amx.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"
#include "kernels/amx-inl.h"
#include "kernels/tile_store-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_AVX3_DL

namespace hn = hwy::HWY_NAMESPACE;

using Reals = hn::CappedTag<float, 16>;
using Words = hn::RebindToUnsigned<Reals>;
using Halves = hn::Repartition<int16_t, Words>;
using V = hn::Vec<Reals>;
constexpr int64_t kLanes = 16, kWidth = 2 * kLanes;

// How thirds lie in the scratch. A step is 32 of K; a row of a step and a third are 16 words, each
// of which holds the bfloat16 of two values 16 apart.
constexpr int64_t kStep = 32, kRowBytes = 64, kThirds = 3;
// Of A: pairs of tiles of rows, step by step, third by third. A row between these keeps what is
// written for one row of A from falling into one set of the cache.
constexpr int64_t kLeftThirdBytes = (2 * kTileRows + 1) * kRowBytes;
constexpr int64_t kLeftStepBytes = kThirds * kLeftThirdBytes;
// Of a panel of B: step by step, third by third, both tiles of columns.
constexpr int64_t kRightThirdBytes = 2 * kTileRows * kRowBytes;
constexpr int64_t kRightStepBytes = kThirds * kRightThirdBytes;

// Of a tile: the sizes of its rows' largest values, at most kLarge but where they are not ordinary;
// and the least that is not zero, 0 if one is not ordinary.
struct RowSizes {
  int16_t rows[kTileRows];
  int16_t least;
};

struct Scratch {
  int64_t steps, pairs;  // of K; of tiles
  int64_t left_bytes, right_bytes, row_bytes, size_bytes;

  Scratch(int64_t rows, int64_t kc)
      : steps(CeilDiv(kc, kStep)),
        pairs(CeilDiv(rows, 2 * kTileRows)),
        left_bytes(pairs * steps * kLeftStepBytes),
        right_bytes(steps * kRightStepBytes),
        row_bytes(steps * kStep * 4),
        size_bytes(RoundUp(2 * pairs * static_cast<int64_t>(sizeof(RowSizes)), 64)) {}
};

// Sizes are bfloat16 without the sign. Thirds of the least one are normal, as are products of two
// that are 2^-100 together, such as of the least and a large one.
constexpr int16_t kLeast = (127 - 90) << 7, kLarge = (127 - 10) << 7, kInfinity = 0x7f80;
bool IsOrdinary(int16_t largest) {
  return largest == 0 || (largest >= kLeast && largest < kInfinity);
}
bool AreOrdinary(int16_t row, int16_t column) {
  return (row >> 7) + (column >> 7) >= 2 * 127 - 100;
}

// Thirds of values in pairs, and the size of the largest of each column of words.
class Splitter {
 public:
  HWY_INLINE Splitter() : largest_(hn::Zero(Halves())) {}
  HWY_INLINE void Split(V x, V y, uint8_t* to, int64_t third_bytes) {
    const Words words;
    const Halves halves;
    const auto first = Pair(&x, &y);
    const auto sizes = hn::And(hn::BitCast(halves, first), hn::Set(halves, int16_t{0x7fff}));
    largest_ = hn::Max(largest_, sizes);
    hn::Store(first, words, reinterpret_cast<uint32_t*>(to));
    hn::Store(Pair(&x, &y), words, reinterpret_cast<uint32_t*>(to + third_bytes));
    const auto rest = hn::OrAnd(hn::ShiftRight<16>(hn::BitCast(words, x)), hn::BitCast(words, y),
                                hn::Set(words, kUpper));
    hn::Store(rest, words, reinterpret_cast<uint32_t*>(to + 2 * third_bytes));
  }
  HWY_INLINE hn::Vec<Halves> largest() const { return largest_; }

 private:
  static constexpr uint32_t kUpper = 0xffff0000u;

  // Rounds to bfloat16, in magnitude half a unit up, and takes that from the values.
  static HWY_INLINE hn::Vec<Words> Pair(V* x, V* y) {
    const Reals d;
    const Words words;
    const auto half = hn::Set(words, 0x8000u), upper = hn::Set(words, kUpper);
    const auto a = hn::Add(hn::BitCast(words, *x), half);
    const auto b = hn::Add(hn::BitCast(words, *y), half);
    *x = hn::Sub(*x, hn::BitCast(d, hn::And(a, upper)));
    *y = hn::Sub(*y, hn::BitCast(d, hn::And(b, upper)));
    return hn::OrAnd(hn::ShiftRight<16>(a), b, upper);
  }

  hn::Vec<Halves> largest_;
};

// Splits a row of A; returns the size of its largest value, or kLarge if that is larger.
HWY_INLINE int16_t SplitRow(const float* HWY_RESTRICT a, int64_t kc, uint8_t* HWY_RESTRICT to) {
  const Reals d;
  Splitter splitter;
  int64_t k = 0;
  for (; k + kStep <= kc; k += kStep, to += kLeftStepBytes) {
    splitter.Split(hn::LoadU(d, a + k), hn::LoadU(d, a + k + kLanes), to, kLeftThirdBytes);
  }
  if (k < kc) {
    const int64_t rest = kc - k;
    const auto part = [&](int64_t begin) HWY_ATTR {
      const auto count = static_cast<size_t>(std::clamp<int64_t>(rest - begin, 0, kLanes));
      return hn::MaskedLoad(hn::FirstN(d, count), d, a + k + begin);
    };
    splitter.Split(part(0), part(kLanes), to, kLeftThirdBytes);
  }
  const Halves halves;
  const auto largest = splitter.largest();
  const auto is_over = hn::Gt(largest, hn::Set(halves, int16_t{kInfinity - 1}));
  const auto is_large = hn::Gt(largest, hn::Set(halves, int16_t{kLarge - 1}));
  if (hn::AllFalse(halves, is_over) && !hn::AllFalse(halves, is_large)) return kLarge;
  return hn::GetLane(hn::MaxOfLanes(halves, largest));
}

// Splits a panel of B step by step: one ahead of the products that need it.
class PanelSplitter {
 public:
  PanelSplitter(const float* panel, int64_t width, int64_t kc, uint8_t* to)
      : from_(panel), width_(width), left_(kc), to_(to) {}

  // Pairs of rows [begin, end) of the present step; of the last one those behind K are zeros.
  HWY_INLINE void Rows(int64_t begin, int64_t end) {
    HWY_ALIGN static constexpr float kZeros[kWidth] = {};
    const Reals d;
    const auto first = hn::FirstN(d, static_cast<size_t>(std::min(width_, kLanes)));
    const auto second = hn::FirstN(d, static_cast<size_t>(std::max(width_ - kLanes, int64_t{0})));
    for (int64_t j = begin; j < end; ++j) {
      const float* const x = j < left_ ? from_ + j * width_ : kZeros;
      const float* const y = j + kLanes < left_ ? from_ + (j + kLanes) * width_ : kZeros;
      uint8_t* const to = to_ + j * kRowBytes;
      first_.Split(hn::MaskedLoad(first, d, x), hn::MaskedLoad(first, d, y), to, kRightThirdBytes);
      second_.Split(hn::MaskedLoad(second, d, x + kLanes), hn::MaskedLoad(second, d, y + kLanes),
                    to + kTileRows * kRowBytes, kRightThirdBytes);
    }
  }
  HWY_INLINE void Next() {
    from_ += kStep * width_;
    left_ -= kStep;
    to_ += kRightStepBytes;
  }
  // The size of the smallest of the columns' largest values that are not zero (kInfinity if there
  // is none), or 0 if some column is none for tiles.
  int16_t Smallest() const {
    HWY_ALIGN int16_t sizes[2][2 * kLanes];
    hn::Store(first_.largest(), Halves(), sizes[0]);
    hn::Store(second_.largest(), Halves(), sizes[1]);
    int16_t smallest = kInfinity;
    for (const auto& half : sizes) {
      for (int64_t j = 0; j < 2 * kLanes; j += 2) {
        const int16_t largest = std::max(half[j], half[j + 1]);
        if (!IsOrdinary(largest)) return 0;
        if (largest != 0) smallest = std::min(smallest, largest);
      }
    }
    return smallest;
  }

 private:
  const float* from_;
  int64_t width_, left_;
  uint8_t* to_;
  Splitter first_, second_;
};

template <bool kTwo>
HWY_INLINE void LoadLeft(const uint8_t* a, int64_t height) {
  LoadTile<4>(a, kRowBytes);
  if constexpr (kTwo) LoadTile<5>(a + height * kRowBytes, kRowBytes);
}
HWY_INLINE void LoadRight(const uint8_t* b) {
  LoadTile<6>(b, kRowBytes);
  LoadTile<7>(b + kTileRows * kRowBytes, kRowBytes);
}
template <bool kTwo>
HWY_INLINE void AddFour() {
  AddTilePairs<0, 4, 6>();
  AddTilePairs<1, 4, 7>();
  if constexpr (kTwo) {
    AddTilePairs<2, 5, 6>();
    AddTilePairs<3, 5, 7>();
  }
}

// What products fetch on their way: lines of the next panel, and the rows that they will be stored
// to, a few at each part of a step, for more at a time would keep tiles waiting.
constexpr int64_t kParts = 6;
struct Ahead {
  const float* next;
  int64_t lines;  // at each part
  float* c;
  int64_t ldc, rows;

  HWY_INLINE void Part() {
    for (int64_t i = 0; i < lines; ++i, next += kLanes) __builtin_prefetch(next, 0, 2);
    if (rows <= 0) return;
    __builtin_prefetch(c, 1);
    __builtin_prefetch(c + kLanes, 1);
    c += ldc;
    --rows;
  }
};

// sums[2 * kTileRows, kWidth]: of the pair of tiles of rows at `a`, or the one, with the panel at
// `b`, which is split on the way if kSplits.
template <bool kTwo, bool kSplits>
HWY_NOINLINE void Multiply(const uint8_t* a, int64_t height, const uint8_t* b, int64_t steps,
                           PanelSplitter* splitter, Ahead ahead, KeptAwake& awake, float* sums) {
  ZeroSumTiles();
  if constexpr (kSplits) splitter->Rows(0, kTileRows);
  for (int64_t step = 0; step < steps; ++step, a += kLeftStepBytes, b += kRightStepBytes) {
    const bool splits = kSplits && step + 1 < steps;
    const auto between = [&](int64_t begin, int64_t end) HWY_ATTR {
      ahead.Part();
      if (kSplits && splits) splitter->Rows(begin, end);
    };
    if (splits) splitter->Next();
    // The small ones first.
    LoadRight(b + 2 * kRightThirdBytes);
    LoadLeft<kTwo>(a, height);
    AddFour<kTwo>();
    between(0, 3);
    LoadRight(b + kRightThirdBytes);
    AddFour<kTwo>();
    between(3, 6);
    LoadLeft<kTwo>(a + kLeftThirdBytes, height);
    AddFour<kTwo>();
    between(6, 9);
    LoadRight(b);
    AddFour<kTwo>();
    between(9, 12);
    LoadLeft<kTwo>(a + 2 * kLeftThirdBytes, height);
    AddFour<kTwo>();
    between(12, 14);
    LoadLeft<kTwo>(a, height);
    AddFour<kTwo>();
    between(14, 16);
    awake.Step(6);
  }
  StoreSumTiles(sums, kWidth * 4);
}

// A block, its rows in tiles of even height; the last one goes over rows again that the one before
// has had.
class TileBlock {
 public:
  explicit TileBlock(const GemmBlockArgs& args)
      : args_(args),
        scratch_(args.rows, args.kc),
        count_(CeilDiv(args.rows, kTileRows)),
        height_(CeilDiv(args.rows, count_)),
        tiles_(TileShapes(static_cast<int>(height_), kTileRows)) {
    left_ = static_cast<uint8_t*>(args.thirds);
    right_ = left_ + scratch_.left_bytes;
    row_ = reinterpret_cast<float*>(right_ + scratch_.right_bytes);
    sizes_ = reinterpret_cast<RowSizes*>(right_ + scratch_.right_bytes + scratch_.row_bytes);
  }

  void Run() {
    for (int64_t n = args_.n0; n < args_.n1; n += kWidth) {
      Panel panel{.n = n, .columns = std::min(kWidth, args_.n_total - n), .smallest = kInfinity};
      const int64_t width = RoundUp(panel.columns, kPanelGranule);
      const float* const from = args_.b + n * args_.k_total + args_.k0 * width;
      PanelSplitter splitter(from, width, args_.kc, right_);
      // What lies behind the last panel may be what another thread writes.
      Ahead ahead{};
      ahead.next = n + kWidth >= args_.n1 ? args_.next : from + args_.k_total * width;
      const int64_t parts = kParts * scratch_.steps;
      if (ahead.next != nullptr) {
        ahead.lines = CeilDiv(args_.kc * width / kLanes, scratch_.pairs * parts);
      }
      ahead.ldc = args_.ldc;
      const bool splits_rows = n == args_.n0 && !args_.has_thirds;
      for (int64_t tile = 0; tile < count_; tile += 2, at_ ^= 1) {
        if (splits_rows) SplitRows(tile);
        const bool two = tile + 1 < count_;
        uint8_t* const a = left_ + tile / 2 * scratch_.steps * kLeftStepBytes;
        ahead.c = args_.c + RowOf(tile) * args_.ldc + n;
        ahead.rows = two ? 2 * height_ : height_;
        if (tile == 0) {
          const auto multiply = two ? Multiply<true, true> : Multiply<false, true>;
          multiply(a, height_, right_, scratch_.steps, &splitter, ahead, awake_, sums_[at_]);
          panel.smallest = splitter.Smallest();
        } else {
          const auto multiply = two ? Multiply<true, false> : Multiply<false, false>;
          multiply(a, height_, right_, scratch_.steps, nullptr, ahead, awake_, sums_[at_]);
        }
        if (ahead.next != nullptr) ahead.next += ahead.lines * parts * kLanes;
        FinishLast();
        if (panel.smallest == 0) {
          // The other rows are split if they have to be.
          for (int64_t t = 2; splits_rows && t < count_; t += 2) SplitRows(t);
          MultiplyByVectors(n);
          break;
        }
        last_ = {panel, tile, two ? 2 : 1, sums_[at_]};
      }
    }
    FinishLast();
  }

 private:
  struct Panel {
    int64_t n, columns;
    int16_t smallest;  // see PanelSplitter
  };
  // Tiles that are multiplied, but not finished.
  struct Last {
    Panel panel;
    int64_t tile;
    int tiles;
    float* sums;
  };

  int64_t RowOf(int64_t tile) const { return std::min(tile * height_, args_.rows - height_); }

  // Row `row` of A in one piece.
  const float* Row(int64_t row) {
    const float* const a = args_.a + row * args_.lda;
    if (args_.a_pieces <= 1) return a;
    const int64_t run = args_.kc / args_.a_pieces;
    for (int64_t i = 0; i < args_.a_pieces; ++i) {
      const float* const from =
          a + (args_.a_starts == nullptr ? i * args_.a_step : args_.a_starts[i]);
      std::memcpy(row_ + i * run, from, static_cast<size_t>(run) * 4);
    }
    return row_;
  }

  // A pair of tiles, or the last one.
  void SplitRows(int64_t tile) {
    uint8_t* to = left_ + tile / 2 * scratch_.steps * kLeftStepBytes;
    // A row takes some 10 cycles a step, and as many beside; four products take 64.
    const int slept = static_cast<int>(scratch_.steps / 6 + 1);
    for (int64_t t = tile; t < std::min(tile + 2, count_); ++t) {
      int16_t least = kInfinity;
      for (int64_t r = 0; r < height_; ++r, to += kRowBytes) {
        const int16_t size = SplitRow(Row(RowOf(t) + r), args_.kc, to);
        sizes_[t].rows[r] = size;
        if (size != 0) least = std::min(least, IsOrdinary(size) ? size : int16_t{0});
        awake_.Step(slept);
      }
      sizes_[t].least = least;
    }
  }

  // A panel that is none for tiles, all rows.
  void MultiplyByVectors(int64_t n) const {
    GemmBlockArgs args = args_;
    args.thirds = nullptr;
    args.n0 = n;
    args.n1 = std::min(n + kWidth, args_.n1);
    GemmBlock(args);
  }

  // Row `row` of a panel by vectors: alone, so that it is summed alike in any block.
  void MultiplyRow(int64_t row, const Panel& panel, float* sums) const {
    GemmBlockArgs args{};
    args.a = args_.a + row * args_.lda;
    args.lda = args_.lda;
    args.a_pieces = args_.a_pieces;
    args.a_step = args_.a_step;
    args.a_starts = args_.a_starts;
    args.rows = 1;
    args.b = args_.b + panel.n * args_.k_total;
    args.k_total = args_.k_total;
    args.k0 = args_.k0;
    args.kc = args_.kc;
    args.n_total = args.n1 = panel.columns;
    args.c = sums;
    args.ldc = kWidth;
    GemmBlock(args);
  }

  // Finishes the sums of the tiles before, which have left for memory while others were multiplied.
  void FinishLast() {
    float* sums = last_.sums;
    for (int64_t tile = last_.tile; tile < last_.tile + last_.tiles; ++tile) {
      if (!AreOrdinary(sizes_[tile].least, last_.panel.smallest)) {
        for (int64_t r = 0; r < height_; ++r) {
          const int16_t size = sizes_[tile].rows[r];
          if (size == 0 || (IsOrdinary(size) && AreOrdinary(size, last_.panel.smallest))) continue;
          MultiplyRow(RowOf(tile) + r, last_.panel, sums + r * kWidth);
        }
      }
      Finish(tile, last_.panel, sums);
      sums += kTileRows * kWidth;
    }
    last_.tiles = 0;
  }

  void Finish(int64_t tile, const Panel& panel, const float* sums) const {
    const int64_t begin = tile * height_, again = begin - RowOf(tile), rows = height_ - again;
    float* c = args_.c + begin * args_.ldc + panel.n;
    sums += again * kWidth;
    TileStore store = StoreOf(args_.accumulate, args_.epilogue, panel.n);
    store.residual = ResidualOf(args_.epilogue, begin, panel.n);
    constexpr int64_t kTogether = 8;
    int64_t r = 0;
    for (; r + kTogether <= rows && panel.columns == kWidth; r += kTogether) {
      V acc[kTogether][2];
#pragma GCC unroll 8
      for (int64_t i = 0; i < kTogether; ++i) {
        acc[i][0] = hn::Load(Reals(), sums + (r + i) * kWidth);
        acc[i][1] = hn::Load(Reals(), sums + (r + i) * kWidth + kLanes);
      }
      StoreTile(Reals(), acc, c + r * args_.ldc, args_.ldc, store);
      if (store.residual != nullptr) store.residual += kTogether * store.residual_ld;
    }
    FinishTile(sums + r * kWidth, kWidth, rows - r, panel.columns, c + r * args_.ldc, args_.ldc,
               store);
    if (args_.epilogue != nullptr && args_.epilogue->activation.kind != Activation::Kind::kNone) {
      ApplyActivation(args_.epilogue->activation, c, args_.ldc, rows, panel.columns);
    }
  }

  const GemmBlockArgs& args_;
  const Scratch scratch_;
  const int64_t count_, height_;
  const Tiles tiles_;
  uint8_t *left_, *right_;
  float* row_;
  RowSizes* sizes_;  // of each tile
  KeptAwake awake_;
  Last last_{};
  int at_ = 0;  // of the sums
  HWY_ALIGN float sums_[2][2 * kTileRows * kWidth];
};

void Block(const GemmBlockArgs& args) { TileBlock(args).Run(); }
size_t Bytes(int64_t rows, int64_t kc) {
  const Scratch s(rows, kc);
  return static_cast<size_t>(s.left_bytes + s.right_bytes + s.row_bytes + s.size_bytes);
}

void AddSums(const GemmSums& x) {
  TileStore store = StoreOf(true, x.epilogue, 0);
  store.residual = ResidualOf(x.epilogue, 0, 0);
  FinishTile(x.sums, x.sums_ld, x.rows, x.columns, x.c, x.ldc, store);
  if (x.epilogue != nullptr) {
    ApplyActivation(x.epilogue->activation, x.c, x.ldc, x.rows, x.columns);
  }
}

#else
void AddSums(const GemmSums&) {}
void Block(const GemmBlockArgs&) {}
size_t Bytes(int64_t, int64_t) { return 0; }  // there are none
#endif

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(AddSums);
HWY_EXPORT(Block);
HWY_EXPORT(Bytes);

size_t GemmAmxBytes(int64_t rows, int64_t kc) { return HWY_DYNAMIC_DISPATCH(Bytes)(rows, kc); }

void GemmBlockByAmx(const GemmBlockArgs& args) { HWY_DYNAMIC_DISPATCH(Block)(args); }
void AddGemmSums(const GemmSums& args) { HWY_DYNAMIC_DISPATCH(AddSums)(args); }

}  // namespace sardonyx
#endif  // HWY_ONCE
