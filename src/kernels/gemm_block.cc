#include "kernels/gemm_block.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <variant>

#include "kernels/gemm.h"
#include "kernels/gemm_amx.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm_block.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"
#include "kernels/gemm_products-inl.h"
#include "kernels/tile_store-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using FullTag = hn::ScalableTag<float>;
using NarrowTag = hn::CappedTag<float, 8>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(FullTag()));
constexpr int kWidth = 2 * kLanes;
// As many accumulators as registers allow, with two columns of B and a value of A beside them.
#if HWY_TARGET == HWY_AVX3
constexpr int kRows = 14;
#elif HWY_TARGET == HWY_NEON
constexpr int kRows = 12;
#else
constexpr int kRows = 6;
#endif

constexpr int64_t kShort = 64;
// Of rows that fall into the same lines of the first-level cache, so many a tile stay there: one
// for each of a set's ways. (Zen 4, 3,072 rows of 1,024 by 16 columns: 0.54 of the time of a copy
// whose rows lie apart, by 1,024 columns 0.97.)
constexpr int64_t kCollidingRows = 8;
// Floats. With AVX-512 memory is slower if asked for what lies 6 KiB ahead or more; with AVX2 it is
// faster by 5 % than at half of that (measured on Zen 4 and Zen 3).
constexpr int64_t kSoon = HWY_TARGET == HWY_AVX3 ? 768 : 1536;
// Products in one chain; fewer where each is rounded before it is added.
constexpr int64_t kLongestSum = HWY_NATIVE_FMA ? 512 : kOneChain;
// Rows that an activation sweeps over at a time, for it takes a while to begin and to end; tiles of
// 12 short vectors cost it half of its speed.
constexpr int64_t kSweptRows = HWY_TARGET == HWY_AVX3 ? 1 : 48;
// Of panels of 8, which wait for loads, of B as well. For more rows there are too few pointers.
constexpr int kRows8 = kLanes == 16 ? 21 : 12;

constexpr int64_t kFewTiles = 2;

// Rows of A, of k values in pieces of `run` (the last may be shorter) that begin `step` apart, or
// at `starts`.
struct Rows {
  const float* a;
  int64_t ld;
  int64_t k, run, step;
  const int64_t* starts;
  Ahead ahead;

  // Piece i, behind the one at `before`.
  HWY_INLINE const float* Next(const float* before, int64_t i) const {
    return starts == nullptr ? before + step : a + starts[i];
  }
};

// The k loop of a small tile runs several times interleaved, each with accumulators of its own:
// alone it would wait for the latency of the additions. And GCC 12 would keep B of a tile of 7 rows
// and one split on the stack, at half the speed.
constexpr int SplitsOf(int64_t rows, int vectors) {
  return rows == 1 ? 4 : rows <= 3 || (rows == 7 && vectors == 2) ? 2 : 1;
}
// Tiles of so few rows take as long as their weights to come. Of one long piece, their splits are
// ranges of K one behind the other: memory gives several streams faster than one (Zen 3: 24 instead
// of 16 GB/s), and these need no fetching ahead.
constexpr int64_t kRangedRows = 3;

// How many products are summed in one chain, whole pieces of `rows`, which get their sizes.
int64_t ChainOf(const GemmBlockArgs& args, Rows* rows) {
  const int64_t splits = args.rows <= kRangedRows ? SplitsOf(args.rows, 2) : 1;
  const int64_t longest = kLongestSum * (args.a_pieces > 1 ? 1 : splits);
  const int64_t chains = std::max<int64_t>(1, CeilDiv(args.kc, longest));
  rows->ld = args.lda;
  rows->k = args.kc;
  if (args.a_pieces > 1) {
    rows->run = args.kc / args.a_pieces;
    rows->step = args.a_step;
    rows->starts = args.a_starts;
    return CeilDiv(args.a_pieces, chains) * rows->run;
  }
  rows->run = rows->step = RoundUp(CeilDiv(args.kc, chains), 4);
  return rows->run;
}

