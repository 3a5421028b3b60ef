#include "kernels/attention_rows.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_rows.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/rounding-inl.h"
#include "kernels/row_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

constexpr float kHidden = -std::numeric_limits<float>::infinity();
constexpr float kFarBelow = -1e37f;  // as a mask hides keys with finite numbers

// Lanes [i, i + count) of a row, less than a vector filled up with `fill`.
HWY_INLINE V LoadSome(const float* p, int64_t count, float fill) {
  const D d;
  return count >= static_cast<int64_t>(hn::Lanes(d)) ? hn::LoadU(d, p)
                                                     : LoadPart(d, p, count, fill);
}
HWY_INLINE void StoreSome(V x, float* p, int64_t count) {
  const D d;
  if (count >= static_cast<int64_t>(hn::Lanes(d))) {
    hn::StoreU(x, d, p);
  } else {
    StorePart(x, d, p, count);
  }
}

// Whether bytes of the mask are not 0, for a vector of keys.
HWY_INLINE hn::Mask<D> LoadSeen(const uint8_t* p, int64_t count) {
  const D d;
  const hn::Rebind<uint8_t, D> bytes;
  const hn::RebindToSigned<D> words;
  const auto in =
      count >= static_cast<int64_t>(hn::Lanes(d)) ? hn::LoadU(bytes, p) : LoadPart(bytes, p, count);
  return hn::RebindMask(d, hn::Ne(hn::PromoteTo(words, in), hn::Zero(words)));
}

// Largest of n numbers, or -infinity. A NaN may be lost to it.
HWY_INLINE float RowMax(const float* x, int64_t n) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V m0 = hn::Set(d, kHidden), m1 = m0;
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    m0 = hn::Max(m0, hn::LoadU(d, x + i));
    m1 = hn::Max(m1, hn::LoadU(d, x + i + lanes));
  }
  for (; i < n; i += lanes) m0 = hn::Max(m0, LoadSome(x + i, n - i, kHidden));
  return MaxLane(d, hn::Max(m0, m1));
}

// Applies scale, cap and mask to the scores of n keys from `first` on, each with its rounding;
// returns the largest score, as RowMax does.
HWY_INLINE float Score(const AttentionBlock& block, const AttentionRow& row, int64_t first,
                       float* x, int64_t n) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V scale = hn::Set(d, block.scale), hidden = hn::Set(d, kHidden);
  const V cap = hn::Set(d, block.softcap), per_cap = hn::Set(d, 1.0f / block.softcap);
  const auto* terms = static_cast<const float*>(row.mask);
  const auto* seen = static_cast<const uint8_t*>(row.mask);
  const auto round = [&](V s) HWY_ATTR { return RoundTo(d, block.rounding, s); };
  V max = hidden;
  const auto pass = [&](auto&& masked) {
    for (int64_t i = 0; i < n; i += lanes) {
      V s = round(LoadSome(x + i, n - i, kHidden));
      if (block.scale != 1) s = round(hn::Mul(s, scale));
      if (block.softcap > 0) s = hn::Mul(VecTanh(d, hn::Mul(s, per_cap)), cap);
      s = masked(s, i);
      StoreSome(s, x + i, n - i);
      if (n - i < lanes) s = hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(n - i)), s, hidden);
      max = hn::Max(max, s);
    }
  };
  if (row.mask == nullptr) {
    pass([](V s, int64_t) { return s; });
  } else if (block.mask_is_bytes) {
    pass([&](V s, int64_t i) {
      if (block.mask_step == 0) return *seen != 0 ? s : hidden;
      return hn::IfThenElse(LoadSeen(seen + first + i, n - i), s, hidden);
    });
  } else if (block.mask_step == 0) {
    const V term = hn::Set(d, *terms);
    pass([&](V s, int64_t) { return round(hn::Add(s, term)); });
  } else {
    pass([&](V s, int64_t i) {
      return round(hn::Add(s, LoadSome(terms + first + i, n - i, 0.0f)));
    });
  }
  return MaxLane(d, max);
}

