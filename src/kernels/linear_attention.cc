// Columns of a state do not see each other, so a block of them, which the first-level cache holds,
// goes through all tokens before the next does. (Many tokens at once, by products of matrices,
// would take as many operations.)

#include "kernels/linear_attention.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear_attention.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <functional>

#include "base/round.h"
#include "kernels/scratch_slots.h"
#include "kernels/slices.h"
#include "kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using Decay = LinearAttentionShape::Decay;

constexpr int kVectors = 2;      // of a row of a block
constexpr int kMostQueries = 4;  // that Update serves

int64_t Lanes() { return static_cast<int64_t>(hn::Lanes(D())); }
int64_t BlockColumns() { return kVectors * Lanes(); }

// The block's state, weighted keys, and a padded value and padded results.
int64_t BlockFloats(const LinearAttentionShape& shape) {
  return (shape.keys + 1 + kMostQueries) * BlockColumns() + RoundUp(shape.keys, 16);
}

void ExpRow(const float* x, int64_t count, float* y) {
  const D d;
  int64_t i = 0;
  for (; i + Lanes() <= count; i += Lanes()) hn::StoreU(VecExp(d, hn::LoadU(d, x + i)), d, y + i);
  for (; i < count; ++i) y[i] = hn::GetLane(VecExp(d, hn::Set(d, x[i])));
}

// Of a block, `stride` floats apart.
template <typename Float>
struct Rows {
  Float* data;
  int64_t stride;
};

// The sum of all rows times w[i].
void SumRows(const Rows<const float>& rows, int64_t keys, const float* w, V* sums) {
  constexpr int kChains = 4;
  const D d;
  V sum[kChains][kVectors];
  for (auto& chain : sum) {
    for (V& item : chain) item = hn::Zero(d);
  }
  const float* row = rows.data;
  const auto add = [&](V* chain, int64_t i) HWY_ATTR {
    const V weight = hn::Set(d, w[i]);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      chain[v] = hn::MulAdd(hn::LoadU(d, row + v * Lanes()), weight, chain[v]);
    }
    row += rows.stride;
  };
  int64_t i = 0;
  for (; i + kChains <= keys; i += kChains) {
#pragma GCC unroll 8
    for (int chain = 0; chain < kChains; ++chain) add(sum[chain], i + chain);
  }
  for (; i < keys; ++i) add(sum[0], i);
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    sums[v] = hn::Add(hn::Add(sum[0][v], sum[1][v]), hn::Add(sum[2][v], sum[3][v]));
  }
}

// What one token brings to a block.
struct Token {
  int64_t keys;
  const float* factors;  // of the decay: one, or one a key
  const float* key;
  const float* query;  // the first; others are `keys` further each
  float scale;
  float* y;          // of the first query
  int64_t y_stride;  // from one query to the next
};

// Decays the rows and adds to them; reads them for kQueries queries.
template <int kQueries, Decay kDecay>
void Update(const Token& token, const Rows<const float>& from, const Rows<float>& to,
            const V* written) {
  constexpr int kChains = kQueries == 1 ? 4 : kQueries == 2 ? 2 : 1;
  const D d;
  V sum[kChains][kQueries][kVectors];
  for (auto& chain : sum) {
    for (auto& query : chain) {
      for (V& item : query) item = hn::Zero(d);
    }
  }
  const float* in = from.data;
  float* out = to.data;
  const V of_head = hn::Set(d, kDecay == Decay::kHead ? token.factors[0] : 1.0f);
  const auto add = [&](int chain, int64_t i) HWY_ATTR {
    const V key = hn::Set(d, token.key[i]);
    const V factor = kDecay == Decay::kKey ? hn::Set(d, token.factors[i]) : of_head;
    V row[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      row[v] = hn::LoadU(d, in + v * Lanes());
      if constexpr (kDecay != Decay::kNone) row[v] = hn::Mul(row[v], factor);
      row[v] = hn::MulAdd(key, written[v], row[v]);
      hn::StoreU(row[v], d, out + v * Lanes());
    }
#pragma GCC unroll 8
    for (int query = 0; query < kQueries; ++query) {
      const V weight = hn::Set(d, token.query[query * token.keys + i]);
      V* const total = sum[chain][query];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) total[v] = hn::MulAdd(row[v], weight, total[v]);
    }
    in += from.stride;
    out += to.stride;
  };
  int64_t i = 0;
  for (; i + kChains <= token.keys; i += kChains) {
#pragma GCC unroll 8
    for (int chain = 0; chain < kChains; ++chain) add(chain, i + chain);
  }
  for (; i < token.keys; ++i) add(0, i);
