#include "kernels/recurrent_step.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrent_step.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/recurrent_bytes.h"
#include "kernels/row_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<float, kUnits>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
constexpr int64_t kTogether =
    kMostBlocks;  // panels whose units are then finished together: less waiting

// W, the type of weights, is int8_t for bytes of either sign.
template <typename W>
constexpr bool kIsByte = sizeof(W) == 1;
// Rows that are multiplied at once.
template <typename W>
constexpr int64_t kGroup = kIsByte<W> ? 8 : 4;

// Vectors of a panel of `vectors` that a block of `rows` rows takes at once: accumulators are 8 to
// 16 of the 32 registers of AVX-512 and NEON, 8 of 16 elsewhere.
constexpr int BlockVectors(int rows, int vectors) {
#if HWY_TARGET <= HWY_AVX3
  return rows == 0 ? 0 : vectors;
#elif HWY_TARGET == HWY_NEON
  return rows == 1 ? vectors : 4;
#elif HWY_TARGET == HWY_AVX2
  return rows == 1 ? vectors : 2;
#else
  return rows > 1 ? 2 : vectors % 8 == 0 ? 8 : 4;
#endif
}

HWY_INLINE V Weight(const float* from) { return hn::Load(D(), from); }
HWY_INLINE V Weight(const uint16_t* from) {
  const hn::Rebind<hwy::float16_t, D> half;
  return hn::PromoteTo(D(), hn::Load(half, reinterpret_cast<const hwy::float16_t*>(from)));
}

// sums[r][v] = state[r] times kCount neighbouring vectors of a panel, all accumulators in
// registers. The k loop runs kSplit times interleaved, each with accumulators of its own, where few
// rows alone would wait for the latency of the additions.
template <int kRows, int kCount, int kWidth, typename W>
HWY_INLINE void PanelBlock(const float* const* state, int64_t k, const W* panel, float* sums) {
  constexpr int kSplit = std::max(1, 8 / (kRows * kCount));
  const D d;
  V acc[kSplit][kRows][kCount];
#pragma GCC unroll 8
  for (auto& split : acc) {
#pragma GCC unroll 4
    for (auto& row : split) {
#pragma GCC unroll 16
      for (V& v : row) v = hn::Zero(d);
    }
  }
  const auto step = [&](auto& to, int64_t i) HWY_ATTR {
    const W* HWY_RESTRICT weights = panel + i * kWidth;
    V weight[kCount];
#pragma GCC unroll 16
    for (int v = 0; v < kCount; ++v) weight[v] = Weight(weights + v * kLanes);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const V value = hn::Set(d, state[r][i]);
#pragma GCC unroll 16
      for (int v = 0; v < kCount; ++v) to[r][v] = hn::MulAdd(value, weight[v], to[r][v]);
    }
  };
  int64_t i = 0;
  for (; i + kSplit <= k; i += kSplit) {
#pragma GCC unroll 8
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
#pragma GCC unroll 8
      for (int s = 1; s < kSplit; ++s) sum = hn::Add(sum, acc[s][r][v]);
      hn::Store(sum, d, sums + r * kWidth + v * kLanes);
    }
  }
}

// sums [kRows, kWidth] of a whole panel.
template <int kRows, int kWidth, typename W>
void PanelRows(const float* const* state, int64_t k, const W* panel, float* sums) {
  constexpr int kVectors = static_cast<int>(kWidth / kLanes);
  constexpr int kCount = BlockVectors(kRows, kVectors);
  static_assert(kVectors % kCount == 0);
  for (int v = 0; v < kVectors; v += kCount) {
    PanelBlock<kRows, kCount, kWidth>(state, k, panel + v * kLanes, sums + v * kLanes);
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
    case RecurrentActivation::Kind::kLeakyRelu: return VecLeakyRelu(d, x, alpha);
    case RecurrentActivation::Kind::kThresholdedRelu:
      return hn::IfThenElse(hn::Lt(x, alpha), zero, x);
    case RecurrentActivation::Kind::kScaledTanh:
      return hn::Mul(alpha, VecTanh(d, hn::Mul(beta, x)));
    case RecurrentActivation::Kind::kHardSigmoid:
      return AtMost(d, one, AtLeast(d, zero, hn::MulAdd(alpha, x, beta)));
    case RecurrentActivation::Kind::kElu: return VecElu(d, x, alpha);
    case RecurrentActivation::Kind::kSoftsign: return hn::Div(x, hn::Add(one, hn::Abs(x)));
    case RecurrentActivation::Kind::kSoftplus: return VecSoftplus(d, x);
  }
  return x;
}

HWY_INLINE V Clip(D d, const RecurrentOptions& options, V x) {
  if (!options.has_clip) return x;
  return AtMost(d, hn::Set(d, options.clip), AtLeast(d, hn::Set(d, -options.clip), x));
}

// Some units of one batch item, as many as a vector has.
struct Units {
  const RecurrentPhase& phase;
  int64_t item, unit, count;
  const float* sums;  // of these units; a gate each kUnits

