// Softmax and log-sum-exp in float64.
#include "kernels/softmax.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/softmax_double.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <cmath>
#include <limits>

#include "kernels/row_math-inl.h"
#include "kernels/slices.h"
// After the above, which sets the namespaces.
#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;
constexpr double kLowest = -std::numeric_limits<double>::infinity();

// e^x for x <= 0; the library's makes 0 of NaN.
HWY_INLINE V ExpOf(D d, V x) { return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x)); }

// One row of n, or (inner > 1) the columns of a vector; `part` of its lanes are there.
struct Line {
  int64_t n, step, part;  // vectors, elements between them, lanes of the last (row) or of all
  bool row;

  HWY_INLINE int64_t Lanes(D d, int64_t i) const {
    return row && i + 1 < n ? static_cast<int64_t>(hn::Lanes(d)) : part;
  }
  HWY_INLINE V Load(D d, const double* x, int64_t i) const {
    const int64_t lanes = Lanes(d, i);
    if (lanes == static_cast<int64_t>(hn::Lanes(d))) return hn::LoadU(d, x + i * step);
    return LoadPart(d, x + i * step, lanes, kLowest);
  }
  HWY_INLINE void Store(D d, V v, double* y, int64_t i) const {
    const int64_t lanes = Lanes(d, i);
    if (lanes == static_cast<int64_t>(hn::Lanes(d))) return hn::StoreU(v, d, y + i * step);
    StorePart(v, d, y + i * step, lanes);
  }
};

HWY_INLINE V LogOf(D d, V x) {
  HWY_ALIGN double logs[HWY_MAX_BYTES / sizeof(double)];
  hn::Store(x, d, logs);
  for (size_t i = 0; i < hn::Lanes(d); ++i) logs[i] = std::log(logs[i]);
  return hn::Load(d, logs);
}

HWY_INLINE V Spread(D d, const Line& line, V v, bool max) {
  if (!line.row) return v;
  return max ? hn::MaxOfLanes(d, v) : hn::SumOfLanes(d, v);
}

void SoftmaxLine(const Line& line, const double* x, double* y, bool log) {
  const D d;
  V max = hn::Set(d, kLowest);
  for (int64_t i = 0; i < line.n; ++i) max = hn::Max(max, line.Load(d, x, i));
  max = Spread(d, line, max, true);
  V sum = hn::Zero(d);
  for (int64_t i = 0; i < line.n; ++i) {
    const V e = ExpOf(d, hn::Sub(line.Load(d, x, i), max));
    if (!log) line.Store(d, e, y, i);
    // What a part of a vector lacks is -inf, of which e is 0 unless max is infinite too.
    const int64_t lanes = line.Lanes(d, i);
    sum = hn::Add(sum, hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(lanes)), e));
  }
  sum = Spread(d, line, sum, false);
  if (log) {
    const V log_sum = LogOf(d, sum);
    for (int64_t i = 0; i < line.n; ++i) {
      line.Store(d, hn::Sub(hn::Sub(line.Load(d, x, i), max), log_sum), y, i);
    }
  } else {
    for (int64_t i = 0; i < line.n; ++i) {
      line.Store(d, hn::Div(line.Load(d, y, i), sum), y, i);
    }
  }
}

// log(sum(exp(x))), an element for a row, else one for each column. NaN and +inf win.
void LogSumExpLine(const Line& line, const double* x, double* y) {
  const D d;
  V max = hn::Set(d, kLowest);
  auto nan = hn::Gt(max, max);
  for (int64_t i = 0; i < line.n; ++i) {
    const V v = line.Load(d, x, i);
    nan = hn::Or(nan, hn::IsNaN(v));
    max = hn::Max(max, hn::IfThenElse(hn::IsNaN(v), hn::Set(d, kLowest), v));
  }
  if (line.row && !hn::AllFalse(d, nan)) nan = hn::Eq(max, max);
  max = Spread(d, line, max, true);
  const auto finite = hn::IsFinite(max);
  const V shift = hn::IfThenElseZero(finite, max);
  V sum = hn::Zero(d);
  for (int64_t i = 0; i < line.n; ++i) {
    sum = hn::Add(sum, ExpOf(d, hn::Sub(line.Load(d, x, i), shift)));
  }
  const V log = hn::Add(LogOf(d, Spread(d, line, sum, false)), shift);
  const V result = hn::IfThenElse(finite, log, max);
  StorePart(hn::IfThenElse(nan, hn::Set(d, std::numeric_limits<double>::quiet_NaN()), result), d, y,
            line.row ? 1 : line.part);
}

// Calls body(line, offset in x, number of the line's first result) for lines [begin, end): rows of
// n where inner is 1, else vectors of columns of [outer, n, inner].
template <class Body>
HWY_INLINE void ForEachLine(int64_t begin, int64_t end, int64_t n, int64_t inner, Body&& body) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  const int64_t blocks = (inner + lanes - 1) / lanes, vectors = (n + lanes - 1) / lanes;
  for (int64_t i = begin; i < end; ++i) {
    if (inner == 1) {
      body(Line{vectors, lanes, n - (vectors - 1) * lanes, true}, i * n, i);
    } else {
      const int64_t first = i % blocks * lanes, outer = i / blocks;
      body(Line{n, inner, std::min(lanes, inner - first), false}, outer * n * inner + first,
           outer * inner + first);
    }
  }
}

void SoftmaxLines(const double* x, double* y, int64_t begin, int64_t end, int64_t n, int64_t inner,
                  bool log) {
  ForEachLine(begin, end, n, inner, [=](const Line& line, int64_t at, int64_t) HWY_ATTR {
    SoftmaxLine(line, x + at, y + at, log);
  });
}

void LogSumExpLines(const double* x, double* y, int64_t begin, int64_t end, int64_t n,
                    int64_t inner) {
  ForEachLine(begin, end, n, inner, [=](const Line& line, int64_t at, int64_t result) HWY_ATTR {
    LogSumExpLine(line, x + at, y + result);
  });
}

int64_t LinesOf(int64_t outer, int64_t inner) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  return outer * (inner == 1 ? 1 : (inner + lanes - 1) / lanes);
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(SoftmaxLines);
HWY_EXPORT(LogSumExpLines);
HWY_EXPORT(LinesOf);

void Softmax(const double* x, double* y, int64_t outer, int64_t n, int64_t inner, bool log,
             const Parallel& par) {
  const int64_t lines = HWY_DYNAMIC_DISPATCH(LinesOf)(outer, inner);
  const Slices slices = Slice(lines, n * 4);
  par.For(slices.tasks, [&](int64_t task) {
    HWY_DYNAMIC_DISPATCH(SoftmaxLines)
    (x, y, slices.Begin(task), slices.End(task, lines), n, inner, log);
  });
}

void LogSumExp(const double* x, double* y, int64_t outer, int64_t n, int64_t inner,
               const Parallel& par) {
  const int64_t lines = HWY_DYNAMIC_DISPATCH(LinesOf)(outer, inner);
  const Slices slices = Slice(lines, n * 2);
  par.For(slices.tasks, [&](int64_t task) {
    HWY_DYNAMIC_DISPATCH(LogSumExpLines)
    (x, y, slices.Begin(task), slices.End(task, lines), n, inner);
  });
}

}  // namespace sardonyx
#endif  // HWY_ONCE
