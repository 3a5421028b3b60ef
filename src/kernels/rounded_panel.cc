// Rows of A that are rounded to bytes, times panels of codes (narrow_panel.h). A word's codes are
// spread over groups of bytes (or pairs of int16) by shifts and masks alone, so A is reordered: a
// word of w groups has in group i its rows i, i + w, i + 2 * w ...

#include <algorithm>
#include <cstring>
#include <type_traits>

// Processors that multiply bytes (VNNI) are a target of their own.
#define HWY_WANT_AVX3_DL
#include "kernels/narrow_panel.h"
#include "kernels/rounded_amx.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rounded_panel.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"
#include "kernels/int8_products-inl.h"
#include "kernels/tile_store-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

using FullTag = hn::ScalableTag<float>;
using EightTag = hn::CappedTag<float, 8>;

template <class D>
constexpr int64_t LanesOf() {
  return static_cast<int64_t>(hn::MaxLanes(D()));
}

// Of a word of codes, of which kSize make a group.
template <int kSize, int kBits>
constexpr int kGroups = 32 / kSize / kBits;

// 16 numbers of A at `from` as bytes in the order of their groups.
template <int kSize, int kBits>
void StoreGroups(const int32_t (&from)[16], void* to) {
  constexpr int kRows = 32 / kBits, kCount = kGroups<kSize, kBits>;
  std::conditional_t<kSize == 4, int8_t, int16_t> elements[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    const int row = i % kRows;
    elements[i - row + row % kCount * kSize + row / kCount] = static_cast<int8_t>(from[i]);
  }
  std::memcpy(to, elements, sizeof(elements));
}

template <int kSize, int kBits>
void RoundBlocks(const NarrowMatrix& b, float* a, float* scales, float* sums) {
  const hn::CappedTag<float, 16> d;
  const hn::RebindToSigned<decltype(d)> integers;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t kLanes = LanesOf<decltype(d)>();
  auto* to = reinterpret_cast<std::byte*>(a);  // never ahead of what is still to be read
  for (int64_t i = 0; i < b.k; i += b.block, a += b.block) {
    V largest = hn::Zero(d), strays = hn::Zero(d);
    for (int64_t k = 0; k < b.block; k += kLanes) {
      const V value = hn::LoadU(d, a + k);
      largest = hn::Max(largest, hn::Abs(value));
      strays = hn::MulAdd(value, hn::Zero(d), strays);  // NaN from what is not finite
    }
    const float top = hn::GetLane(hn::MaxOfLanes(d, largest));
    const V factor = hn::Set(d, top < 1e-30f ? 0.0f : 127.0f / top);  // not infinite
    auto total = hn::Zero(integers);
    for (int64_t k = 0; k < b.block; k += 16, to += 64 / kSize) {
      alignas(64) int32_t codes[16];
      for (int64_t lane = 0; lane < 16; lane += kLanes) {
        const auto rounded = hn::NearestInt(hn::Mul(hn::LoadU(d, a + k + lane), factor));
        total = hn::Add(total, rounded);
        hn::Store(rounded, integers, codes + lane);
      }
      StoreGroups<kSize, kBits>(codes, to);
    }
    *scales = top / 127 + hn::GetLane(hn::SumOfLanes(d, strays));
    const int32_t sum = hn::GetLane(hn::SumOfLanes(integers, total));
    if (b.zero == NarrowMatrix::kNoZero) {
      *sums = *scales * static_cast<float>(sum);
    } else {
      const int32_t first = -b.zero * sum;
      std::memcpy(sums, &first, sizeof(first));
    }
    ++scales, ++sums;
  }
}

template <int kSize>
void RoundOf(const NarrowMatrix& b, float* a, float* scales, float* sums) {
  switch (b.type) {
    case DType::kUInt2: return RoundBlocks<kSize, 2>(b, a, scales, sums);
    case DType::kUInt4: return RoundBlocks<kSize, 4>(b, a, scales, sums);
    default: return RoundBlocks<kSize, 8>(b, a, scales, sums);
  }
}

// Some rows of A and columns of a panel.
struct Part {
  const NarrowMatrix& b;
  const void* panel;
  int64_t width;
  RoundedRows a;
  float* c;
  int64_t ldc;
  const char* ahead;  // of the next panel, a line of the cache for each block
};

