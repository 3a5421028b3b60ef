#include "kernels/narrow_panel.h"

#include <utility>

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/narrow_panel.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"
#include "kernels/gemm_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using FullTag = hn::ScalableTag<float>;
using EightTag = hn::CappedTag<float, 8>;

template <class D>
constexpr int64_t LanesOf() {
  return static_cast<int64_t>(hn::MaxLanes(D()));
}

// Halves, widened as they are loaded.
template <class D>
HWY_INLINE hn::Vec<D> LoadHalves(D d, const uint16_t* from) {
  const hn::Rebind<hwy::float16_t, D> narrow;
  return hn::PromoteTo(d, hn::LoadU(narrow, reinterpret_cast<const hwy::float16_t*>(from)));
}

// Codes of kBits as 2^kBits + code.
template <int kBits_>
struct Plain {
  static constexpr int kBits = kBits_;
  explicit Plain(const NarrowMatrix&) {}

  // Code kRow of each word.
  template <int kRow, class D>
  HWY_INLINE hn::Vec<D> At(D d, hn::VFromD<hn::RebindToUnsigned<D>> words) const {
    const hn::RebindToUnsigned<D> bits;
    constexpr int kShift = kRow * kBits - (23 - kBits);
    constexpr uint32_t kMask = ((1u << kBits) - 1) << (23 - kBits);
    constexpr uint32_t kExponent = static_cast<uint32_t>(127 + kBits) << 23;
    auto placed = words;
    if constexpr (kShift > 0) placed = hn::ShiftRight<kShift>(words);
    if constexpr (kShift < 0) placed = hn::ShiftLeft<-kShift>(words);
    return hn::BitCast(d, hn::OrAnd(hn::Set(bits, kExponent), placed, hn::Set(bits, kMask)));
  }
};

// Codes of 4 bits that stand for values: a permutation of the table's lanes where they fill one or
// two vectors.
struct Tabled {
  static constexpr int kBits = 4;
  explicit Tabled(const NarrowMatrix& b) : values(b.values.data()) {}

  template <int kRow, class D>
  HWY_INLINE hn::Vec<D> At(D d, hn::VFromD<hn::RebindToUnsigned<D>> words) const {
    const hn::RebindToUnsigned<D> bits;
    const hn::RebindToSigned<D> indices;
    const auto code = hn::And(hn::ShiftRight<kRow * kBits>(words), hn::Set(bits, 15));
#if HWY_HAVE_SCALABLE || HWY_TARGET == HWY_SCALAR
    return hn::GatherIndex(d, values, hn::BitCast(indices, code));
#else
    if constexpr (hn::MaxLanes(d) >= 16) {
      return hn::TableLookupLanes(hn::LoadU(d, values), hn::IndicesFromVec(d, code));
    } else if constexpr (hn::MaxLanes(d) == 8) {
      const auto lane = hn::IndicesFromVec(d, hn::And(code, hn::Set(bits, 7)));
      return hn::IfNegativeThenElse(hn::BitCast(d, hn::ShiftLeft<28>(code)),
                                    hn::TableLookupLanes(hn::LoadU(d, values + 8), lane),
                                    hn::TableLookupLanes(hn::LoadU(d, values), lane));
    } else {
      return hn::GatherIndex(d, values, hn::BitCast(indices, code));
    }
#endif
  }

  const float* values;
};

// ---- widening ----

template <class D>
void WidenHalfRows(D d, const uint16_t* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += LanesOf<D>()) {
    hn::StoreU(LoadHalves(d, from + i), d, to + i);
  }
}

template <class Codes, class D, int... kRow>
HWY_INLINE void WidenWord(D d, const Codes& codes, hn::VFromD<hn::RebindToUnsigned<D>> words,
                          hn::Vec<D> scale, hn::Vec<D> offset, int64_t width, float* to,
                          std::integer_sequence<int, kRow...>) {
  (hn::StoreU(hn::MulSub(codes.template At<kRow>(d, words), scale, offset), d, to + kRow * width),
   ...);
}