  // Elements of these units, of a vector of all.
  HWY_INLINE V Load(const float* from) const {
    const D d;
    return count < kLanes ? LoadPart(d, from + unit, count) : hn::LoadU(d, from + unit);
  }
  HWY_INLINE void Store(V v, float* to) const {
    const D d;
    if (count < kLanes) {
      StorePart(v, d, to + unit, count);
    } else {
      hn::StoreU(v, d, to + unit);
    }
  }
  HWY_INLINE int64_t hidden() const { return phase.options->hidden_size; }
  HWY_INLINE float* z(int64_t gate) const {
    return phase.z + (item * phase.gates + gate) * hidden();
  }
  HWY_INLINE V Sum(int64_t panel_gate) const { return hn::Load(D(), sums + panel_gate * kUnits); }
  HWY_INLINE V Gate(int64_t gate) const { return hn::Add(Load(z(gate)), Sum(gate)); }
  HWY_INLINE V Old() const { return Load(phase.h + item * hidden()); }
  HWY_INLINE V Activated(int64_t function, V x) const {
    return Activate(D(), phase.activations[function], Clip(D(), *phase.options, x));
  }
  HWY_INLINE void Finish(V h) const {
    Store(h, phase.h_next + item * hidden());
    if (phase.y != nullptr) Store(h, phase.y + item * hidden());
  }
  HWY_INLINE void FinishGru(V update, V fresh) const {
    Finish(hn::MulAdd(update, hn::Sub(Old(), fresh), fresh));
  }
};

struct Lstm {
  static constexpr int kGates = 4;
  static constexpr bool kFinishes = true;
  static HWY_INLINE void Run(const Units& u) {
    const int64_t hidden = u.hidden();
    const float* const peepholes = u.phase.peepholes;
    float* const cells = u.phase.c + u.item * hidden;
    const V c = u.Load(cells);
    const V in = u.Activated(0, hn::MulAdd(u.Load(peepholes), c, u.Gate(0)));
    const V forget = u.phase.options->input_forget
                         ? hn::Sub(hn::Set(D(), 1.0f), in)
                         : u.Activated(0, hn::MulAdd(u.Load(peepholes + 2 * hidden), c, u.Gate(2)));
    const V cell = hn::MulAdd(forget, c, hn::Mul(in, u.Activated(1, u.Gate(3))));
    const V out = u.Activated(0, hn::MulAdd(u.Load(peepholes + hidden), cell, u.Gate(1)));
    u.Store(cell, cells);
    u.Finish(hn::Mul(out, u.Activated(2, cell)));
  }
};

struct Rnn {
  static constexpr int kGates = 1;
  static constexpr bool kFinishes = true;
  static HWY_INLINE void Run(const Units& u) { u.Finish(u.Activated(0, u.Gate(0))); }
};

// GRU with linear_before_reset.
struct LinearGru {
  static constexpr int kGates = 3;
  static constexpr bool kFinishes = true;
  static HWY_INLINE void Run(const Units& u) {
    const V update = u.Activated(0, u.Gate(0)), reset = u.Activated(0, u.Gate(1));
    const V state = hn::Add(u.Sum(2), u.Load(u.phase.bias_second));
    u.FinishGru(update, u.Activated(1, hn::MulAdd(reset, state, u.Load(u.z(2)))));
  }
};

// GRU otherwise, in two: the gates and r * h, then the new state.
struct GruGates {
  static constexpr int kGates = 2;
  static constexpr bool kFinishes = false;
  static HWY_INLINE void Run(const Units& u) {
    const V update = u.Activated(0, u.Gate(0)), reset = u.Activated(0, u.Gate(1));
    u.Store(update, u.z(0));
    u.Store(hn::Mul(reset, u.Old()), u.phase.second + u.item * u.hidden());
  }
};
struct GruState {
  static constexpr int kGates = 1;
  static constexpr bool kFinishes = true;
  static HWY_INLINE void Run(const Units& u) {
    const V fresh = u.Activated(1, hn::Add(u.Load(u.z(2)), u.Sum(0)));
    u.FinishGru(u.Load(u.z(0)), fresh);
  }
};