// kM rows times kNV vectors of columns from j on: of each block the sum of products of codes, exact
// in int32 (which may wrap meanwhile), times both scales, less the zero point: that is in the sum
// from the first on where all blocks have one.
template <int kSize, int kBits, bool kOneZero, int kM, int kNV, class D>
SARDONYX_INT8_TILE HWY_NOINLINE void MultiplyBlocks(D d, const Part& x, int64_t j) {
  using V = hn::Vec<D>;
  const hn::RebindToSigned<D> integers;
  const hn::RebindToUnsigned<D> bits;
  using Sum = hn::Vec<decltype(integers)>;
  constexpr int64_t kLanes = LanesOf<D>();
  constexpr int kCount = kGroups<kSize, kBits>;
  constexpr int kSplit = kM * kNV < 8 ? 2 : 1;  // few sums wait for each other
  constexpr uint32_t kMask = ((1u << kBits) - 1) * (kSize == 4 ? 0x01010101u : 0x00010001u);
  const int64_t words = x.b.block * kBits / 32, blocks = Blocks(x.b);
  const auto mask = hn::Set(bits, kMask);
  V acc[kM][kNV];
#pragma GCC unroll 12
  for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kNV; ++v) acc[r][v] = hn::Zero(d);
  }
  // Every third row has a pointer: one for each are more than there are registers.
  const int64_t stride = x.a.stride;
  const float* at[(kM + 2) / 3];
  for (int t = 0; t < (kM + 2) / 3; ++t) at[t] = Kept(x.a.codes + 3 * t * stride);
  for (int64_t i = 0; i < blocks; ++i) {
    const PanelBlock block = BlockAt(x.panel, i, x.width, words);
    if (kM > 4) __builtin_prefetch(x.ahead + i * 64);  // of few rows the panels are a stream
    Sum sums[kSplit][kM][kNV];
#pragma GCC unroll 2
    for (int s = 0; s < kSplit; ++s) {
#pragma GCC unroll 12
      for (int r = 0; r < kM; ++r) {
        Sum first = hn::Zero(integers);
        if (kOneZero && s == 0) {
          int32_t start;
          std::memcpy(&start, x.a.sums + r * blocks + i, 4);
          first = hn::Set(integers, start);
        }
#pragma GCC unroll 2
        for (int v = 0; v < kNV; ++v) sums[s][r][v] = first;
      }
    }
    for (int64_t w = 0; w < words; ++w) {
      hn::Vec<decltype(bits)> word[kNV];
#pragma GCC unroll 2
      for (int v = 0; v < kNV; ++v) {
        word[v] = hn::LoadU(bits, block.words + w * x.width + j + v * kLanes);
      }
#pragma GCC unroll 8
      for (int p = 0; p < kCount; ++p) {
        Sum codes[kNV];
#pragma GCC unroll 2
        for (int v = 0; v < kNV; ++v) {
          codes[v] = hn::BitCast(integers, hn::And(word[v], mask));
          word[v] = hn::ShiftRight<kBits>(word[v]);
        }
#pragma GCC unroll 12
        for (int r = 0; r < kM; ++r) {
          const float* const a = at[r / 3] + r % 3 * stride + p;
#pragma GCC unroll 2
          for (int v = 0; v < kNV; ++v) {
            Sum& sum = sums[p % kSplit][r][v];
            if constexpr (kSize == kGroup) {
              AddProductsOf(sum, codes[v], a);
            } else {
              AddVnniProductsOf(sum, codes[v], a);
            }
          }
        }
      }
#pragma GCC unroll 4
      for (const float*& third : at) third = Kept(third + kCount);
    }
#pragma GCC unroll 2
    for (int v = 0; v < kNV; ++v) {
      const V scale = hn::LoadU(d, block.scales + j + v * kLanes);
      const V offset = hn::LoadU(d, block.offsets + j + v * kLanes);
      // Offsets are of codes with 2^kBits added.
      const V zero = hn::MulSub(scale, hn::Set(d, static_cast<float>(1 << kBits)), offset);
#pragma GCC unroll 12
      for (int r = 0; r < kM; ++r) {
        Sum sum = sums[0][r][v];
        if constexpr (kSplit > 1) sum = hn::Add(sum, sums[1][r][v]);
        const V scaled = hn::Mul(scale, hn::Set(d, x.a.scales[r * blocks + i]));
        acc[r][v] = hn::MulAdd(hn::ConvertTo(d, sum), scaled, acc[r][v]);
        if constexpr (!kOneZero) {
          acc[r][v] = hn::MulAdd(zero, hn::Set(d, x.a.sums[r * blocks + i]), acc[r][v]);
        }
      }
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kNV; ++v) {
      hn::StoreU(acc[r][v], d, x.c + r * x.ldc + j + v * kLanes);
    }
  }
}