template <class Codes, class D>
void WidenBlocks(D d, const NarrowMatrix& b, const void* panel, int64_t width, int64_t k0,
                 int64_t kc, float* to) {
  constexpr int kRows = 32 / Codes::kBits;
  const Codes codes(b);
  const hn::RebindToUnsigned<D> bits;
  const int64_t words = b.block / kRows;
  for (int64_t k = k0; k < k0 + kc; k += b.block, to += b.block * width) {
    const PanelBlock block = BlockAt(panel, k / b.block, width, words);
    const int64_t count = std::min(words, (k0 + kc - k + kRows - 1) / kRows);
    for (int64_t j = 0; j < width; j += LanesOf<D>()) {
      const auto scale = hn::LoadU(d, block.scales + j), offset = hn::LoadU(d, block.offsets + j);
      for (int64_t w = 0; w < count; ++w) {
        WidenWord(d, codes, hn::LoadU(bits, block.words + w * width + j), scale, offset, width,
                  to + w * kRows * width + j, std::make_integer_sequence<int, kRows>());
      }
    }
  }
}

template <class D>
void WidenWith(D d, const NarrowMatrix& b, const void* panel, int64_t width, int64_t k0, int64_t kc,
               float* to) {
  const auto* halves = static_cast<const uint16_t*>(panel) + k0 * width;
  switch (b.type) {
    case DType::kFloat16: return WidenHalfRows(d, halves, kc * width, to);
    case DType::kUInt2: return WidenBlocks<Plain<2>>(d, b, panel, width, k0, kc, to);
    case DType::kUInt4:
      if (b.has_values) return WidenBlocks<Tabled>(d, b, panel, width, k0, kc, to);
      return WidenBlocks<Plain<4>>(d, b, panel, width, k0, kc, to);
    default: return WidenBlocks<Plain<8>>(d, b, panel, width, k0, kc, to);
  }
}

void Widen(const NarrowMatrix& b, const void* panel, int64_t width, int64_t k0, int64_t kc,
           float* to) {
  if (width % LanesOf<FullTag>() == 0) return WidenWith(FullTag(), b, panel, width, k0, kc, to);
  WidenWith(EightTag(), b, panel, width, k0, kc, to);
}

// ---- few rows ----

struct Few {
  const NarrowMatrix& b;
  const void* panel;
  int64_t width;
  const float* a;
  int64_t lda;
  const float* a_sums;
  float* c;
  int64_t ldc;
};

// kM rows times kNV vectors of columns from j on. Several sums each hide the latency of additions:
// of ranges of K where these are long, for memory gives several streams faster than one.
template <int kM, int kNV, class D>
HWY_NOINLINE void MultiplyHalves(D d, const Few& x, int64_t j) {
  using V = hn::Vec<D>;
  constexpr int kRanges = kM == 1 ? 4 : 2;
  V acc[kRanges][kM][kNV];
  Clear(d, acc);
  const auto* const from = static_cast<const uint16_t*>(x.panel) + j;
  const auto row = [&](int64_t k, const uint16_t* weights, V(&sums)[kM][kNV]) HWY_ATTR {
    V values[kNV];
#pragma GCC unroll 2
    for (int v = 0; v < kNV; ++v) values[v] = LoadHalves(d, weights + v * LanesOf<D>());
#pragma GCC unroll 4
    for (int r = 0; r < kM; ++r) {
      const V a = hn::Set(d, x.a[r * x.lda + k]);
#pragma GCC unroll 2
      for (int v = 0; v < kNV; ++v) sums[r][v] = hn::MulAdd(a, values[v], sums[r][v]);
    }
  };
  const int64_t range = x.b.k / kRanges, width = x.width;
  const bool streams = ReadsRanges(x.b.k, kRanges, 2 * LanesOf<FullTag>() * 2);
  const int64_t apart = streams ? range : 1, step = streams ? 1 : kRanges;
  for (int64_t i = 0, k = 0; i < range; ++i, k += step) {
#pragma GCC unroll 4
    for (int s = 0; s < kRanges; ++s) row(k + s * apart, from + (k + s * apart) * width, acc[s]);
  }
  for (int64_t k = kRanges * range; k < x.b.k; ++k) row(k, from + k * width, acc[0]);
  JoinSplits(acc);
#pragma GCC unroll 4
  for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kNV; ++v) {
      hn::StoreU(acc[0][r][v], d, x.c + r * x.ldc + j + v * LanesOf<D>());
    }
  }
}

template <class Codes, int kRow, int kM, int kNV, class D>
HWY_INLINE void AddRow(D d, const Codes& codes,
                       const hn::VFromD<hn::RebindToUnsigned<D>> (&words)[kNV], const float* a,
                       int64_t lda, hn::Vec<D> (&sums)[kM][kNV]) {
  hn::Vec<D> values[kNV];
#pragma GCC unroll 2
  for (int v = 0; v < kNV; ++v) values[v] = codes.template At<kRow>(d, words[v]);
#pragma GCC unroll 4
  for (int r = 0; r < kM; ++r) {
    const auto value = hn::Set(d, a[r * lda + kRow]);
#pragma GCC unroll 2
    for (int v = 0; v < kNV; ++v) sums[r][v] = hn::MulAdd(value, values[v], sums[r][v]);
  }
}