// C[kM, kNV vectors] = A * panel of kPanel columns, or as many as the vectors have: in others the
// last ones are zeros.
template <int kM, int kNV, int kPanel, int kEvery, Activation::Kind kActivation, class D>
void Tile(const Rows& rows, const float* HWY_RESTRICT b, float* c, int64_t ldc,
          const TileStore& store) {
  constexpr D d;
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(d));
  constexpr int kSplit = SplitsOf(kM, kNV);
  hn::Vec<D> acc[kSplit][kM][kNV];
  Clear(d, acc);
  for (int r = 0; r < kM && store.residual != nullptr; ++r) {
    for (int v = 0; v < kNV; ++v) {
      __builtin_prefetch(store.residual + r * store.residual_ld + v * kL);
    }
  }
  Ahead ahead = rows.ahead;
  const float* a = rows.a;
  int64_t left = rows.k;
  if constexpr (kM <= kRangedRows) {
    if (rows.run >= left && ReadsRanges(left, kSplit, kWidth * 4)) {
      AddRanges<kPanel>(d, a, rows.ld, left, b, acc);
      left = 0;
    }
  }
  for (int64_t i = 1; left > 0; ++i) {
    const int64_t steps = std::min(rows.run, left);
    AddProducts<kPanel, kEvery>(d, a, rows.ld, steps, b, ahead, acc);
    b += steps * kPanel;
    left -= rows.run;
    if (left > 0) a = rows.Next(a, i);
  }
  JoinSplits(acc);
  StoreTile<kActivation>(d, acc[0], c, ldc, store);
}

#if HWY_TARGET == HWY_AVX3
// The next two rows of a panel of 8 or 24 columns side by side, value by value: in vectors 0 and 1
// of three those of the first 16 columns, as they lie in blocks of 4, in the last vector those of
// the last 8 in order. The second row is zeros if there is only one.
template <bool kBoth, class D, class V, int kNV>
HWY_INLINE void LoadPairs(D d, const float* HWY_RESTRICT b, V (&pairs)[kNV]) {
  if constexpr (kNV == 1) {
    HWY_ALIGN static constexpr int32_t kFrom[] = {0, 8,  1, 9,  2, 10, 3, 11,
                                                  4, 12, 5, 13, 6, 14, 7, 15};
    const V rows = kBoth ? hn::LoadU(d, b) : hn::MaskedLoad(hn::FirstN(d, 8), d, b);
    pairs[0] = hn::TableLookupLanes(rows, hn::SetTableIndices(d, kFrom));
  } else {
    HWY_ALIGN static constexpr int32_t kFrom[] = {8,  24, 9,  25, 10, 26, 11, 27,
                                                  12, 28, 13, 29, 14, 30, 15, 31};
    const auto row = [&](int64_t k, int64_t column) HWY_ATTR {
      return k == 0 || kBoth ? hn::LoadU(d, b + k * 24 + column) : hn::Zero(d);
    };
    pairs[0] = hn::InterleaveLower(d, row(0, 0), row(1, 0));
    pairs[1] = hn::InterleaveUpper(d, row(0, 0), row(1, 0));
    pairs[2] = V{_mm512_permutex2var_ps(row(0, 8).raw, _mm512_load_si512(kFrom), row(1, 8).raw)};
  }
}

// acc += a[kM, 2 or 1] * pairs of rows of B.
template <bool kBoth, size_t kThirds, int kM, int kNV, class D, class V>
HWY_INLINE void AddPair(D d, const float* const (&at)[kThirds], int64_t lda, const V (&pairs)[kNV],
                        V (&acc)[kM][kNV]) {
  const hn::Repartition<double, D> d64;
#pragma GCC unroll 24
  for (int r = 0; r < kM; ++r) {
    const float* const a = at[r / 3] + r % 3 * lda;
    V values;
    if constexpr (kBoth) {
      double two;
      std::memcpy(&two, a, sizeof two);
      values = hn::BitCast(d, hn::Set(d64, two));
    } else {
      values = V{_mm512_maskz_broadcastss_ps(0x5555, _mm_load_ss(a))};
    }
#pragma GCC unroll 4
    for (int v = 0; v < kNV; ++v) acc[r][v] = hn::MulAdd(values, pairs[v], acc[r][v]);
  }
}

