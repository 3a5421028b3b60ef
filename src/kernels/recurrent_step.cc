#include "kernels/recurrent_step.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrent_step.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/row_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
constexpr int kVectors = static_cast<int>(kPanelWidth / kLanes);  // a panel
// Rows [0, kRows) times kCount neighbouring vectors of a panel, all accumulators in registers. The
// k loop runs kSplit times interleaved, each with accumulators of its own, where few rows alone
// would wait for the latency of the additions.
template <int kRows, int kCount, int kSplit>
HWY_INLINE void PanelBlock(float* const* a, float* const* c, int64_t k, const float* panel,
                           int64_t column, int64_t columns, bool accumulate) {
  const D d;
  V acc[kSplit][kRows][kCount];
#pragma GCC unroll 4
  for (auto& split : acc) {
#pragma GCC unroll 4
    for (auto& row : split) {
#pragma GCC unroll 16
      for (V& v : row) v = hn::Zero(d);
    }
  }
  const auto step = [&](auto& sums, int64_t i) HWY_ATTR {
    const float* HWY_RESTRICT weights = panel + i * kPanelWidth;
    V weight[kCount];
#pragma GCC unroll 16
    for (int v = 0; v < kCount; ++v) {
      weight[v] = hn::Load(d, weights + v * kLanes);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const V state = hn::Set(d, a[r][i]);
#pragma GCC unroll 16
      for (int v = 0; v < kCount; ++v) sums[r][v] = hn::MulAdd(state, weight[v], sums[r][v]);
    }
  };
  int64_t i = 0;
  for (; i + kSplit <= k; i += kSplit) {
#pragma GCC unroll 4
    for (int s = 0; s < kSplit; ++s) step(acc[s], i + s);
  }
  if constexpr (kSplit > 1) {
    for (; i < k; ++i) step(acc[0], i);
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kCount; ++v) {
      V sum = acc[0][r][v];
#pragma GCC unroll 4
      for (int s = 1; s < kSplit; ++s) sum = hn::Add(sum, acc[s][r][v]);
      const int64_t at = column + v * kLanes, left = columns - at;
      float* to = c[r] + at;
      if (left >= kLanes) {
        hn::StoreU(accumulate ? hn::Add(hn::LoadU(d, to), sum) : sum, d, to);
      } else if (left > 0) {
        StorePart(accumulate ? hn::Add(LoadPart(d, to, left), sum) : sum, d, to, left);
      }
    }
  }
}

// A whole panel for kRows rows, kCount vectors at once.
template <int kRows, int kCount, int kSplit>
HWY_INLINE void PanelRows(float* const* a, float* const* c, int64_t k, const float* panel,
                          int64_t column, int64_t columns, bool accumulate) {
  static_assert(kVectors % kCount == 0);
  for (int v = 0; v < kVectors && column + v * kLanes < columns; v += kCount) {
    PanelBlock<kRows, kCount, kSplit>(a, c, k, panel + v * kLanes, column + v * kLanes, columns,
                                      accumulate);
  }
}

void PanelMatmulImpl(float* const* a, float* const* c, int64_t rows, int64_t k, const float* panels,
                     int64_t first, int64_t last, int64_t columns, bool accumulate,
                     bool backwards) {
  // Accumulators: 8 to 16 of the 32 registers of AVX-512 and NEON, 8 of 16 elsewhere.
#if HWY_TARGET <= HWY_AVX3
  constexpr int kOne = 4, kMore = 4, kSplit = 2;
#elif HWY_TARGET <= HWY_AVX2
  constexpr int kOne = 8, kMore = 2, kSplit = 1;
#elif HWY_TARGET == HWY_NEON
  constexpr int kOne = 16, kMore = 4, kSplit = 1;
#else
  constexpr int kOne = 8, kMore = 2, kSplit = 1;
#endif
  for (int64_t i = first; i < last; ++i) {
    const int64_t p = backwards ? first + last - 1 - i : i;
    const float* panel = panels + p * k * kPanelWidth;
    const int64_t column = p * kPanelWidth;
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
      PanelRows<4, kMore, 1>(a + r, c + r, k, panel, column, columns, accumulate);
    }
    switch (rows - r) {
      case 3: PanelRows<3, kMore, 1>(a + r, c + r, k, panel, column, columns, accumulate); break;
      case 2: PanelRows<2, kMore, 1>(a + r, c + r, k, panel, column, columns, accumulate); break;
      case 1:
        PanelRows<1, kOne, kSplit>(a + r, c + r, k, panel, column, columns, accumulate);
        break;
      default: break;
    }
  }
}

