#include "kernels/reduce_columns.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_columns.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <limits>

#include "kernels/reduce_join-inl.h"
#include "kernels/reduce_typed.h"
#include "kernels/row_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {

using D = ReduceTag;
using V = ReduceVector;

// Adds a chunk to a total whose rounding error is kept aside (Neumaier's sum without the branch).
HWY_INLINE void AddChunk(V chunk, V& total, V& lost) {
  const V sum = hn::Add(total, chunk);
  const V back = hn::Sub(sum, total);
  lost = hn::Add(lost, hn::Add(hn::Sub(total, hn::Sub(sum, back)), hn::Sub(chunk, back)));
  total = sum;
}

// Infinite sums leave NaN in the lost part.
HWY_INLINE V WithLost(V total, V lost) {
  return hn::IfThenElse(hn::IsNaN(lost), total, hn::Add(total, lost));
}

// kVectors vectors of adjacent columns of x [n, inner]: y = join over n. Sums are compensated,
// chunk by chunk.
template <ReduceKind kKind, int kVectors>
HWY_INLINE void ColumnBlock(const float* x, float* y, int64_t n, int64_t inner, int64_t part) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr bool kIsSum = IsSum(kKind);
  const V neutral = hn::Set(d, Neutral<kKind>());
  V total[kVectors], lost[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) total[v] = lost[v] = kIsSum ? hn::Zero(d) : neutral;
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const int64_t end = std::min(n, begin + kChunk);
    V acc[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) acc[v] = kIsSum ? neutral : total[v];
    for (int64_t i = begin; i < end; ++i) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        const float* p = x + i * inner + v * lanes;
        acc[v] = Join<kKind>(acc[v], part == 0 ? hn::LoadU(d, p) : LoadPart(d, p, part));
      }
    }
    const bool is_all = n <= kChunk;  // one chunk loses nothing
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      if (kIsSum && !is_all) {
        AddChunk(acc[v], total[v], lost[v]);
      } else {
        total[v] = acc[v];
      }
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    const V result = kIsSum ? WithLost(total[v], lost[v]) : total[v];
    if (part == 0) {
      hn::StoreU(result, d, y + v * lanes);
    } else {
      StorePart(result, d, y, part);
    }
  }
}

// What is larger may come from memory.
constexpr int64_t kLargeBytes = 512 << 10;

// The same of many columns, whole vectors, some rows at a time on top of what is in the nearest
// cache: memory gives long pieces of rows twice as fast as short ones.
template <ReduceKind kKind>
HWY_INLINE void WideColumns(const float* x, float* y, int64_t n, int64_t inner, int64_t count) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t kRows = 8;
  constexpr bool kIsSum = IsSum(kKind);
  HWY_ALIGN float acc[kMostColumns], total[kMostColumns], lost[kMostColumns];
  std::fill_n(acc, count, kIsSum ? 0.0f : Neutral<kKind>());
  std::fill_n(total, kIsSum ? count : 0, 0.0f);
  std::fill_n(lost, kIsSum ? count : 0, 0.0f);
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const int64_t end = std::min(n, begin + kChunk);
    int64_t i = begin;
    for (; i + kRows <= end; i += kRows) {
      const float* const rows = x + i * inner;
      for (int64_t c = 0; c < count; c += lanes) {
        V sum = hn::Load(d, acc + c);
#pragma GCC unroll 8
        for (int64_t r = 0; r < kRows; ++r) {
          sum = Join<kKind>(sum, hn::LoadU(d, rows + r * inner + c));
        }
        hn::Store(sum, d, acc + c);
      }
    }
    for (; i < end; ++i) {
      for (int64_t c = 0; c < count; c += lanes) {
        hn::Store(Join<kKind>(hn::Load(d, acc + c), hn::LoadU(d, x + i * inner + c)), d, acc + c);
      }
    }
    if constexpr (kIsSum) {
      for (int64_t c = 0; c < count; c += lanes) {
        V sum = hn::Load(d, total + c), error = hn::Load(d, lost + c);
        AddChunk(hn::Load(d, acc + c), sum, error);
        hn::Store(sum, d, total + c);
        hn::Store(error, d, lost + c);
        hn::Store(hn::Zero(d), d, acc + c);
      }
    }
  }
  for (int64_t c = 0; c < count; c += lanes) {
    hn::StoreU(
        kIsSum ? WithLost(hn::Load(d, total + c), hn::Load(d, lost + c)) : hn::Load(d, acc + c), d,
        y + c);
  }
}

// So few columns leave most lanes of their vectors empty: as many rows as there are lanes, side by
// side, count as one (Zen 4, 1,024 rows of 3: 0.2 of the time).
constexpr int64_t kFewColumns = 8;