// As Tile, for 8 or 24 columns where whole vectors take no longer than shorter ones: each has 8
// columns for two values of K, and one load brings two values of A. Two vectors of 16 columns would
// do a fourth of 24 for nothing (118 instead of 140 GFLOP/s, Emerald Rapids), short ones wait for
// loads of A (8 columns: 84 instead of 137).
template <int kM, int kPanel>
void PairTile(const Rows& rows, const float* HWY_RESTRICT b, float* c, int64_t ldc,
              const TileStore& store) {
  constexpr FullTag d;
  using V = hn::Vec<FullTag>;
  constexpr int kNV = kPanel / 8, kSplit = std::clamp(8 / (kM * kNV), 1, 4);  // as in Tile
  V acc[kSplit][kM][kNV], pairs[kNV];
  Clear(d, acc);
  Ahead ahead = rows.ahead;
  const float* at[(kM + 2) / 3];
  const auto add_pair = [&](V(&sums)[kM][kNV]) HWY_ATTR {
    for (int i = 0; i < 2 && kNV > 1; ++i) {
      __builtin_prefetch(ahead.at[i], 0, 2);
      __builtin_prefetch(ahead.at[i] + ahead.step[i], 0, 2);
      ahead.at[i] += 2 * ahead.step[i];
    }
    LoadPairs<true>(d, b, pairs);
    AddPair<true>(d, at, rows.ld, pairs, sums);
#pragma GCC unroll 7
    for (const float*& third : at) third = Kept(third + 2);
    b += 2 * kPanel;
  };
  const float* a = rows.a;
  for (int64_t left = rows.k, i = 1; left > 0; ++i) {
    const float* row = a;
#pragma GCC unroll 7
    for (const float*& third : at) {
      third = Kept(row);
      row += 3 * rows.ld;
    }
    const int64_t steps = std::min(rows.run, left);
    int64_t p = steps / 2;
    for (; p >= kSplit; p -= kSplit) {
#pragma GCC unroll 4
      for (int s = 0; s < kSplit; ++s) add_pair(acc[s]);
    }
    for (; kSplit > 1 && p > 0; --p) add_pair(acc[0]);
    if (steps % 2 == 1) {
      LoadPairs<false>(d, b, pairs);
      AddPair<false>(d, at, rows.ld, pairs, acc[0]);
      b += kPanel;
    }
    left -= rows.run;
    if (left > 0) a = rows.Next(a, i);
  }
  JoinSplits(acc);
  V sums[kM][(kNV + 1) / 2];
#pragma GCC unroll 24
  for (int r = 0; r < kM; ++r) {
    const V(&of)[kNV] = acc[0][r];
    if constexpr (kNV == 3) {
      sums[r][0] = hn::Add(V{_mm512_shuffle_ps(of[0].raw, of[1].raw, _MM_SHUFFLE(2, 0, 2, 0))},
                           V{_mm512_shuffle_ps(of[0].raw, of[1].raw, _MM_SHUFFLE(3, 1, 3, 1))});
    }
    const V twice = hn::Add(of[kNV - 1], hn::Shuffle2301(of[kNV - 1]));
    sums[r][kNV / 2] = hn::ConcatEven(d, twice, twice);
  }
  StoreTile(d, sums, c, ldc, store);
}
#endif

using TileFunction = void (*)(const Rows&, const float*, float*, int64_t, const TileStore&);