// Score for the usual mask: x = x * scale + terms, scale > 0.
HWY_INLINE float AddTerms(float* x, const float* terms, int64_t n, float scale) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V factor = hn::Set(d, scale);
  V m0 = hn::Set(d, kHidden), m1 = m0;
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const V a = hn::MulAdd(hn::LoadU(d, x + i), factor, hn::LoadU(d, terms + i));
    const V b = hn::MulAdd(hn::LoadU(d, x + i + lanes), factor, hn::LoadU(d, terms + i + lanes));
    hn::StoreU(a, d, x + i);
    hn::StoreU(b, d, x + i + lanes);
    m0 = hn::Max(m0, a);
    m1 = hn::Max(m1, b);
  }
  for (; i < n; i += lanes) {
    const V a =
        hn::MulAdd(LoadSome(x + i, n - i, kHidden), factor, LoadSome(terms + i, n - i, 0.0f));
    StoreSome(a, x + i, n - i);
    m0 = hn::Max(m0, a);
  }
  return MaxLane(d, hn::Max(m0, m1));
}

// x = e^(x * scale - max); returns the sum.
HWY_INLINE float Exponentials(float* x, int64_t n, float scale, float max) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  // Where all is -infinity the terms are 0.
  const V shift = hn::Set(d, max == kHidden ? 0.0f : max), factor = hn::Set(d, scale);
  V s0 = hn::Zero(d), s1 = s0;
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const V a = ExpNonPositive(d, hn::MulSub(hn::LoadU(d, x + i), factor, shift));
    const V b = ExpNonPositive(d, hn::MulSub(hn::LoadU(d, x + i + lanes), factor, shift));
    hn::StoreU(a, d, x + i);
    hn::StoreU(b, d, x + i + lanes);
    s0 = hn::Add(s0, a);
    s1 = hn::Add(s1, b);
  }
  for (; i < n; i += lanes) {
    const V a = ExpNonPositive(d, hn::MulSub(LoadSome(x + i, n - i, kHidden), factor, shift));
    StoreSome(a, x + i, n - i);
    s0 = hn::Add(
        s0, n - i >= lanes ? a : hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(n - i)), a));
  }
  return SumLanes(d, hn::Add(s0, s1));
}

HWY_INLINE void Multiply(float* y, int64_t n, float factor, DType rounding = DType::kFloat32) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V f = hn::Set(d, factor);
  for (int64_t i = 0; i < n; i += lanes) {
    StoreSome(RoundTo(d, rounding, hn::Mul(LoadSome(y + i, n - i, 0.0f), f)), y + i, n - i);
  }
}

// A row of a block whose scores are being softened.
struct SoftRow {
  AttentionRow& row;
  float* x;
  int64_t n;  // keys of the block that it sees
  bool bare;  // x are products still
  float max;  // with the blocks before
};

// Scores of row r, and their largest.
HWY_INLINE SoftRow ScoreRow(const AttentionBlock& block, int64_t r) {
  AttentionRow& row = block.rows[r];
  float* const all = block.scores + r * block.scores_ld;
  const int64_t end = std::clamp<int64_t>(row.end - block.first, 0, block.keys);
  const int64_t begin = std::clamp<int64_t>(row.begin - block.first, 0, end), n = end - begin;
  std::fill(all, all + begin, 0.0f);
  std::fill(all + end, all + block.keys, 0.0f);
  float* const x = all + begin;
  const int64_t first = block.first + begin;
  // Products that are scaled alone need no sweep of their own.
  const bool plain = !(block.softcap > 0) && block.scale > 0 && block.rounding == DType::kFloat32;
  const bool bare = plain && row.mask == nullptr;
  const bool adds = plain && !bare && !block.mask_is_bytes && block.mask_step == 1;
  const float largest =
      n == 0 ? kHidden
      : bare ? RowMax(x, n) * block.scale
      : adds ? AddTerms(x, static_cast<const float*>(row.mask) + first, n, block.scale)
             : Score(block, row, first, x, n);
  return {row, x, n, bare, std::max(row.max, largest)};
}

// Weights of a row whose largest score is known.
HWY_INLINE void SoftenRow(const AttentionBlock& block, const SoftRow& soft, float* y) {
  const auto& [row, x, n, bare, max] = soft;
  if (n == 0) return;
  const float sum = Exponentials(x, n, bare ? block.scale : 1.0f, max);
  if (block.rounding != DType::kFloat32) {
    // What has no weights is left to FinishRows.
    const bool weighs = sum > 0;
    if (weighs) {
      Multiply(x, n, 1.0f / sum, block.rounding);
    } else {
      std::fill(x, x + n, 0.0f);
    }
    row.sum = weighs ? 1 : sum;
    return;
  }
  if (max == row.max) {
    row.sum += sum;
    return;
  }
  const float change = std::exp(row.max - max);
  if (y != nullptr) Multiply(y, block.width, change);
  row.sum = row.sum * change + sum;
  row.max = max;
}