#pragma GCC unroll 8
  for (int query = 0; query < kQueries; ++query) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      V total = sum[0][query][v];
#pragma GCC unroll 8
      for (int chain = 1; chain < kChains; ++chain) total = hn::Add(total, sum[chain][query][v]);
      hn::StoreU(hn::Mul(total, hn::Set(d, token.scale)), d,
                 token.y + query * token.y_stride + v * Lanes());
    }
  }
}

template <Decay kDecay>
void UpdateFor(int64_t queries, const Token& token, const Rows<const float>& from,
               const Rows<float>& to, const V* written) {
  switch (queries) {
    case 1: return Update<1, kDecay>(token, from, to, written);
    case 2: return Update<2, kDecay>(token, from, to, written);
    case 3: return Update<3, kDecay>(token, from, to, written);
    default: return Update<kMostQueries, kDecay>(token, from, to, written);
  }
}

// A block of columns on its way through all tokens.
class Block {
 public:
  Block(const LinearAttentionShape& shape, const LinearAttentionArgs& args, const float* factors,
        int64_t index, float* memory)
      : s_(shape), args_(args), factors_(factors), width_(BlockColumns()) {
    const int64_t blocks = CeilDiv(s_.values, width_);
    item_ = index / blocks / s_.heads;
    head_ = index / blocks % s_.heads;
    first_ = index % blocks * width_;
    columns_ = std::min(width_, s_.values - first_);
    weighted_ = memory;
    state_ = weighted_ + RoundUp(s_.keys, 16);
    padded_value_ = state_ + s_.keys * width_;
    padded_y_ = padded_value_ + width_;
  }

  // States of whole blocks are read from `past` and written to `present` on the way.
  void Run() {
    const Rows<float> own{state_, width_};
    const int64_t at = (item_ * s_.heads + head_) * s_.keys * s_.values + first_;
    Rows<const float> from{state_, width_};
    if (args_.past != nullptr && is_whole()) {
      from = {args_.past + at, s_.values};
    } else {
      std::fill_n(state_, s_.keys * width_, 0.0f);
      if (args_.past != nullptr) CopyRows({args_.past + at, s_.values}, own);
    }
    for (int64_t t = 0; t < s_.tokens; ++t) {
      const bool ends = t + 1 == s_.tokens && args_.present != nullptr && is_whole();
      Step(item_ * s_.tokens + t, from, ends ? Rows<float>{args_.present + at, s_.values} : own);
      from = {state_, width_};
    }
    if (args_.present != nullptr && !is_whole()) CopyRows(from, {args_.present + at, s_.values});
  }

 private:
  bool is_whole() const { return columns_ == width_; }

  void CopyRows(const Rows<const float>& from, const Rows<float>& to) const {
    for (int64_t i = 0; i < s_.keys; ++i) {
      std::copy_n(from.data + i * from.stride, columns_, to.data + i * to.stride);
    }
  }

  void Step(int64_t t, const Rows<const float>& from, const Rows<float>& to) {
    const int64_t first_query = head_ * s_.group;
    const int64_t together = std::min<int64_t>(s_.group, kMostQueries);
    const float* const factors =
        factors_ + t * s_.Decays() + (s_.decay == Decay::kKey ? head_ * s_.keys : head_);
    const float* const key = args_.k + t * s_.k_stride + head_ * s_.keys;
    const float* const query = args_.q + t * s_.q_stride + first_query * s_.keys;
    float* const y = args_.y + t * s_.y_stride + first_query * s_.values + first_;
    V written[kVectors];
    Write(t, from, key, factors, written);
    const Token token{s_.keys,
                      factors,
                      key,
                      query,
                      s_.scale,
                      is_whole() ? y : padded_y_,
                      is_whole() ? s_.values : width_};
    switch (s_.decay) {
      case Decay::kNone: UpdateFor<Decay::kNone>(together, token, from, to, written); break;
      case Decay::kHead: UpdateFor<Decay::kHead>(together, token, from, to, written); break;
      case Decay::kKey: UpdateFor<Decay::kKey>(together, token, from, to, written); break;
    }
    if (!is_whole()) CopyResults(together, y);
    for (int64_t g = together; g < s_.group; ++g) {
      Read({to.data, to.stride}, query + g * s_.keys, y + g * s_.values);
    }
  }