// A tile of so many columns whose sums are made of chains: in one that is longer, each product
// would be rounded to the size of all before it.
HWY_NOINLINE void ChainTile(TileFunction tile, int64_t chain, Rows rows, const float* b,
                            int64_t width, int64_t columns, float* c, int64_t ldc,
                            TileStore store) {
  HWY_ALIGN float sums[kRows * kWidth];
  TileStore before;
  const int64_t k = rows.k;
  rows.k = chain;
  for (int64_t k0 = 0; k0 + chain < k; k0 += chain) {
    tile(rows, b, sums, columns, before);
    before.accumulate = true;
    rows.a += chain / rows.run * rows.step;
    b += chain * width;
    for (int i = 0; i < 2; ++i) rows.ahead.at[i] += chain * rows.ahead.step[i];
  }
  rows.k = k - (k - 1) / chain * chain;
  store.sums = sums;
  tile(rows, b, c, ldc, store);
}

template <int kNV, class D, int kPanel = kNV * static_cast<int>(hn::MaxLanes(D())),
          int kEvery = kFetch, Activation::Kind kActivation = Activation::Kind::kNone,
          int... kMinusOne>
constexpr auto TilesOf(std::integer_sequence<int, kMinusOne...>) {
  return std::array<TileFunction, sizeof...(kMinusOne)>{
      &Tile<kMinusOne + 1, kNV, kPanel, kEvery, kActivation, D>...};
}

#if HWY_TARGET == HWY_AVX3
template <int kPanel, int... kMinusOne>
constexpr auto PairTilesOf(std::integer_sequence<int, kMinusOne...>) {
  return std::array<TileFunction, sizeof...(kMinusOne)>{&PairTile<kMinusOne + 1, kPanel>...};
}
#endif

// Tiles of all heights up to `most` for a panel of some width.
struct Tiles {
  const TileFunction* of_height;  // less 1
  int64_t most;
  int64_t columns;  // of their vectors: the panel's, or more
  int every = kFetch;
};

// is_all: the panel is all of B. seldom: fetches, see kSeldom.
Tiles TilesFor(int64_t width, [[maybe_unused]] bool is_all, bool seldom) {
  using Heights = std::make_integer_sequence<int, kRows>;
  using Heights8 = std::make_integer_sequence<int, kRows8>;
  static constexpr auto kFull = TilesOf<2, FullTag>(Heights());
  static constexpr auto kFullSeldom = TilesOf<2, FullTag, kWidth, kSeldom>(Heights());
  if (width == kWidth && seldom) return {kFullSeldom.data(), kRows, width, kSeldom};
  if (width == kWidth) return {kFull.data(), kRows, width};
#if HWY_TARGET == HWY_AVX3
  constexpr int kRows24 = 9;  // of three vectors
  using Heights24 = std::make_integer_sequence<int, kRows24>;
  static constexpr auto k16 = TilesOf<1, FullTag>(Heights());
  static constexpr auto k24 = TilesOf<3, NarrowTag>(Heights24());
  // Two vectors of 16 do a fourth for nothing, but where they take no longer than shorter ones: 24
  // columns of 96 channels in 0.7 of the time (Emerald Rapids).
  static constexpr auto k24Wide = TilesOf<2, FullTag, 24>(Heights());
  static constexpr auto k24Pairs = PairTilesOf<24>(Heights24());
  static constexpr auto k8Pairs = PairTilesOf<8>(Heights8());
  const bool is_wide = SharesWideUnits();
  if (width == 16) return {k16.data(), kRows, width};
  if (width == 24 && is_wide && is_all) return {k24Pairs.data(), kRows24, kWidth};
  if (width == 24 && is_wide) return {k24Wide.data(), kRows, kWidth};
  if (width == 24) return {k24.data(), kRows24, width};
  if (is_wide && is_all) return {k8Pairs.data(), kRows8, kWidth / 2};
#endif
  static constexpr auto k8 = TilesOf<1, NarrowTag>(Heights8());
  return {k8.data(), kRows8, width};
}