// Blocks [first, last), at most kTogether, of up to kGroup items that go on, behind `before`
// others. Finishing units is waiting, more than work: meanwhile the panel of block `next` begins to
// come.
template <class Cell, typename W>
HWY_INLINE void RunBlocks(const RecurrentPhase& phase, const int64_t* items, int64_t before,
                          int64_t group, int64_t first, int64_t last, int64_t next) {
  constexpr int kWidth = Cell::kGates * static_cast<int>(kUnits);
  const int64_t hidden = phase.options->hidden_size;
  for (int64_t r = 0; r < group; ++r) {
    for (int64_t gate = 0; gate < phase.gates; ++gate) {
      const float* z = phase.z + (items[r] * phase.gates + gate) * hidden;
      for (int64_t block = first; block < last; ++block) __builtin_prefetch(z + block * kUnits);
    }
  }
  HWY_ALIGN float sums[kTogether * kGroup<W> * kWidth];
  const int64_t item_step = kIsByte<W> ? (last - first) * kWidth : kWidth;
  const int64_t block_step = kIsByte<W> ? kWidth : kGroup<W> * kWidth;
  if (phase.zero_state) {
    std::fill_n(sums, (last - first) * kGroup<W> * kWidth, 0.0f);
  } else if constexpr (kIsByte<W>) {
    RecurrentByteSums(*phase.codes, hidden, before, group, first, last, sums);
  } else {
    const float* rows[kGroup<W>];
    for (int64_t r = 0; r < group; ++r) {
      rows[r] = (phase.multiplies_second ? phase.second : phase.h) + items[r] * hidden;
    }
    float* to = sums;
    for (int64_t block = first; block < last; ++block, to += block_step) {
      const W* const panel = static_cast<const W*>(phase.panels) + block * hidden * kWidth;
      switch (group) {
        case 4: PanelRows<4, kWidth>(rows, hidden, panel, to); break;
        case 3: PanelRows<3, kWidth>(rows, hidden, panel, to); break;
        case 2: PanelRows<2, kWidth>(rows, hidden, panel, to); break;
        default: PanelRows<1, kWidth>(rows, hidden, panel, to); break;
      }
    }
  }
  const int64_t end = std::min(last * kUnits, hidden);
  [[maybe_unused]] const W* ahead = static_cast<const W*>(phase.panels) + next * hidden * kWidth;
  for (int64_t r = 0; r < group; ++r) {
    const float* from = sums + r * item_step;
    for (int64_t unit = first * kUnits; unit < end; unit += kUnits, from += block_step) {
      for (int64_t j = 0; j < kUnits && unit + j < end; j += kLanes) {
        if constexpr (!kIsByte<W>) {
          constexpr int kLines = 12;  // for a vector of units
          for (int line = 0; line < kLines; ++line, ahead += 64 / sizeof(W)) {
            __builtin_prefetch(ahead);
          }
        }
        Cell::Run({phase, items[r], unit + j, end - unit - j, from + j});
      }
    }
  }
}

template <class Cell, typename W>
void Blocks(const RecurrentPhase& phase, int64_t first, int64_t last, bool backwards) {
  const int64_t hidden = phase.options->hidden_size;
  // Panels that several groups of items read stay in the cache one at a time.
  const int64_t together = phase.batch > kGroup<W> ? 1 : kTogether;
  for (int64_t done = 0; done < last - first; done += together) {
    const int64_t count = std::min(together, last - first - done);
    const int64_t begin = backwards ? last - done - count : first + done;
    const int64_t next = std::clamp(backwards ? begin - together : begin + count, first, last - 1);
    const int64_t unit = begin * kUnits, units = std::min(count * kUnits, hidden - unit);
    for (int64_t item = 0, before = 0; item < phase.batch;) {
      int64_t items[kGroup<W>], group = 0;
      for (; item < phase.batch && group < kGroup<W>; ++item) {
        const int64_t at = item * hidden + unit;
        if (phase.GoesOn(item)) {
          items[group++] = item;
        } else if (Cell::kFinishes) {
          std::copy_n(phase.h + at, units, phase.h_next + at);
          if (phase.y != nullptr) std::fill_n(phase.y + at, units, 0.0f);
        }
      }
      if (group > 0) RunBlocks<Cell, W>(phase, items, before, group, begin, begin + count, next);
      before += group;
    }
  }
}

template <typename W>
void BlocksOf(const RecurrentPhase& phase, int64_t first, int64_t last, bool backwards) {
  using Kind = RecurrentPhase::Kind;
  switch (phase.kind) {
    case Kind::kLstm: return Blocks<Lstm, W>(phase, first, last, backwards);
    case Kind::kRnn: return Blocks<Rnn, W>(phase, first, last, backwards);
    case Kind::kLinearGru: return Blocks<LinearGru, W>(phase, first, last, backwards);
    case Kind::kGruGates: return Blocks<GruGates, W>(phase, first, last, backwards);
    case Kind::kGruState: return Blocks<GruState, W>(phase, first, last, backwards);
  }
}

void BlocksImpl(const RecurrentPhase& phase, int64_t first, int64_t last, bool backwards) {
  if (phase.codes != nullptr) return Blocks<Lstm, int8_t>(phase, first, last, backwards);
  const bool halves = phase.options->r_type == DType::kFloat16;
  (halves ? BlocksOf<uint16_t> : BlocksOf<float>)(phase, first, last, backwards);
}

}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(BlocksImpl);

void RecurrentBlocks(const RecurrentPhase& phase, int64_t first, int64_t last, bool backwards) {
  HWY_DYNAMIC_DISPATCH(BlocksImpl)(phase, first, last, backwards);
}

}  // namespace sardonyx
#endif  // HWY_ONCE
