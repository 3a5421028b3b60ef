#include "kernels/tree_masks.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/tree_masks.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <vector>

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<uint32_t, kTreeLanes>;
using Signed = hn::RebindToSigned<D>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
constexpr int kOfBlock = static_cast<int>(kTreeLanes / kLanes);  // vectors

// The number of the first bit of each lane's words.
template <int kWords>
HWY_INLINE V FirstBit(const V (&left)[kWords]) {
  const D d;
  V word = left[0], base = hn::Zero(d);
#pragma GCC unroll 4
  for (int w = 1; w < kWords; ++w) {
    const auto is_empty = hn::Eq(word, hn::Zero(d));
    word = hn::IfThenElse(is_empty, left[w], word);
    base = hn::IfThenElse(is_empty, hn::Set(d, uint32_t{32} * w), base);
  }
  // A single bit as a float has its number as the exponent.
  const V bit = hn::And(word, hn::Sub(hn::Zero(d), word));
  const auto value = hn::ConvertTo(hn::RebindToFloat<D>(), hn::BitCast(Signed(), bit));
  const V exponent = hn::And(hn::ShiftRight<23>(hn::BitCast(d, value)), hn::Set(d, 0xFFU));
  return hn::Add(base, hn::Sub(exponent, hn::Set(d, 127U)));
}

HWY_INLINE void AddVotes(V held, double* sums) {
  const hn::RebindToFloat<D> df;
  const auto votes = hn::BitCast(df, held);
  const hn::Repartition<double, D> dd;
  constexpr int64_t kHalf = static_cast<int64_t>(hn::MaxLanes(dd));
  const auto low = hn::PromoteTo(dd, hn::LowerHalf(votes));
  const auto high = hn::PromoteTo(dd, hn::UpperHalf(hn::Half<decltype(df)>(), votes));
  hn::StoreU(hn::Add(hn::LoadU(dd, sums), low), dd, sums);
  hn::StoreU(hn::Add(hn::LoadU(dd, sums + kHalf), high), dd, sums + kHalf);
}

// kBlocks blocks of rows.
template <int kWords, int kBlocks>
HWY_INLINE void Blocks(const uint32_t* masks, int64_t leaves, const uint32_t* x,
                       int64_t block_numbers, uint32_t* held, double* sums) {
  constexpr int kVectors = kBlocks * kOfBlock;
  const D d;
  V left[kVectors][kWords];
#pragma GCC unroll 32
  for (int i = 0; i < kVectors * kWords; ++i) left[i / kWords][i % kWords] = hn::Set(d, ~0U);
  const uint32_t* node = masks;
  for (int64_t i = 1; i < leaves; ++i, node += 2 + kWords) {
    const V threshold = hn::Set(d, node[0]);
    const uint32_t* const from = x + node[1] * kTreeLanes;
    V removed[kWords];
#pragma GCC unroll 4
    for (int w = 0; w < kWords; ++w) removed[w] = hn::Set(d, node[2 + w]);
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      const V value = hn::LoadU(d, from + v / kOfBlock * block_numbers + v % kOfBlock * kLanes);
      const auto is_beyond = hn::Gt(value, threshold);
#pragma GCC unroll 4
      for (int w = 0; w < kWords; ++w) {
        left[v][w] = hn::AndNot(hn::IfThenElseZero(is_beyond, removed[w]), left[v][w]);
      }
    }
  }
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    const V found = hn::GatherIndex(d, node, hn::BitCast(Signed(), FirstBit(left[v])));
    if (sums != nullptr) {
      AddVotes(found, sums + v * kLanes);
    } else {
      hn::StoreU(found, d, held + v * kLanes);
    }
  }
}

template <int kWords>
void BlocksOf(const uint32_t* masks, int64_t leaves, const uint32_t* x, int64_t block_numbers,
              int64_t blocks, uint32_t* held, double* sums) {
  // As many as registers have room for.
  constexpr int kRegisters = HWY_TARGET <= HWY_AVX3 ? 16 : 8;
  constexpr int kTogether = std::clamp(kRegisters / (kWords * kOfBlock), 1, 4);
  const auto next = [&](int count) {
    x += count * block_numbers;
    held += count * kTreeLanes;
    if (sums != nullptr) sums += count * kTreeLanes;
  };
  for (; blocks >= kTogether; blocks -= kTogether, next(kTogether)) {
    Blocks<kWords, kTogether>(masks, leaves, x, block_numbers, held, sums);
  }
  for (; blocks > 0; --blocks, next(1)) {
    Blocks<kWords, 1>(masks, leaves, x, block_numbers, held, sums);
  }
}

void Find(const uint32_t* masks, int64_t leaves, int32_t words, const uint32_t* x,
          int64_t block_numbers, int64_t blocks, uint32_t* held, double* sums) {
  const auto run = words == 1 ? BlocksOf<1> : words == 2 ? BlocksOf<2> : BlocksOf<4>;
  run(masks, leaves, x, block_numbers, blocks, held, sums);
}