  // What the key adds to its rows.
  void Write(int64_t t, const Rows<const float>& from, const float* key, const float* factors,
             V* written) {
    const D d;
    const float* value = args_.v + t * s_.v_stride + head_ * s_.values + first_;
    if (!is_whole()) {
      std::fill(std::copy_n(value, columns_, padded_value_), padded_value_ + width_, 0.0f);
      value = padded_value_;
    }
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) written[v] = hn::LoadU(d, value + v * Lanes());
    if (!s_.has_beta) return;
    const float rate = args_.beta[t * s_.beta_stride + (s_.beta_per_head ? head_ : 0)];
    if (s_.decay == Decay::kKey) {
      std::transform(key, key + s_.keys, factors, weighted_, std::multiplies<>());
      key = weighted_;
    }
    V known[kVectors];
    SumRows(from, s_.keys, key, known);
    const V factor = hn::Set(d, s_.decay == Decay::kHead ? factors[0] : 1.0f);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      written[v] = hn::Mul(hn::NegMulAdd(known[v], factor, written[v]), hn::Set(d, rate));
    }
  }

  // For a query that Update did not serve.
  void Read(const Rows<const float>& state, const float* query, float* y) {
    const D d;
    V sums[kVectors];
    SumRows(state, s_.keys, query, sums);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(hn::Mul(sums[v], hn::Set(d, s_.scale)), d,
                 (is_whole() ? y : padded_y_) + v * Lanes());
    }
    if (!is_whole()) CopyResults(1, y);
  }

  void CopyResults(int64_t queries, float* y) const {
    for (int64_t g = 0; g < queries; ++g) {
      std::copy_n(padded_y_ + g * width_, columns_, y + g * s_.values);
    }
  }

  const LinearAttentionShape& s_;
  const LinearAttentionArgs& args_;
  const float* factors_;
  int64_t width_, item_, head_, first_, columns_;
  float *weighted_, *state_, *padded_value_, *padded_y_;
};

void RunBlock(const LinearAttentionShape& shape, const LinearAttentionArgs& args,
              const float* factors, int64_t index, float* memory) {
  Block(shape, args, factors, index, memory).Run();
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(BlockColumns);
HWY_EXPORT(BlockFloats);
HWY_EXPORT(ExpRow);
HWY_EXPORT(RunBlock);

namespace {

size_t FactorBytes(const LinearAttentionShape& shape) {
  return AlignBytes(static_cast<size_t>(shape.batch * shape.tokens * shape.Decays()) *
                    sizeof(float));
}

size_t BlockBytes(const LinearAttentionShape& shape) {
  return AlignBytes(static_cast<size_t>(HWY_DYNAMIC_DISPATCH(BlockFloats)(shape)) * sizeof(float));
}

}  // namespace

size_t LinearAttentionScratchBytes(const LinearAttentionShape& shape, int threads) {
  const auto slots = static_cast<size_t>(ScratchSlots::CountFor(threads));
  return FactorBytes(shape) + BlockBytes(shape) * slots;
}

void LinearAttention(const LinearAttentionShape& shape, const LinearAttentionArgs& args,
                     void* scratch, const Parallel& par) {
  auto* const factors = static_cast<float*>(scratch);
  if (const int64_t decays = shape.Decays(); decays > 0) {
    const int64_t rows = shape.batch * shape.tokens;
    const Slices slices = Slice(rows, decays * 2);
    par.For(slices.tasks, [&](int64_t task) {
      for (int64_t t = slices.Begin(task); t < slices.End(task, rows); ++t) {
        HWY_DYNAMIC_DISPATCH(ExpRow)
        (args.decay + t * shape.decay_stride, decays, factors + t * decays);
      }
    });
  }
  const int64_t columns = HWY_DYNAMIC_DISPATCH(BlockColumns)();
  const int64_t blocks = shape.batch * shape.heads * CeilDiv(shape.values, columns);
  const int64_t operations = shape.keys * columns * (2 + shape.group + (shape.has_beta ? 1 : 0));
  const Slices slices = Slice(blocks, shape.tokens * operations / 8);
  ScratchSlots slots(static_cast<char*>(scratch) + FactorBytes(shape), BlockBytes(shape),
                     ScratchSlots::CountFor(par.threads));
  par.For(slices.tasks, [&](int64_t task) {
    const ScratchSlots::Lease memory(slots);
    for (int64_t i = slices.Begin(task); i < slices.End(task, blocks); ++i) {
      HWY_DYNAMIC_DISPATCH(RunBlock)(shape, args, factors, i, memory.floats());
    }
  });
}

}  // namespace sardonyx
#endif  // HWY_ONCE
