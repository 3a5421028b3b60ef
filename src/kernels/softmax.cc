#include "kernels/softmax.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/softmax.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/dtype.h"
#include "kernels/rounding-inl.h"
#include "kernels/row_math-inl.h"
#include "kernels/slices.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

constexpr int64_t kNear = 4096;  // floats on the stack
// Rows this long are worth vectors of their own: of one vector, of two where parts are slow.
constexpr int64_t kShort =
    static_cast<int64_t>(hn::MaxLanes(D())) * (HWY_TARGET == HWY_AVX2 ? 2 : 1);
constexpr float kLowest = -std::numeric_limits<float>::infinity();

// Largest of n numbers; a NaN may or may not be the answer.
HWY_INLINE float RowMax(const float* x, int64_t n) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V m0 = hn::Set(d, kLowest), m1 = m0, m2 = m0, m3 = m0;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    m0 = hn::Max(m0, hn::LoadU(d, x + i));
    m1 = hn::Max(m1, hn::LoadU(d, x + i + lanes));
    m2 = hn::Max(m2, hn::LoadU(d, x + i + 2 * lanes));
    m3 = hn::Max(m3, hn::LoadU(d, x + i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) m0 = hn::Max(m0, hn::LoadU(d, x + i));
  if (i < n) m1 = hn::Max(m1, LoadPart(d, x + i, n - i, kLowest));
  return MaxLane(d, hn::Max(hn::Max(m0, m1), hn::Max(m2, m3)));
}

// The sum of e^(x - max); stores the terms if kStore, but for those of a part of a vector.
template <bool kStore>
HWY_INLINE float RowExp(const float* x, float* y, int64_t n, float max, V* part) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V shift = hn::Set(d, max);
  V s0 = hn::Zero(d), s1 = s0;
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const V a = ExpNonPositive(d, hn::Sub(hn::LoadU(d, x + i), shift));
    const V b = ExpNonPositive(d, hn::Sub(hn::LoadU(d, x + i + lanes), shift));
    if constexpr (kStore) {
      hn::StoreU(a, d, y + i);
      hn::StoreU(b, d, y + i + lanes);
    }
    s0 = hn::Add(s0, a);
    s1 = hn::Add(s1, b);
  }
  for (; i < n; i += lanes) {
    if (i + lanes <= n) {
      const V a = ExpNonPositive(d, hn::Sub(hn::LoadU(d, x + i), shift));
      if constexpr (kStore) hn::StoreU(a, d, y + i);
      s0 = hn::Add(s0, a);
    } else {
      const V a = ExpNonPositive(d, hn::Sub(LoadPart(d, x + i, n - i, kLowest), shift));
      *part = a;
      s1 = hn::Add(s1, hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(n - i)), a));
    }
  }
  return SumLanes(d, hn::Add(s0, s1));
}

HWY_INLINE void StoreRowEnd(V v, float* y, int64_t count, bool is_in_place) {
  const D d;
  is_in_place ? StorePieces(v, d, y, count) : StorePart(v, d, y, count);
}

// `part` is what is not stored yet.
HWY_INLINE void RowScale(float* y, int64_t n, float factor, V part, bool is_in_place) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V f = hn::Set(d, factor);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, y + i), f), d, y + i);
  if (i < n) StoreRowEnd(hn::Mul(part, f), y + i, n - i, is_in_place);
}

// A sum of rounded terms, rounded as they are unless it leaves the range of the format.
HWY_INLINE V RoundedSum(D d, DType rounding, V sum) {
  const V rounded = RoundTo(d, rounding, sum);
  return hn::IfThenElse(hn::IsFinite(rounded), rounded, sum);
}

// y[i] / sum of y, terms and sum rounded.
HWY_INLINE void RowRoundedShares(float* y, int64_t n, DType rounding) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = n / lanes * lanes;
  V sum = hn::Zero(d);
  for (int64_t i = 0; i < whole; i += lanes) {
    const V term = RoundTo(d, rounding, hn::LoadU(d, y + i));
    hn::StoreU(term, d, y + i);
    sum = hn::Add(sum, term);
  }
  if (whole < n) {
    const V term = RoundTo(d, rounding, LoadPart(d, y + whole, n - whole));
    StorePart(term, d, y + whole, n - whole);
    sum = hn::Add(sum, term);
  }
  sum = RoundedSum(d, rounding, hn::Set(d, SumLanes(d, sum)));
  for (int64_t i = 0; i < whole; i += lanes) {
    hn::StoreU(hn::Div(hn::LoadU(d, y + i), sum), d, y + i);
  }
  if (whole < n) {
    StorePart(hn::Div(LoadPart(d, y + whole, n - whole), sum), d, y + whole, n - whole);
  }
}

