#include "kernels/bf16_block.h"

#include <algorithm>
#include <array>
#include <utility>

// Processors that multiply pairs of bfloat16 are among those of this target.
#define HWY_WANT_AVX3_DL
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/bf16_block.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"
#include "kernels/amx-inl.h"
#include "kernels/tile_store-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Words = hn::RebindToUnsigned<Floats>;
using V = hn::Vec<Floats>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Floats()));
constexpr int64_t kWidth = 2 * kLanes;
// As in gemm_block.cc.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
constexpr int kRows = 14;
#elif HWY_TARGET == HWY_NEON
constexpr int kRows = 12;
#else
constexpr int kRows = 6;
#endif

template <int kM>
HWY_INLINE void Begin(V (&acc)[kM][2], const float* c, int64_t ldc) {
#pragma GCC unroll 16
  for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      acc[r][v] = hn::Zero(Floats());
      __builtin_prefetch(c + r * ldc + v * kLanes, 1);
    }
  }
}

// One row of B, whose halves are widened already.
template <int kM>
HWY_INLINE void AddRow(const float* a, int64_t lda, V b0, V b1, V (&acc)[kM][2]) {
#pragma GCC unroll 16
  for (int r = 0; r < kM; ++r) {
    const V av = hn::Set(Floats(), a[r * lda]);
    acc[r][0] = hn::MulAdd(av, b0, acc[r][0]);
    acc[r][1] = hn::MulAdd(av, b1, acc[r][1]);
  }
}

// C[kM, kWidth] = A * panel, in float32; of an odd number of elements the last word has one.
template <int kM>
HWY_NOINLINE void FloatTile(const float* HWY_RESTRICT a, int64_t lda, int64_t k,
                            const uint32_t* HWY_RESTRICT b, float* c, int64_t ldc,
                            const TileStore& store) {
  const Floats d;
  const Words words;
  const auto upper = hn::Set(words, 0xffff0000u);
  V acc[kM][2];
  Begin(acc, c, ldc);
  for (int64_t i = 0; i < k; i += 2, b += kWidth) {
    AddRow(a + i, lda, hn::BitCast(d, hn::ShiftLeft<16>(hn::LoadU(words, b))),
           hn::BitCast(d, hn::ShiftLeft<16>(hn::LoadU(words, b + kLanes))), acc);
    if (i + 1 == k) break;
    AddRow(a + i + 1, lda, hn::BitCast(d, hn::And(hn::LoadU(words, b), upper)),
           hn::BitCast(d, hn::And(hn::LoadU(words, b + kLanes), upper)), acc);
  }
  StoreTile(d, acc, c, ldc, store);
}

#if HWY_TARGET == HWY_AVX3_DL
// Neither the instruction nor its feature is in Highway 1.0.3; Clang wants to hear of all others
// again.
template <int kM>
__attribute__((target(HWY_TARGET_STR ",avx512bf16"))) HWY_NOINLINE void PairTile(
    const uint32_t* HWY_RESTRICT a, int64_t lda, int64_t pairs, const uint32_t* HWY_RESTRICT b,
    const uint32_t* next, float* c, int64_t ldc, const TileStore& store) {
  V acc[kM][2];
  Begin(acc, c, ldc);
  // Every third row has a pointer: one for each are more than there are general registers.
  const uint32_t* at[(kM + 2) / 3];
#pragma GCC unroll 5
  for (int i = 0; i < (kM + 2) / 3; ++i) at[i] = a + 3 * i * lda;
  for (int64_t left = pairs; left > 0; --left, b += kWidth, next += kLanes) {
    __builtin_prefetch(next, 0, 2);
    const auto b0 = (__m512bh)_mm512_loadu_si512(b);
    const auto b1 = (__m512bh)_mm512_loadu_si512(b + kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kM; ++r) {
      const auto av = (__m512bh)_mm512_set1_epi32(static_cast<int>(at[r / 3][r % 3 * lda]));
      acc[r][0].raw = _mm512_dpbf16_ps(acc[r][0].raw, av, b0);
      acc[r][1].raw = _mm512_dpbf16_ps(acc[r][1].raw, av, b1);
    }
#pragma GCC unroll 5
    for (const uint32_t*& third : at) {
      ++third;
      asm("" : "+r"(third));  // or the compiler makes up the other pointers again
    }
  }
  StoreTile(Floats(), acc, c, ldc, store);
}
bool HasPairs() { return MultipliesBf16Pairs() || HasMatrixTiles(); }

constexpr int64_t kStepPairs = kTileBytes / 4;