void Order(uint32_t* numbers, int64_t count, uint32_t* again) {
  const D d;
  const hn::RebindToFloat<D> df;
  const V most = hn::Set(d, kNaNOrder);
  for (int64_t i = 0; i < count; i += kLanes) {
    const auto x = hn::Add(hn::BitCast(df, hn::LoadU(d, numbers + i)), hn::Zero(df));  // no -0
    const V bits = hn::BitCast(d, x);
    const auto sign = hn::BroadcastSignBit(hn::BitCast(Signed(), bits));
    const V order = hn::Xor(bits, hn::Or(hn::BitCast(d, sign), hn::Set(d, 1U << 31)));
    const auto is_nan = hn::RebindMask(d, hn::IsNaN(x));
    hn::StoreU(hn::IfThenElse(is_nan, most, order), d, numbers + i);
    if (again == nullptr) continue;
    hn::StoreU(hn::IfThenElse(is_nan, hn::Set(d, kLeastOrder), order), d, again + i);
  }
}

int64_t LanesOf() { return kLanes; }

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Find);
HWY_EXPORT(Order);
HWY_EXPORT(LanesOf);

int32_t MaskWordsOf(int64_t leaves, int64_t depth) {
  constexpr int64_t kMostLeaves = 128;
  if (leaves < 2 || leaves > kMostLeaves) return 0;
  const int32_t words = leaves <= 32 ? 1 : leaves <= 64 ? 2 : 4;
  // Nanoseconds for a block of rows (Zen 4): a node's comparison and its words, a vector each, and
  // the leaves of the vectors; a step of a walk.
  const auto vectors = static_cast<double>(kTreeLanes / HWY_DYNAMIC_DISPATCH(LanesOf)());
  const double by_masks = vectors * (static_cast<double>(leaves) * (0.2 + 0.2 * words) + 8);
  const double by_walks = 1.1 * static_cast<double>(kTreeLanes * depth);
  return by_masks < by_walks ? words : 0;
}

void WriteMasks(const TreeNode* nodes, int64_t leaves, int32_t words, int64_t missing,
                uint32_t* to) {
  std::fill_n(to, MaskNumbers(leaves, words), 0);
  uint32_t* const held = to + (leaves - 1) * (2 + words);
  // Nodes that wait with where their masks are, and whether their second child is through.
  struct Open {
    int64_t node;
    uint32_t* masks;
    int64_t first_leaf;
    bool is_second_through;
  };
  std::vector<Open> open;
  int64_t leaf = 0, at = 0;
  const auto enter = [&](int64_t node) {
    const TreeNode& here = nodes[node];
    if (here.step() == 0) {
      held[leaf++] = static_cast<uint32_t>(here.number());
      return;
    }
    uint32_t* const masks = to + at++ * (2 + words);
    masks[0] = here.threshold();
    masks[1] = here.feature() + (here.missing() ? static_cast<uint32_t>(missing) : 0);
    open.push_back({node, masks, leaf, false});
  };
  enter(0);
  while (!open.empty()) {
    Open& here = open.back();
    const int64_t next = here.node + nodes[here.node].step();
    if (!here.is_second_through) {
      here.is_second_through = true;
      enter(next + 1);
      continue;
    }
    for (int64_t i = here.first_leaf; i < leaf; ++i) {
      here.masks[2 + i / 32] |= uint32_t{1} << (i % 32);
    }
    open.pop_back();
    enter(next);
  }
}

bool AreMasksSound(std::span<const uint32_t> masks, int64_t leaves, int32_t words,
                   int64_t row_numbers) {
  if (words != 1 && words != 2 && words != 4) return false;
  if (leaves < 2 || leaves > 32 * words ||
      static_cast<int64_t>(masks.size()) != MaskNumbers(leaves, words)) {
    return false;
  }
  for (int64_t node = 0; node + 1 < leaves; ++node) {
    const std::span<const uint32_t> of_node = masks.subspan(node * (2 + words), 2 + words);
    // The last leaf is below no second child.
    const uint32_t last = of_node[2 + (leaves - 1) / 32] >> ((leaves - 1) % 32);
    if (of_node[1] >= row_numbers || (last & 1) != 0) return false;
  }
  return true;
}

void OrderBlock(uint32_t* block, int64_t features, uint32_t* again) {
  HWY_DYNAMIC_DISPATCH(Order)(block, features * kTreeLanes, again);
}

void FindLeaves(const uint32_t* masks, int64_t leaves, int32_t words, const uint32_t* x,
                int64_t block_numbers, int64_t blocks, uint32_t* held, double* sums) {
  HWY_DYNAMIC_DISPATCH(Find)(masks, leaves, words, x, block_numbers, blocks, held, sums);
}

}  // namespace sardonyx
#endif  // HWY_ONCE