// Sums over a block of a * (2^b + code), then scale * sum - offset * (sum of a).
template <class Codes, int kM, int kNV, class D>
HWY_NOINLINE void MultiplyBlocks(D d, const Few& x, int64_t j) {
  using V = hn::Vec<D>;
  const hn::RebindToUnsigned<D> bits;
  constexpr int kRows = 32 / Codes::kBits;
  const Codes codes(x.b);
  const int64_t words = x.b.block / kRows, blocks = Blocks(x.b);
  V acc[kM][kNV];
#pragma GCC unroll 4
  for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kNV; ++v) acc[r][v] = hn::Zero(d);
  }
  const float* a = x.a;
  for (int64_t i = 0; i < blocks; ++i) {
    const PanelBlock block = BlockAt(x.panel, i, x.width, words);
    V sums[2][kM][kNV];
    Clear(d, sums);
    for (int64_t w = 0; w < words; ++w, a += kRows) {
      hn::VFromD<hn::RebindToUnsigned<D>> word[kNV];
#pragma GCC unroll 2
      for (int v = 0; v < kNV; ++v) {
        word[v] = hn::LoadU(bits, block.words + w * x.width + j + v * LanesOf<D>());
      }
      [&]<int... kRow>(std::integer_sequence<int, kRow...>) HWY_ATTR {
        (AddRow<Codes, kRow, kM, kNV>(d, codes, word, a, x.lda, sums[kRow % 2]), ...);
      }(std::make_integer_sequence<int, kRows>());
    }
#pragma GCC unroll 2
    for (int v = 0; v < kNV; ++v) {
      const V scale = hn::LoadU(d, block.scales + j + v * LanesOf<D>());
      const V offset = hn::LoadU(d, block.offsets + j + v * LanesOf<D>());
#pragma GCC unroll 4
      for (int r = 0; r < kM; ++r) {
        const V sum = hn::Add(sums[0][r][v], sums[1][r][v]);
        const V a_sum = hn::Set(d, x.a_sums[r * blocks + i]);
        acc[r][v] = hn::Add(acc[r][v], hn::MulSub(scale, sum, hn::Mul(offset, a_sum)));
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kNV; ++v) {
      hn::StoreU(acc[r][v], d, x.c + r * x.ldc + j + v * LanesOf<D>());
    }
  }
}

template <int kM, int kNV, class D>
void MultiplyColumns(D d, const Few& x, int64_t j) {
  switch (x.b.type) {
    case DType::kFloat16: return MultiplyHalves<kM, kNV>(d, x, j);
    case DType::kUInt2: return MultiplyBlocks<Plain<2>, kM, kNV>(d, x, j);
    case DType::kUInt4:
      if (x.b.has_values) return MultiplyBlocks<Tabled, kM, kNV>(d, x, j);
      return MultiplyBlocks<Plain<4>, kM, kNV>(d, x, j);
    default: return MultiplyBlocks<Plain<8>, kM, kNV>(d, x, j);
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

void Multiply(const NarrowMatrix& b, const void* panel, int64_t width, int64_t m, const float* a,
              int64_t lda, const float* a_sums, float* c, int64_t ldc) {
  const Few x{b, panel, width, a, lda, a_sums, c, ldc};
  switch (m) {
    case 1: return MultiplyRows<1>(x);
    case 2: return MultiplyRows<2>(x);
    case 3: return MultiplyRows<3>(x);
    default: return MultiplyRows<4>(x);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Widen);
HWY_EXPORT(Multiply);

void WidenPanel(const NarrowMatrix& b, const void* panel, int64_t width, int64_t k0, int64_t kc,
                float* to) {
  HWY_DYNAMIC_DISPATCH(Widen)(b, panel, width, k0, kc, to);
}

void MultiplyPanel(const NarrowMatrix& b, const void* panel, int64_t width, int64_t m,
                   const float* a, int64_t lda, const float* a_sums, float* c, int64_t ldc) {
  HWY_DYNAMIC_DISPATCH(Multiply)(b, panel, width, m, a, lda, a_sums, c, ldc);
}

}  // namespace sardonyx
#endif  // HWY_ONCE