// Pairs of some rows behind the last whole step, with zeros behind them.
class LastStep {
 public:
  LastStep(const uint32_t* from, int64_t ld, int64_t rows, int64_t words) {
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(from + r * ld, words, words_ + r * kStepPairs);
    }
  }
  const uint32_t* words() const { return words_; }

 private:
  HWY_ALIGN uint32_t words_[kTileRows * kStepPairs] = {};
};

// One step of the products of two tiles of rows, or one, with both tiles of columns of a panel.
template <bool kTwo>
HWY_INLINE void AddStep(const uint32_t* a0, const uint32_t* a1, int64_t lda, const uint32_t* b) {
  LoadTile<6>(b, kWidth * 4);
  LoadTile<4>(a0, lda * 4);
  AddTilePairs<0, 4, 6>();
  LoadTile<7>(b + kLanes, kWidth * 4);
  AddTilePairs<1, 4, 7>();
  if constexpr (kTwo) {
    LoadTile<5>(a1, lda * 4);
    AddTilePairs<2, 5, 6>();
    AddTilePairs<3, 5, 7>();
  }
}

// sums[2][kTileRows, kWidth] = those of two tiles of `rows` rows, or one, at a0 and a1. `tail`: the
// panel's last step, if its pairs are no whole ones.
template <bool kTwo>
void MultiplyTiles(const uint32_t* a0, const uint32_t* a1, int64_t lda, int64_t rows, int64_t pairs,
                   const uint32_t* b, const uint32_t* tail, const uint32_t* next, int64_t next_step,
                   float* sums) {
  KeptAwake awake;
  ZeroSumTiles();
  int64_t p = 0;
  for (; p + kStepPairs <= pairs; p += kStepPairs) {
    for (int64_t i = 0; i < next_step; ++i, next += kLanes) __builtin_prefetch(next, 0, 2);
    AddStep<kTwo>(a0 + p, a1 + p, lda, b + p * kWidth);
    awake.Step();
  }
  if (p < pairs) {
    const LastStep last0(a0 + p, lda, rows, pairs - p);
    const LastStep last1(a1 + p, lda, kTwo ? rows : 0, pairs - p);
    AddStep<kTwo>(last0.words(), last1.words(), kStepPairs, tail);
  }
  StoreSumTiles(sums, kWidth * 4);
}

// Block, of pairs, by the processor's tiles. They are of even height; the last one goes over rows
// again that the one before has had.
void TileBlock(const Bf16BlockArgs& args) {
  HWY_ALIGN float sums[2 * kTileRows * kWidth];
  HWY_ALIGN uint32_t tail[kStepPairs * kWidth] = {};
  const int64_t count = CeilDiv(args.rows, kTileRows), height = CeilDiv(args.rows, count);
  const Tiles tiles(TileShapes(height, kStepPairs));
  const int64_t panel_words = (args.k_total + 1) / 2 * kWidth;
  const int64_t steps = args.pairs / kStepPairs, rest = args.pairs % kStepPairs;
  const auto row_of = [&](int64_t tile) { return std::min(tile * height, args.rows - height); };
  const auto a_of = [&](int64_t tile) {
    return args.a_pairs + args.p0 + row_of(tile) * args.pairs_ld;
  };
  for (int64_t n = args.n0; n < args.n1; n += kWidth) {
    const int64_t columns = std::min(kWidth, args.n_total - n);
    const uint32_t* const panel = args.b + n / kWidth * panel_words + args.p0 * kWidth;
    std::copy_n(panel + steps * kStepPairs * kWidth, rest * kWidth, tail);
    // Each step fetches its share of the next panel.
    const uint32_t* next = n + kWidth < args.n1 ? panel + panel_words : args.next;
    int64_t share = 0;
    if (next != nullptr && steps > 0) share = CeilDiv(2 * args.pairs, CeilDiv(count, 2) * steps);
    TileStore store = StoreOf(args.accumulate, args.epilogue, n);
    for (int64_t t = 0; t < count; t += 2) {
      const bool two = t + 1 < count;
      const auto multiply = two ? MultiplyTiles<true> : MultiplyTiles<false>;
      const uint32_t* const ahead = share == 0 ? panel : next + t / 2 * share * steps * kLanes;
      multiply(a_of(t), a_of(two ? t + 1 : t), args.pairs_ld, height, args.pairs, panel, tail,
               ahead, share, sums);
      for (int64_t i = t; i < std::min(t + 2, count); ++i) {
        const int64_t begin = i * height, again = begin - row_of(i), rows = height - again;
        float* const c = args.c + begin * args.ldc + n;
        store.residual = ResidualOf(args.epilogue, begin, n);
        FinishTile(sums + ((i - t) * kTileRows + again) * kWidth, kWidth, rows, columns, c,
                   args.ldc, store);
        if (args.epilogue != nullptr && args.epilogue->activation.kind != Activation::Kind::kNone) {
          ApplyActivation(args.epilogue->activation, c, args.ldc, rows, columns);
        }
      }
    }
  }
}
bool TilesTake(const Bf16BlockArgs& args) { return args.a_pairs != nullptr && HasMatrixTiles(); }
#else
void TileBlock(const Bf16BlockArgs&) {}
bool TilesTake(const Bf16BlockArgs&) { return false; }
template <int kM>
void PairTile(const uint32_t*, int64_t, int64_t, const uint32_t*, const uint32_t*, float*, int64_t,
              const TileStore&) {}