void LongRows(const float* x, float* y, int64_t rows, int64_t n, bool log, DType rounding) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const bool is_in_place = x == y;
  V part = hn::Zero(d);
  for (int64_t row = 0; row < rows; ++row, x += n, y += n) {
    const float max = RowMax(x, n);
    if (!log) {
      const float sum = RowExp<true>(x, y, n, max, &part);
      if (rounding != DType::kFloat32) {
        if (n % lanes != 0) StorePart(part, d, y + n / lanes * lanes, n % lanes);
        RowRoundedShares(y, n, rounding);
      } else {
        RowScale(y, n, 1.0f / sum, part, is_in_place);
      }
      continue;
    }
    // Two subtractions: max + log(sum) rounded to one number would lose the small one's digits.
    const V log_sum = hn::Set(d, std::log(RowExp<false>(x, nullptr, n, max, &part)));
    const V shift = hn::Set(d, max);
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      hn::StoreU(hn::Sub(hn::Sub(hn::LoadU(d, x + i), shift), log_sum), d, y + i);
    }
    if (i < n) {
      StoreRowEnd(hn::Sub(hn::Sub(LoadPart(d, x + i, n - i), shift), log_sum), y + i, n - i,
                  is_in_place);
    }
  }
}

// Columns [0, count) of x [n, inner]. kAcross: these are rows of x [count, n], whole vectors of
// them, and inner is 1.
template <bool kRounds, bool kAcross = false>
HWY_INLINE void Columns(const float* x, float* y, int64_t n, int64_t inner, int64_t count, bool log,
                        DType rounding) {
  const D d;
  const hn::RebindToSigned<D> di;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), step = (kAcross ? n : 1) * lanes;
  const auto places = hn::Mul(hn::Iota(di, 0), hn::Set(di, static_cast<int32_t>(n)));
  for (int64_t c = 0; c < count; c += lanes, x += step, y += step) {
    const int64_t part = std::min(lanes, count - c);
    const auto load = [&](const float* p) HWY_ATTR {
      if constexpr (kAcross) return hn::GatherIndex(d, p, places);
      return part == lanes ? hn::LoadU(d, p) : LoadPart(d, p, part);
    };
    const auto store = [&](V v, float* p) HWY_ATTR {
      if constexpr (kAcross) {
        hn::ScatterIndex(v, d, p, places);
      } else {
        part == lanes ? hn::StoreU(v, d, p) : StorePart(v, d, p, part);
      }
    };
    // Rows a power of two apart share cache sets, so a column that fits is gathered first.
    HWY_ALIGN float near[kNear];
    const bool is_near = n * lanes <= kNear;
    V max = hn::Set(d, kLowest);
    for (int64_t i = 0; i < n; ++i) {
      const V v = load(x + i * inner);
      if (is_near) hn::Store(v, d, near + i * lanes);
      max = hn::Max(max, v);
    }
    V sum = hn::Zero(d);
    for (int64_t i = 0; i < n; ++i) {
      const V v = is_near ? hn::Load(d, near + i * lanes) : load(x + i * inner);
      V e = ExpNonPositive(d, hn::Sub(v, max));
      if constexpr (kRounds) e = RoundTo(d, rounding, e);
      if (!log) is_near ? hn::Store(e, d, near + i * lanes) : store(e, y + i * inner);
      sum = hn::Add(sum, e);
    }
    if (log) {
      HWY_ALIGN float logs[HWY_MAX_BYTES / sizeof(float)];
      hn::Store(sum, d, logs);
      for (int64_t i = 0; i < lanes; ++i) logs[i] = std::log(logs[i]);
      const V log_sum = hn::Load(d, logs);
      for (int64_t i = 0; i < n; ++i) {
        const V v = is_near ? hn::Load(d, near + i * lanes) : load(x + i * inner);
        store(hn::Sub(hn::Sub(v, max), log_sum), y + i * inner);
      }
    } else {
      const V total = kRounds ? RoundedSum(d, rounding, sum) : sum;
      const V factor = hn::Div(hn::Set(d, 1.0f), total);
      for (int64_t i = 0; i < n; ++i) {
        const V e = is_near ? hn::Load(d, near + i * lanes) : load(y + i * inner);
        store(kRounds ? hn::Div(e, total) : hn::Mul(e, factor), y + i * inner);
      }
    }
  }
}

// x [n, inner] of fewer columns than lanes, as its elements lie one behind the other: those of as
// many vectors as there are columns belong to the same columns as those of the next.
class FewColumns {
 public:
  FewColumns(int64_t n, int64_t inner) : size_(n * inner), inner_(inner), period_(inner * kLanes) {}

  void Run(const float* x, float* y, bool log) {
    const D d;
    std::fill_n(most_, period_, kLowest);
    std::fill_n(sums_, period_, 0.0f);
    ForAll(x, [&](V v, int64_t at, int64_t, int64_t)
                  HWY_ATTR { hn::Store(hn::Max(hn::Load(d, most_ + at), v), d, most_ + at); });
    JoinColumns(most_, [](float a, float b) { return std::max(a, b); }, [](float a) { return a; });
    ForAll(x, [&](V v, int64_t at, int64_t i, int64_t count) HWY_ATTR {
      const V e = ExpNonPositive(d, hn::Sub(v, hn::Load(d, most_ + at)));
      hn::Store(hn::Add(hn::Load(d, sums_ + at), e), d, sums_ + at);
      if (!log) Put(e, y + i, count);
    });
    JoinColumns(
        sums_, [](float a, float b) { return a + b; },
        [log](float sum) { return log ? std::log(sum) : 1.0f / sum; });
    if (log) {
      ForAll(x, [&](V v, int64_t at, int64_t i, int64_t count) HWY_ATTR {
        Put(hn::Sub(hn::Sub(v, hn::Load(d, most_ + at)), hn::Load(d, sums_ + at)), y + i, count);
      });
      return;
    }
    ForAll(y, [&](V v, int64_t at, int64_t i, int64_t count)
                  HWY_ATTR { Put(hn::Mul(v, hn::Load(d, sums_ + at)), y + i, count); });
  }