template <ReduceKind kKind>
HWY_INLINE void FewColumns(const float* x, float* y, int64_t n, int64_t inner) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t beside = n / lanes, row = lanes * inner, left = n - beside * lanes;
  HWY_ALIGN float totals[(hn::MaxLanes(d) + 1) * kFewColumns];
  int64_t c = 0;
  for (; c + 4 * lanes <= row; c += 4 * lanes) {
    ColumnBlock<kKind, 4>(x + c, totals + c, beside, row, 0);
  }
  for (; c < row; c += lanes) ColumnBlock<kKind, 1>(x + c, totals + c, beside, row, 0);
  if (left > 0) ColumnBlock<kKind, 1>(x + beside * row, totals + row, left, inner, inner);
  const int64_t parts = lanes + (left > 0 ? 1 : 0);
  for (c = 0; c < inner; ++c) {
    double total = totals[c];
    for (int64_t part = 1; part < parts; ++part) {
      total = JoinPartial<double>(kKind, total, totals[part * inner + c]);
    }
    y[c] = static_cast<float>(total);
  }
}

template <ReduceKind kKind>
HWY_INLINE void Columns(const float* x, float* y, int64_t n, int64_t inner, int64_t count) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  if (count == inner && inner <= kFewColumns && inner < lanes && n >= 4 * lanes) {
    return FewColumns<kKind>(x, y, n, inner);
  }
  int64_t c = 0;
  const bool is_large = n >= 8 && n * inner * static_cast<int64_t>(sizeof(float)) >= kLargeBytes;
  while (is_large && c + 16 * lanes <= count) {
    const int64_t columns = std::min((count - c) / lanes * lanes, kMostColumns);
    WideColumns<kKind>(x + c, y + c, n, inner, columns);
    c += columns;
  }
  for (; c + 8 * lanes <= count; c += 8 * lanes) {
    ColumnBlock<kKind, 8>(x + c, y + c, n, inner, 0);
  }
  for (; c + 4 * lanes <= count; c += 4 * lanes) {
    ColumnBlock<kKind, 4>(x + c, y + c, n, inner, 0);
  }
  for (; c + lanes <= count; c += lanes) ColumnBlock<kKind, 1>(x + c, y + c, n, inner, 0);
  if (c == count) return;
  if (count >= lanes) {  // the last vector has some of them again
    ColumnBlock<kKind, 1>(x + count - lanes, y + count - lanes, n, inner, 0);
  } else {
    ColumnBlock<kKind, 1>(x, y, n, inner, count);
  }
}

void DivideAll(float* y, int64_t count, float divisor) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::Div(hn::LoadU(d, y + i), hn::Set(d, divisor)), d, y + i);
  }
  for (; i < count; ++i) y[i] /= divisor;
}

void ReduceColumns(ReduceKind kind, const float* x, float* y, int64_t n, int64_t inner,
                   int64_t count) {
  switch (kind) {
    case ReduceKind::kL1: return Columns<ReduceKind::kL1>(x, y, n, inner, count);
    case ReduceKind::kSumSquare: return Columns<ReduceKind::kSumSquare>(x, y, n, inner, count);
    case ReduceKind::kProd: return Columns<ReduceKind::kProd>(x, y, n, inner, count);
    case ReduceKind::kMax: return Columns<ReduceKind::kMax>(x, y, n, inner, count);
    case ReduceKind::kMin: return Columns<ReduceKind::kMin>(x, y, n, inner, count);
    default: return Columns<ReduceKind::kSum>(x, y, n, inner, count);
  }
}

void LogSumExpColumns(const float* x, float* y, int64_t n, int64_t inner, int64_t count) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t c = 0; c < count; c += lanes) {
    const int64_t part = std::min(lanes, count - c);
    const auto load = [&](const float* p) HWY_ATTR {
      return part == lanes ? hn::LoadU(d, p) : LoadPart(d, p, part);
    };
    const V max = load(y + c);
    V total = hn::Zero(d), lost = hn::Zero(d);
    for (int64_t i = 0; i < n; ++i) {
      // Of positive terms, Kahan's sum.
      const V term = hn::Sub(ExpNonPositive(d, hn::Sub(load(x + i * inner + c), max)), lost);
      const V sum = hn::Add(total, term);
      lost = hn::Sub(hn::Sub(sum, total), term);
      total = sum;
    }
    const V inf = hn::Set(d, std::numeric_limits<float>::infinity());
    const V result = hn::IfThenElse(hn::Eq(hn::Abs(max), inf), max, hn::Add(VecLog(d, total), max));
    if (part == lanes) {
      hn::StoreU(result, d, y + c);
    } else {
      StorePart(result, d, y + c, part);
    }
  }
}

}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(ReduceColumns);
HWY_EXPORT(LogSumExpColumns);
HWY_EXPORT(DivideAll);

void ReduceColumns(ReduceKind kind, const float* x, float* y, int64_t n, int64_t inner,
                   int64_t count) {
  HWY_DYNAMIC_DISPATCH(ReduceColumns)(kind, x, y, n, inner, count);
}

void LogSumExpColumns(const float* x, float* y, int64_t n, int64_t inner, int64_t count) {
  HWY_DYNAMIC_DISPATCH(LogSumExpColumns)(x, y, n, inner, count);
}

void DivideAll(float* y, int64_t count, float divisor) {
  HWY_DYNAMIC_DISPATCH(DivideAll)(y, count, divisor);
}

}  // namespace sardonyx
#endif  // HWY_ONCE
