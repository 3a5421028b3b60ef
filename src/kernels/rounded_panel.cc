// Rows of A that are rounded to bytes, times panels of codes (narrow_panel.h). A word's codes are
// spread over groups of bytes (or pairs of int16) by shifts and masks alone, so A is reordered: a
// word of w groups has in group i its rows i, i + w, i + 2 * w ...

#include <cstring>

// Processors that multiply bytes (VNNI) are a target of their own.
#define HWY_WANT_AVX3_DL
#include "kernels/narrow_panel.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rounded_panel.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"
#include "kernels/int8_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

using FullTag = hn::ScalableTag<float>;
using EightTag = hn::CappedTag<float, 8>;

template <class D>
constexpr int64_t LanesOf() {
  return static_cast<int64_t>(hn::MaxLanes(D()));
}

constexpr int kElementBits = 32 / static_cast<int>(kGroup);
template <int kBits>
constexpr int kGroups = kElementBits / kBits;  // of a word

// 16 numbers of A at `from` as bytes in the order of their groups.
template <int kBits>
void StoreGroups(const int32_t (&from)[16], void* to) {
  constexpr int kRows = 32 / kBits, kCount = kGroups<kBits>;
  std::conditional_t<kGroup == 4, int8_t, int16_t> elements[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    const int row = i % kRows;
    elements[i - row + row % kCount * static_cast<int>(kGroup) + row / kCount] =
        static_cast<int8_t>(from[i]);
  }
  std::memcpy(to, elements, sizeof(elements));
}

template <int kBits>
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
    for (int64_t k = 0; k < b.block; k += 16, to += 64 / kGroup) {
      alignas(64) int32_t codes[16];
      for (int64_t lane = 0; lane < 16; lane += kLanes) {
        const auto rounded = hn::NearestInt(hn::Mul(hn::LoadU(d, a + k + lane), factor));
        total = hn::Add(total, rounded);
        hn::Store(rounded, integers, codes + lane);
      }
      StoreGroups<kBits>(codes, to);
    }
    *scales = top / 127 + hn::GetLane(hn::SumOfLanes(d, strays));
    *sums++ = *scales++ * static_cast<float>(hn::GetLane(hn::SumOfLanes(integers, total)));
  }
}

void Round(const NarrowMatrix& b, float* a, float* scales, float* sums) {
  switch (b.type) {
    case DType::kUInt2: return RoundBlocks<2>(b, a, scales, sums);
    case DType::kUInt4: return RoundBlocks<4>(b, a, scales, sums);
    default: return RoundBlocks<8>(b, a, scales, sums);
  }
}

struct Few {
  const NarrowMatrix& b;
  const void* panel;
  int64_t width;
  RoundedRows a;
  float* c;
  int64_t ldc;
};