bool HasPairs() { return false; }
#endif

template <int... kMinusOne>
constexpr auto FloatTiles(std::integer_sequence<int, kMinusOne...>) {
  return std::array{&FloatTile<kMinusOne + 1>...};
}
template <int... kMinusOne>
constexpr auto PairTiles(std::integer_sequence<int, kMinusOne...>) {
  return std::array{&PairTile<kMinusOne + 1>...};
}

void Block(const Bf16BlockArgs& args) {
  if (TilesTake(args)) return TileBlock(args);
  using Heights = std::make_integer_sequence<int, kRows>;
  static constexpr auto kFloatTiles = FloatTiles(Heights());
  static constexpr auto kPairTiles = PairTiles(Heights());
  const int64_t panel_words = (args.k_total + 1) / 2 * kWidth;
  const int64_t k = std::min(2 * args.pairs, args.k_total - 2 * args.p0);
  const int64_t tiles = CeilDiv(args.rows, kRows);
  HWY_ALIGN float buffer[kRows * kWidth];
  const TileStore plain;
  for (int64_t n = args.n0; n < args.n1; n += kWidth) {
    const int64_t columns = std::min(kWidth, args.n_total - n);
    const uint32_t* panel = args.b + n / kWidth * panel_words + args.p0 * kWidth;
    const uint32_t* next = n + kWidth < args.n1 ? panel + panel_words : args.next;
    TileStore store = StoreOf(args.accumulate, args.epilogue, n);
    for (int64_t t = 0; t < tiles; ++t) {
      // Rows are spread evenly over the tiles, which keeps the last one from being thin.
      const int64_t begin = args.rows * t / tiles, height = args.rows * (t + 1) / tiles - begin;
      float* const c = args.c + begin * args.ldc + n;
      store.residual = ResidualOf(args.epilogue, begin, n);
      const bool whole = columns == kWidth;
      float* const to = whole ? c : buffer;
      const int64_t ldto = whole ? args.ldc : kWidth;
      // Not a copy: it would wait for the stores of the tile before.
      const TileStore& as = whole ? store : plain;
      if (args.a_pairs != nullptr) {
        kPairTiles[height - 1](args.a_pairs + begin * args.pairs_ld + args.p0, args.pairs_ld,
                               args.pairs, panel, t < 2 ? next + t * args.pairs * kLanes : panel,
                               to, ldto, as);
      } else {
        kFloatTiles[height - 1](args.a + begin * args.lda + 2 * args.p0, args.lda, k, panel, to,
                                ldto, as);
      }
      if (!whole) FinishTile(buffer, kWidth, height, columns, c, args.ldc, store);
      if (args.epilogue != nullptr && args.epilogue->activation.kind != Activation::Kind::kNone) {
        ApplyActivation(args.epilogue->activation, c, args.ldc, height, columns);
      }
    }
  }
}

// Whether words of float32 are bfloat16, and none a subnormal one.
class PairCheck {
 public:
  HWY_INLINE PairCheck() : below_(hn::Zero(Words())), least_(hn::Set(Words(), ~0u)) {}
  HWY_INLINE void See(hn::Vec<Words> word) {
    const Words d;
    below_ = hn::Or(below_, word);
    least_ = hn::Min(least_, hn::Sub(hn::Add(word, word), hn::Set(d, 1u)));
  }
  HWY_INLINE bool Passed() const {
    const Words d;
    const auto is_wide = hn::Ne(hn::ShiftLeft<16>(below_), hn::Zero(d));
    const auto is_subnormal = hn::Lt(least_, hn::Set(d, (1u << 24) - 1));
    return hn::AllFalse(d, hn::Or(is_wide, is_subnormal));
  }