HWY_INLINE V Activate(D d, const RecurrentActivation& activation, V x) {
  const V alpha = hn::Set(d, activation.alpha), beta = hn::Set(d, activation.beta);
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0f);
  switch (activation.kind) {
    case RecurrentActivation::Kind::kSigmoid: return VecSigmoid(d, x);
    case RecurrentActivation::Kind::kTanh: return VecTanh(d, x);
    case RecurrentActivation::Kind::kRelu: return AtLeast(d, zero, x);
    case RecurrentActivation::Kind::kAffine: return hn::MulAdd(alpha, x, beta);
    case RecurrentActivation::Kind::kLeakyRelu:
      return hn::IfThenElse(hn::Lt(x, zero), hn::Mul(alpha, x), x);
    case RecurrentActivation::Kind::kThresholdedRelu:
      return hn::IfThenElse(hn::Lt(x, alpha), zero, x);
    case RecurrentActivation::Kind::kScaledTanh:
      return hn::Mul(alpha, VecTanh(d, hn::Mul(beta, x)));
    case RecurrentActivation::Kind::kHardSigmoid:
      return AtMost(d, one, AtLeast(d, zero, hn::MulAdd(alpha, x, beta)));
    case RecurrentActivation::Kind::kElu:
      return hn::IfThenElse(hn::Lt(x, zero), hn::Mul(alpha, hn::Sub(VecExp(d, x), one)), x);
    case RecurrentActivation::Kind::kSoftsign: return hn::Div(x, hn::Add(one, hn::Abs(x)));
    case RecurrentActivation::Kind::kSoftplus:
      return hn::Add(AtLeast(d, zero, x), VecLog1p(d, VecExp(d, hn::Neg(hn::Abs(x)))));
  }
  return x;
}

HWY_INLINE V Clip(D d, const RecurrentOptions& options, V x) {
  if (!options.has_clip) return x;
  return AtMost(d, hn::Set(d, options.clip), AtLeast(d, hn::Set(d, -options.clip), x));
}

// Calls body(load, store) for each vector of hidden units: load(p) reads p's elements of these
// units, store(v, p) writes them.
template <class Body>
HWY_INLINE void ForUnits(int64_t hidden, Body&& body) {
  const D d;
  int64_t i = 0;
  for (; i + kLanes <= hidden; i += kLanes) {
    body([&](const float* p) HWY_ATTR { return hn::LoadU(d, p + i); },
         [&](V v, float* p) HWY_ATTR { hn::StoreU(v, d, p + i); });
  }
  if (i == hidden) return;
  body([&](const float* p) HWY_ATTR { return LoadPart(d, p + i, hidden - i); },
       [&](V v, float* p) HWY_ATTR { StorePart(v, d, p + i, hidden - i); });
}