// Full tiles that apply an activation to their sums, where it comes as it mostly does; others sweep
// over what was stored.
class ActivatedTiles {
 public:
  explicit ActivatedTiles(const TileEpilogue* e) {
    if (e == nullptr || e->residual != nullptr || e->clamp || e->sum_rounding != DType::kFloat32 ||
        e->rounding != DType::kFloat32 || e->activation.rounding != DType::kFloat32) {
      return;
    }
    switch (e->activation.kind) {
      case Kind::kHardSwish: Take<Kind::kHardSwish>(e->activation); break;
      case Kind::kGelu: Take<Kind::kGelu>(e->activation); break;
#if HWY_TARGET == HWY_AVX3  // with AVX2 a sweep over many rows is faster (EfficientNet-B0 by 2 %)
      case Kind::kSwish: Take<Kind::kSwish>(e->activation); break;
      case Kind::kGeluTanh: Take<Kind::kGeluTanh>(e->activation); break;
#endif
      default: break;
    }
  }

  const TileFunction* of_height() const { return of_height_; }  // null: none
  const void* activation() const { return activation_; }

 private:
  template <Activation::Kind kKind>
  void Take(const Activation& a) {
    using Is = TileActivation<kKind>;
    static constexpr auto kTiles =
        TilesOf<2, FullTag, kWidth, kFetch, kKind>(std::make_integer_sequence<int, kRows>());
    if (a.affine && !Is::kAffine) return;
    activation_ = &made_.emplace<Is>(a);
    of_height_ = kTiles.data();
  }

  using Kind = Activation::Kind;
  std::variant<std::monostate, TileActivation<Kind::kHardSwish>, TileActivation<Kind::kGelu>,
               TileActivation<Kind::kSwish>, TileActivation<Kind::kGeluTanh>>
      made_;
  const TileFunction* of_height_ = nullptr;
  const void* activation_ = nullptr;
};