 private:
  hn::Vec<Words> below_;
  // The least of all words doubled, less one: a zero is none of them, a subnormal one is small.
  hn::Vec<Words> least_;
};

bool PackRows(const float* a, int64_t lda, int64_t rows, int64_t k, uint32_t* pairs,
              int64_t pairs_ld) {
  const Words d;
  const auto upper = hn::Set(d, 0xffff0000u);
  PairCheck check;
  for (int64_t r = 0; r < rows; ++r, a += lda, pairs += pairs_ld) {
    const auto* from = reinterpret_cast<const uint32_t*>(a);
    int64_t i = 0;
    for (; i + kWidth <= k; i += kWidth) {
      const auto first = hn::LoadU(d, from + i), second = hn::LoadU(d, from + i + kLanes);
      check.See(first);
      check.See(second);
      hn::StoreU(hn::Or(hn::ShiftRight<16>(hn::ConcatEven(d, second, first)),
                        hn::And(hn::ConcatOdd(d, second, first), upper)),
                 d, pairs + i / 2);
    }
    for (; i < k; i += 2) {
      const uint32_t first = from[i], second = i + 1 < k ? from[i + 1] : 0;
      check.See(hn::Set(d, first));
      check.See(hn::Set(d, second));
      pairs[i / 2] = first >> 16 | (second & 0xffff0000u);
    }
  }
  return check.Passed();
}

// Columns that lie in rows of B: pairs of rows, panel by panel.
bool PackColumns(const float* b, int64_t ldb, int64_t k, int64_t n, uint32_t* packed) {
  const Words d;
  const auto upper = hn::Set(d, 0xffff0000u);
  PairCheck check;
  for (int64_t j = 0; j < n; j += kWidth) {
    const int64_t columns = std::min(kWidth, n - j);
    for (int64_t i = 0; i < k; i += 2, packed += kWidth) {
      const float* low = b + i * ldb + j;
      const float* high = i + 1 < k ? low + ldb : low;
      HWY_ALIGN float rest[2][kWidth];
      if (columns < kWidth || i + 1 == k) {
        std::fill(std::copy_n(low, columns, rest[0]), rest[0] + kWidth, 0.0f);
        std::fill(i + 1 < k ? std::copy_n(high, columns, rest[1]) : rest[1], rest[1] + kWidth,
                  0.0f);
        low = rest[0];
        high = rest[1];
      }
      for (int64_t v = 0; v < kWidth; v += kLanes) {
        const auto first = hn::BitCast(d, hn::LoadU(Floats(), low + v));
        const auto second = hn::BitCast(d, hn::LoadU(Floats(), high + v));
        check.See(first);
        check.See(second);
        hn::StoreU(hn::Or(hn::ShiftRight<16>(first), hn::And(second, upper)), d, packed + v);
      }
    }
  }
  return check.Passed();
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Block);
HWY_EXPORT(PackRows);
HWY_EXPORT(PackColumns);
HWY_EXPORT(HasPairs);

bool Bf16HasPairs() { return HWY_DYNAMIC_DISPATCH(HasPairs)(); }
void Bf16Block(const Bf16BlockArgs& args) { HWY_DYNAMIC_DISPATCH(Block)(args); }
bool Bf16PackRows(const float* a, int64_t lda, int64_t rows, int64_t k, uint32_t* pairs,
                  int64_t pairs_ld) {
  return HWY_DYNAMIC_DISPATCH(PackRows)(a, lda, rows, k, pairs, pairs_ld);
}

// Not a multiple of a page: rows would fall into the same cache lines.
int64_t Bf16RowWords(int64_t k) { return RoundUp(CeilDiv(k, 2), 16) + 16; }

bool Bf16PackPanels(const float* b, int64_t ldb, bool transposed, int64_t k, int64_t n,
                    uint32_t* rows, uint32_t* packed) {
  if (!transposed) return HWY_DYNAMIC_DISPATCH(PackColumns)(b, ldb, k, n, packed);
  const int64_t width = GemmPanelWidth(), pairs = CeilDiv(k, 2), ld = Bf16RowWords(k);
  if (!Bf16PackRows(b, ldb, n, k, rows, ld)) return false;
  std::fill(rows + n * ld, rows + RoundUp(n, width) * ld, 0u);
  for (int64_t j = 0; j < n; j += width) {
    TransposeCopy(reinterpret_cast<const float*>(rows + j * ld), ld, pairs, width,
                  reinterpret_cast<float*>(packed + j * pairs), width);
  }
  return true;
}

}  // namespace sardonyx
#endif  // HWY_ONCE