void Soften(const AttentionBlock& block) {
  // Some rows at a time: a row alone would wait for its largest score, and then for its sum.
  constexpr int64_t kTogether = 4;
  const auto y_of = [&](int64_t r) {
    return block.y == nullptr ? nullptr : block.y + r * block.y_ld;
  };
  int64_t r = 0;
  for (; r + kTogether <= block.row_count; r += kTogether) {
    const SoftRow rows[] = {ScoreRow(block, r), ScoreRow(block, r + 1), ScoreRow(block, r + 2),
                            ScoreRow(block, r + 3)};
    for (int64_t i = 0; i < kTogether; ++i) SoftenRow(block, rows[i], y_of(r + i));
  }
  for (; r < block.row_count; ++r) SoftenRow(block, ScoreRow(block, r), y_of(r));
}

void Finish(const AttentionRow* rows, int64_t row_count, bool zero_blind, bool zero_nan,
            DType rounding, float* y, int64_t y_ld, int64_t width) {
  for (int64_t r = 0; r < row_count; ++r, y += y_ld) {
    const float sum = rows[r].sum;
    const bool is_sink = rows[r].begin == rows[r].end && sum != 0;  // all that it sees
    if (is_sink || (zero_blind && sum == 0) || (zero_nan && (sum == 0 || std::isnan(sum)))) {
      std::fill(y, y + width, 0.0f);
    } else {
      Multiply(y, width, sum == 0 ? std::numeric_limits<float>::quiet_NaN() : 1.0f / sum, rounding);
    }
  }
}

int64_t EndOfSeen(const void* mask, bool is_bytes, int64_t keys) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t end = keys; end > 0; end -= lanes) {
    const int64_t begin = std::max<int64_t>(end - lanes, 0), count = end - begin;
    const auto seen =
        is_bytes ? LoadSeen(static_cast<const uint8_t*>(mask) + begin, count)
                 : hn::Not(hn::Le(LoadSome(static_cast<const float*>(mask) + begin, count, kHidden),
                                  hn::Set(d, kFarBelow)));
    if (hn::AllFalse(d, seen)) continue;
    HWY_ALIGN float flags[HWY_MAX_BYTES / sizeof(float)];
    hn::Store(hn::IfThenElseZero(seen, hn::Set(d, 1.0f)), d, flags);
    for (int64_t i = count; i-- > 0;) {
      if (flags[i] != 0) return begin + i + 1;
    }
  }
  return keys;
}

// Whether the first `keys` bytes are not 0, or terms are.
bool AreAlike(const void* mask, bool is_bytes, int64_t keys) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < keys; i += lanes) {
    const int64_t count = std::min(lanes, keys - i);
    const auto inside = hn::FirstN(d, static_cast<size_t>(count));
    const auto other =
        is_bytes ? hn::Not(LoadSeen(static_cast<const uint8_t*>(mask) + i, count))
                 : hn::Ne(LoadSome(static_cast<const float*>(mask) + i, count, 0.0f), hn::Zero(d));
    if (!hn::AllFalse(d, hn::And(inside, other))) return false;
  }
  return true;
}

SeenKeys Seen(const void* mask, bool is_bytes, int64_t step, int64_t keys) {
  if (step == 0) return {keys, false};
  const int64_t end = EndOfSeen(mask, is_bytes, keys);
  return {end, AreAlike(mask, is_bytes, end)};
}

}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Soften);
HWY_EXPORT(Finish);
HWY_EXPORT(Seen);

void SoftenBlock(const AttentionBlock& block) { HWY_DYNAMIC_DISPATCH(Soften)(block); }

void FinishRows(const AttentionRow* rows, int64_t row_count, bool zero_blind, bool zero_nan,
                DType rounding, float* y, int64_t y_ld, int64_t width) {
  HWY_DYNAMIC_DISPATCH(Finish)(rows, row_count, zero_blind, zero_nan, rounding, y, y_ld, width);
}

SeenKeys KeysSeen(const void* mask, bool is_bytes, int64_t step, int64_t keys) {
  return HWY_DYNAMIC_DISPATCH(Seen)(mask, is_bytes, step, keys);
}

}  // namespace sardonyx
#endif  // HWY_ONCE