void Block(const GemmBlockArgs& args) {
  if (args.rows == 0) return;
  Rows rows{};
  const int64_t chain = ChainOf(args, &rows);
  const ActivatedTiles activated(args.epilogue);
  for (int64_t n = args.n0; n < args.n1; n += kWidth) {
    const int64_t columns = std::min<int64_t>(kWidth, args.n_total - n);
    const int64_t width = RoundUp(columns, kPanelGranule);
    const float* panel = args.b + n * args.k_total + args.k0 * width;
    // A short product has to fetch a row of C for each of a tile.
    const bool seldom = args.kc >= kSeldom * kRows && args.rows > kFewTiles * kRows;
    Tiles shapes = TilesFor(width, args.is_all, seldom);
    int64_t tiles = CeilDiv(args.rows, shapes.most);
    if (shapes.most > kCollidingRows && RowsCollide(args.lda, args.rows)) {
      tiles = std::max(tiles, args.rows / kCollidingRows);
    }
    // Rows are spread evenly over the tiles, which keeps the last one from being thin.
    const int64_t least = args.rows / tiles, taller = args.rows % tiles;
    // But none has 7 rows beside others, nor 3 or fewer, for their sums are split (see Tile).
    const bool is_uneven = tiles == 2 && args.rows < 2 * kLeastRows && shapes.most >= 12;
    // Each tile fetches its share of the next panel, and the rows of the next tile while they are
    // new. A tile alone streams through the panels, and fetches what it reads soon. Short products
    // fetch what the next tile overwrites instead, or beside a panel that the caller names, for
    // theirs stay in the cache: a row at each k, so not in blocks of fewer rows, where these would
    // be another thread's. Behind the last tile's rows may be what another thread writes: it would
    // wait for each line that this one looks at.
    const bool is_alone = args.n1 - args.n0 <= kWidth;
    const bool is_short = args.kc <= std::min(kShort, args.rows) && tiles > 1;
    const bool is_named =
        args.next != nullptr && n + kWidth >= args.n1 && (is_alone || (tiles > 1 && !is_short));
    // Of rows far apart it would fetch what lies between them.
    const bool are_close = args.a_pieces <= 1 && args.lda <= 2 * args.kc;
    const bool fetches_rows = n == args.n0 && tiles > 1 && are_close && args.kc > 0;
    const int64_t panel_step = width * 4 / tiles;
    const int64_t row_step =
        fetches_rows ? std::min<int64_t>(64, args.lda * 4 * (least + 1) / args.kc) : panel_step;
    TileStore store = StoreOf(args.accumulate, args.epilogue, n);
    store.left_out = shapes.columns - columns;
    bool sweeps =
        args.epilogue != nullptr && args.epilogue->activation.kind != Activation::Kind::kNone;
    if (columns == kWidth && activated.of_height() != nullptr) {
      store.activation = activated.activation();
      shapes.of_height = activated.of_height();
      shapes.every = kFetch;
      sweeps = false;
    }
    const int64_t c_step = (is_named && args.ldc == width ? 64 : args.ldc * 4) / shapes.every;
    const float* const following = panel + (tiles == 1 ? kSoon : args.k_total * width);
    const char* ahead = reinterpret_cast<const char*>(is_named ? args.next : following);
    rows.ahead.step[0] = is_short ? c_step : panel_step;
    rows.ahead.step[1] = is_short ? (is_named ? panel_step : c_step) : row_step;
    for (int64_t t = 0, begin = 0, swept = 0; t < tiles; ++t, ahead += panel_step * args.kc) {
      int64_t height = least + (t < taller ? 1 : 0);
      if (is_uneven) height = t == 0 ? args.rows - 5 : 5;
      rows.a = args.a + begin * args.lda;
      rows.ahead.at[0] = ahead;
      rows.ahead.at[1] = fetches_rows && t + 1 < tiles
                             ? reinterpret_cast<const char*>(rows.a + height * args.lda)
                             : ahead + 64;
      float* c = args.c + begin * args.ldc + n;
      if (is_short) {
        const int64_t ahead_by = args.keeps_off && t + 1 == tiles ? 0 : height;
        rows.ahead.at[0] = reinterpret_cast<const char*>(c + ahead_by * args.ldc);
        rows.ahead.at[1] = is_named ? ahead : rows.ahead.at[0] + 64;
      }
      store.residual = ResidualOf(args.epilogue, begin, n);
      // Stores of a wide result would wait for its lines (of which rows that begin within one have
      // one more); a short product has no time to ask.
      if (args.kc > kShort) {
        const float* row = c;
        for (int64_t r = 0; r < height; ++r, row += args.ldc) {
          __builtin_prefetch(row, 1);
          __builtin_prefetch(row + columns / 2, 1);
          __builtin_prefetch(row + columns - 1, 1);
        }
      }
      const TileFunction tile = shapes.of_height[height - 1];
      const auto run = [&](float* to, int64_t ldto, const TileStore& as) {
        if (args.kc <= chain) return tile(rows, panel, to, ldto, as);
        ChainTile(tile, chain, rows, panel, width, shapes.columns, to, ldto, as);
      };
      if (columns == width || kPartialStores) {
        run(c, args.ldc, store);
      } else {
        HWY_ALIGN float buffer[kRows * kWidth];
        run(buffer, width, TileStore());
        FinishTile(buffer, width, height, columns, c, args.ldc, store);
      }
      begin += height;
      if (sweeps && (begin - swept >= kSweptRows || begin == args.rows)) {
        ApplyActivation(args.epilogue->activation, args.c + swept * args.ldc + n, args.ldc,
                        begin - swept, columns);
        swept = begin;
      }
    }
  }
}

int64_t PanelWidth() { return kWidth; }
int64_t TileRows() { return kRows; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Block);
HWY_EXPORT(PanelWidth);
HWY_EXPORT(TileRows);

int64_t GemmPanelWidth() { return HWY_DYNAMIC_DISPATCH(PanelWidth)(); }
int64_t GemmTileRows() { return HWY_DYNAMIC_DISPATCH(TileRows)(); }
void GemmBlock(const GemmBlockArgs& args) {
  if (args.thirds != nullptr) return GemmBlockByAmx(args);
  HWY_DYNAMIC_DISPATCH(Block)(args);
}

}  // namespace sardonyx
#endif  // HWY_ONCE