void LstmRowImpl(const RecurrentOptions& options, const RecurrentRow& row) {
  const D d;
  const int64_t hidden = options.hidden_size;
  const auto* f = row.activations;
  ForUnits(hidden, [&](auto load, auto store) HWY_ATTR {
    const auto gate = [&](int64_t g) HWY_ATTR {
      return hn::Add(load(row.z + g * hidden), load(row.bias + g * hidden));
    };
    const auto activate = [&](const RecurrentActivation& activation, V x)
                              HWY_ATTR { return Activate(d, activation, Clip(d, options, x)); };
    const V c = load(row.c);
    const V in = activate(f[0], hn::MulAdd(load(row.peepholes), c, gate(0)));
    const V forget = options.input_forget
                         ? hn::Sub(hn::Set(d, 1.0f), in)
                         : activate(f[0], hn::MulAdd(load(row.peepholes + 2 * hidden), c, gate(2)));
    const V cell = hn::MulAdd(forget, c, hn::Mul(in, activate(f[1], gate(3))));
    const V out = activate(f[0], hn::MulAdd(load(row.peepholes + hidden), cell, gate(1)));
    const V h = hn::Mul(out, activate(f[2], cell));
    store(cell, row.c);
    store(h, row.h);
    if (row.y != nullptr) store(h, row.y);
  });
}

void RnnRowImpl(const RecurrentOptions& options, const RecurrentRow& row) {
  const D d;
  ForUnits(options.hidden_size, [&](auto load, auto store) HWY_ATTR {
    const V x = hn::Add(load(row.z), load(row.bias));
    const V h = Activate(d, row.activations[0], Clip(d, options, x));
    store(h, row.h);
    if (row.y != nullptr) store(h, row.y);
  });
}

void GruGatesRowImpl(const RecurrentOptions& options, const RecurrentRow& row) {
  const D d;
  const int64_t hidden = options.hidden_size;
  ForUnits(hidden, [&](auto load, auto store) HWY_ATTR {
    const auto gate = [&](int64_t g) HWY_ATTR {
      const V x = hn::Add(load(row.z + g * hidden), load(row.bias + g * hidden));
      return Activate(d, row.activations[0], Clip(d, options, x));
    };
    store(gate(0), row.z);
    const V reset = gate(1);
    if (options.linear_before_reset) {
      const V state = hn::Add(load(row.second), load(row.bias_second));
      store(hn::MulAdd(reset, state, load(row.z + 2 * hidden)), row.z + 2 * hidden);
    } else {
      store(hn::Mul(reset, load(row.h)), row.second);
    }
  });
}

void GruStateRowImpl(const RecurrentOptions& options, const RecurrentRow& row) {
  const D d;
  const int64_t hidden = options.hidden_size;
  ForUnits(hidden, [&](auto load, auto store) HWY_ATTR {
    const V x = hn::Add(load(row.z + 2 * hidden), load(row.bias + 2 * hidden));
    const V fresh = Activate(d, row.activations[1], Clip(d, options, x));
    const V update = load(row.z), old = load(row.h);
    const V h = hn::MulAdd(update, hn::Sub(old, fresh), fresh);
    store(h, row.h);
    if (row.y != nullptr) store(h, row.y);
  });
}

}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(PanelMatmulImpl);
HWY_EXPORT(LstmRowImpl);
HWY_EXPORT(RnnRowImpl);
HWY_EXPORT(GruGatesRowImpl);
HWY_EXPORT(GruStateRowImpl);

void PanelMatmul(float* const* a, float* const* c, int64_t rows, int64_t k, const float* panels,
                 int64_t first, int64_t last, int64_t columns, bool accumulate, bool backwards) {
  HWY_DYNAMIC_DISPATCH(PanelMatmulImpl)
  (a, c, rows, k, panels, first, last, columns, accumulate, backwards);
}
void LstmRow(const RecurrentOptions& options, const RecurrentRow& row) {
  HWY_DYNAMIC_DISPATCH(LstmRowImpl)(options, row);
}
void RnnRow(const RecurrentOptions& options, const RecurrentRow& row) {
  HWY_DYNAMIC_DISPATCH(RnnRowImpl)(options, row);
}
void GruGatesRow(const RecurrentOptions& options, const RecurrentRow& row) {
  HWY_DYNAMIC_DISPATCH(GruGatesRowImpl)(options, row);
}
void GruStateRow(const RecurrentOptions& options, const RecurrentRow& row) {
  HWY_DYNAMIC_DISPATCH(GruStateRowImpl)(options, row);
}

}  // namespace sardonyx
#endif  // HWY_ONCE