 private:
  static constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));

  // visit(vector, its place in a period, its place, its elements)
  template <typename Visit>
  HWY_INLINE void ForAll(const float* from, Visit&& visit) const {
    const D d;
    int64_t i = 0, at = 0;
    for (; i + kLanes <= size_; i += kLanes) {
      visit(hn::LoadU(d, from + i), at, i, kLanes);
      at = at + kLanes == period_ ? 0 : at + kLanes;
    }
    if (i < size_) visit(LoadPart(d, from + i, size_ - i, kLowest), at, i, size_ - i);
  }

  static HWY_INLINE void Put(V v, float* to, int64_t count) {
    const D d;
    count == kLanes ? hn::StoreU(v, d, to) : StorePart(v, d, to, count);
  }

  // All elements of a column become its join, finished.
  template <typename Join, typename Finish>
  void JoinColumns(float* of, Join&& join, Finish&& finish) const {
    for (int64_t first = inner_; first < period_; first += inner_) {
      for (int64_t c = 0; c < inner_; ++c) of[c] = join(of[c], of[first + c]);
    }
    for (int64_t c = 0; c < inner_; ++c) of[c] = finish(of[c]);
    for (int64_t k = inner_; k < period_; ++k) of[k] = of[k - inner_];
  }

  const int64_t size_, inner_, period_;
  HWY_ALIGN float most_[kLanes * kLanes];
  HWY_ALIGN float sums_[kLanes * kLanes];
};

template <bool kRounds>
HWY_INLINE void ShortRows(const float* x, float* y, int64_t rows, int64_t n, bool log,
                          DType rounding) {
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  const int64_t whole = rows / kLanes * kLanes, rest = (rows - whole) * n;  // of n < kShort
  Columns<kRounds, true>(x, y, n, 1, whole, log, rounding);
  if (rest == 0) return;
  float last[kLanes * kShort] = {};
  std::copy_n(x + whole * n, rest, last);
  Columns<kRounds, true>(last, last, n, 1, kLanes, log, rounding);
  std::copy_n(last, rest, y + whole * n);
}

// Short rows are done side by side where there are some.
void SoftmaxRows(const float* x, float* y, int64_t rows, int64_t n, bool log, DType rounding) {
  if (rows < 4 || n >= kShort) {
    LongRows(x, y, rows, n, log, rounding);
  } else if (rounding == DType::kFloat32) {
    ShortRows<false>(x, y, rows, n, log, rounding);
  } else {
    ShortRows<true>(x, y, rows, n, log, rounding);
  }
}

void SoftmaxColumns(const float* x, float* y, int64_t n, int64_t inner, int64_t count, bool log,
                    DType rounding) {
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  if (rounding == DType::kFloat32 && count == inner && inner < kLanes && n >= 16 * inner) {
    FewColumns(n, inner).Run(x, y, log);
  } else if (rounding == DType::kFloat32) {
    Columns<false>(x, y, n, inner, count, log, rounding);
  } else {
    Columns<true>(x, y, n, inner, count, log, rounding);
  }
}

}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(SoftmaxRows);
HWY_EXPORT(SoftmaxColumns);

void Softmax(const float* x, float* y, int64_t outer, int64_t n, int64_t inner, bool log,
             const Parallel& par, DType rounding) {
  if (inner == 1) {
    const Slices slices = Slice(outer, n);
    par.For(slices.tasks, [&](int64_t task) {
      const int64_t begin = slices.Begin(task), end = slices.End(task, outer);
      HWY_DYNAMIC_DISPATCH(SoftmaxRows)(x + begin * n, y + begin * n, end - begin, n, log,
                                        rounding);
    });
    return;
  }
  constexpr int64_t kColumns = 64;
  const int64_t blocks = (inner + kColumns - 1) / kColumns;
  const Slices slices = Slice(outer * blocks, n * std::min(inner, kColumns));
  par.For(slices.tasks, [&](int64_t task) {
    for (int64_t i = slices.Begin(task); i < slices.End(task, outer * blocks); ++i) {
      const int64_t first = i % blocks * kColumns, at = i / blocks * n * inner + first;
      HWY_DYNAMIC_DISPATCH(SoftmaxColumns)
      (x + at, y + at, n, inner, std::min(kColumns, inner - first), log, rounding);
    }
  });
}

}  // namespace sardonyx
#endif  // HWY_ONCE