template <int kSize, int kM, int kNV, class D>
void MultiplyColumns(D d, const Part& x, int64_t j) {
  const auto with = [&](auto bits) {
    constexpr int kBits = decltype(bits)::value;
    const bool one_zero = x.b.zero != NarrowMatrix::kNoZero;
    (one_zero ? MultiplyBlocks<kSize, kBits, true, kM, kNV, D>
              : MultiplyBlocks<kSize, kBits, false, kM, kNV, D>)(d, x, j);
  };
  switch (x.b.type) {
    case DType::kUInt2: return with(std::integral_constant<int, 2>());
    case DType::kUInt4: return with(std::integral_constant<int, 4>());
    default: return with(std::integral_constant<int, 8>());
  }
}

// Rows that share what is read of a panel: as many as there are registers for, beside a vector of
// columns; up to four beside two.
constexpr int kMost = HWY_TARGET == HWY_AVX2 ? 6 : 12;

template <int kSize, int kM>
void MultiplyRows(Part& x) {
  constexpr int64_t kFull = LanesOf<FullTag>();
  int64_t j = 0;
  if constexpr (kM <= 4) {
    for (; j + 2 * kFull <= x.width; j += 2 * kFull) MultiplyColumns<kSize, kM, 2>(FullTag(), x, j);
  }
  for (; j + kFull <= x.width; j += kFull) {
    MultiplyColumns<kSize, kM, 1>(FullTag(), x, j);
    x.ahead += Blocks(x.b) * 64;
  }
  for (; j < x.width; j += LanesOf<EightTag>()) MultiplyColumns<kSize, kM, 1>(EightTag(), x, j);
}

template <int kSize>
void MultiplyOf(const NarrowMatrix& b, const void* panel, int64_t width, int64_t m,
                const RoundedRows& a, float* c, int64_t ldc) {
  const int64_t blocks = Blocks(b);
  const char* const next = static_cast<const char*>(panel) + PanelBytes(b, b.k, width);
  Part x{b, panel, width, a, c, ldc, next};
  for (int64_t left = m, rows = 0; left > 0; left -= rows) {
    const auto take = [&](auto count) {
      rows = decltype(count)::value;
      MultiplyRows<kSize, decltype(count)::value>(x);
    };
    // So that what is left is no single row: 16 are 8 and 8.
    if (kMost == 12 && (left == 12 || left >= 20)) {
      take(std::integral_constant<int, kMost>());
    } else if (kMost == 12 && left >= 8) {
      take(std::integral_constant<int, std::min(kMost, 8)>());
    } else if (left >= 6) {
      take(std::integral_constant<int, 6>());
    } else if (left >= 4) {
      take(std::integral_constant<int, 4>());
    } else if (left == 3) {
      take(std::integral_constant<int, 3>());
    } else if (left == 2) {
      take(std::integral_constant<int, 2>());
    } else {
      take(std::integral_constant<int, 1>());
    }
    x.a.codes += rows * x.a.stride;
    x.a.scales += rows * blocks;
    x.a.sums += rows * blocks;
    x.c += rows * ldc;
  }
}

// By AVX-VNNI groups are of four where they are of two else.
constexpr int kOwnSize = static_cast<int>(kGroup), kVnniSize = kMayHaveVnni ? 4 : kOwnSize;

void Round(const NarrowMatrix& b, float* a, float* scales, float* sums) {
  (HasAvxVnni() ? RoundOf<kVnniSize> : RoundOf<kOwnSize>)(b, a, scales, sums);
}

void Multiply(const NarrowMatrix& b, const void* panel, int64_t width, int64_t m,
              const RoundedRows& a, float* c, int64_t ldc) {
  (HasAvxVnni() ? MultiplyOf<kVnniSize> : MultiplyOf<kOwnSize>)(b, panel, width, m, a, c, ldc);
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Round);
HWY_EXPORT(Multiply);

void RoundRow(const NarrowMatrix& b, float* a, float* scales, float* sums) {
  HWY_DYNAMIC_DISPATCH(Round)(b, a, scales, sums);
}

void MultiplyRounded(const NarrowMatrix& b, const void* panel, int64_t width, int64_t m,
                     const RoundedRows& a, float* c, int64_t ldc) {
  if (RoundedAmxTakes(b, width, m)) return MultiplyRoundedByAmx(b, panel, m, a, c, ldc);
  HWY_DYNAMIC_DISPATCH(Multiply)(b, panel, width, m, a, c, ldc);
}

}  // namespace sardonyx
#endif  // HWY_ONCE