// kM rows times kNV vectors of columns from j on: of each block the sum of products of codes, exact
// in int32, times both scales, less the zero point.
template <int kBits, int kM, int kNV, class D>
SARDONYX_INT8_TILE HWY_NOINLINE void MultiplyBlocks(D d, const Few& x, int64_t j) {
  using V = hn::Vec<D>;
  const hn::RebindToSigned<D> integers;
  const hn::RebindToUnsigned<D> bits;
  using Sum = hn::Vec<decltype(integers)>;
  constexpr int64_t kLanes = LanesOf<D>();
  constexpr int kCount = kGroups<kBits>;
  constexpr uint32_t kMask = ((1u << kBits) - 1) * (kGroup == 4 ? 0x01010101u : 0x00010001u);
  const int64_t words = x.b.block * kBits / 32, blocks = (x.b.k + x.b.block - 1) / x.b.block;
  const auto mask = hn::Set(bits, kMask);
  V acc[kM][kNV];
#pragma GCC unroll 4
  for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kNV; ++v) acc[r][v] = hn::Zero(d);
  }
  int64_t group = 0;
  for (int64_t i = 0; i < blocks; ++i) {
    const PanelBlock block = BlockAt(x.panel, i, x.width, words);
    Sum sums[2][kM][kNV];
#pragma GCC unroll 2
    for (int s = 0; s < 2; ++s) {
#pragma GCC unroll 4
      for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 2
        for (int v = 0; v < kNV; ++v) sums[s][r][v] = hn::Zero(integers);
      }
    }
    for (int64_t w = 0; w < words; ++w) {
      hn::Vec<decltype(bits)> word[kNV];
#pragma GCC unroll 2
      for (int v = 0; v < kNV; ++v) {
        word[v] = hn::LoadU(bits, block.words + w * x.width + j + v * kLanes);
      }
#pragma GCC unroll 8
      for (int p = 0; p < kCount; ++p, ++group) {
        Sum codes[kNV];
#pragma GCC unroll 2
        for (int v = 0; v < kNV; ++v) {
          codes[v] = hn::BitCast(integers, hn::And(word[v], mask));
          word[v] = hn::ShiftRight<kBits>(word[v]);
        }
#pragma GCC unroll 4
        for (int r = 0; r < kM; ++r) {
          int32_t four;
          std::memcpy(&four, x.a.codes + r * x.a.stride + group, 4);
          const Sum a = hn::Set(integers, four);
#pragma GCC unroll 2
          for (int v = 0; v < kNV; ++v) {
            sums[p % 2][r][v] = AddProducts(sums[p % 2][r][v], codes[v], a);
          }
        }
      }
    }
#pragma GCC unroll 2
    for (int v = 0; v < kNV; ++v) {
      const V scale = hn::LoadU(d, block.scales + j + v * kLanes);
      const V offset = hn::LoadU(d, block.offsets + j + v * kLanes);
      // Offsets are of codes with 2^kBits added.
      const V zero = hn::MulSub(scale, hn::Set(d, static_cast<float>(1 << kBits)), offset);
#pragma GCC unroll 4
      for (int r = 0; r < kM; ++r) {
        const V sum = hn::ConvertTo(d, hn::Add(sums[0][r][v], sums[1][r][v]));
        const V scaled = hn::Mul(scale, hn::Set(d, x.a.scales[r * blocks + i]));
        acc[r][v] = hn::MulAdd(sum, scaled, acc[r][v]);
        acc[r][v] = hn::MulAdd(zero, hn::Set(d, x.a.sums[r * blocks + i]), acc[r][v]);
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kNV; ++v) {
      hn::StoreU(acc[r][v], d, x.c + r * x.ldc + j + v * kLanes);
    }
  }
}

template <int kM, int kNV, class D>
void MultiplyColumns(D d, const Few& x, int64_t j) {
  switch (x.b.type) {
    case DType::kUInt2: return MultiplyBlocks<2, kM, kNV>(d, x, j);
    case DType::kUInt4: return MultiplyBlocks<4, kM, kNV>(d, x, j);
    default: return MultiplyBlocks<8, kM, kNV>(d, x, j);
  }
}

template <int kM>
void MultiplyRows(const Few& x) {
  constexpr int64_t kFull = LanesOf<FullTag>();
  int64_t j = 0;
  for (; j + 2 * kFull <= x.width; j += 2 * kFull) MultiplyColumns<kM, 2>(FullTag(), x, j);
  for (; j + kFull <= x.width; j += kFull) MultiplyColumns<kM, 1>(FullTag(), x, j);
  for (; j < x.width; j += LanesOf<EightTag>()) MultiplyColumns<kM, 1>(EightTag(), x, j);
}

void Multiply(const NarrowMatrix& b, const void* panel, int64_t width, int64_t m,
              const RoundedRows& a, float* c, int64_t ldc) {
  const Few x{b, panel, width, a, c, ldc};
  switch (m) {
    case 1: return MultiplyRows<1>(x);
    case 2: return MultiplyRows<2>(x);
    case 3: return MultiplyRows<3>(x);
    default: return MultiplyRows<4>(x);
  }
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
  HWY_DYNAMIC_DISPATCH(Multiply)(b, panel, width, m, a, c, ldc);
}

}  // namespace sardonyx
#endif  // HWY_ONCE
