#include "kernels/tree_masks.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/tree_masks.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
template <typename Order>
using TagOf = hn::CappedTag<Order, kTreeLanes>;
template <typename Order>
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(TagOf<Order>()));
template <typename Order>
constexpr int kOfBlock = static_cast<int>(kTreeLanes / kLanes<Order>);  // vectors

// The number of the first bit of each lane's words.
template <int kWords, class D, class V = hn::Vec<D>>
HWY_INLINE V FirstBit(D d, const V (&left)[kWords]) {
  using Order = hn::TFromD<D>;
  using Number = hn::TFromD<hn::RebindToFloat<D>>;
  V word = left[0], base = hn::Zero(d);
#pragma GCC unroll 4
  for (int w = 1; w < kWords; ++w) {
    const auto is_empty = hn::Eq(word, hn::Zero(d));
    word = hn::IfThenElse(is_empty, left[w], word);
    base = hn::IfThenElse(is_empty, hn::Set(d, static_cast<Order>(8 * sizeof(Order) * w)), base);
  }
  // A single bit as a number has its place as the exponent.
  constexpr int kMantissa = std::numeric_limits<Number>::digits - 1;
  constexpr Order kBias = std::numeric_limits<Number>::max_exponent - 1;
  const V bit = hn::And(word, hn::Sub(hn::Zero(d), word));
  const auto value =
      hn::ConvertTo(hn::RebindToFloat<D>(), hn::BitCast(hn::RebindToSigned<D>(), bit));
  const V exponent =
      hn::And(hn::ShiftRight<kMantissa>(hn::BitCast(d, value)), hn::Set(d, 2 * kBias + 1));
  return hn::Add(base, hn::Sub(exponent, hn::Set(d, kBias)));
}

template <class D>
HWY_INLINE void AddVotes(D /*d*/, hn::Vec<D> held, double* sums) {
  const hn::RebindToFloat<D> df;
  const auto votes = hn::BitCast(df, held);
  const hn::Repartition<double, D> dd;
  constexpr int64_t kHalf = static_cast<int64_t>(hn::MaxLanes(dd));
  const auto add = [&](auto of_half, double* to)
                       HWY_ATTR { hn::StoreU(hn::Add(hn::LoadU(dd, to), of_half), dd, to); };
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    add(votes, sums);
  } else {
    add(hn::PromoteTo(dd, hn::LowerHalf(votes)), sums);
    add(hn::PromoteTo(dd, hn::UpperHalf(hn::Half<decltype(df)>(), votes)), sums + kHalf);
  }
}

// kBlocks blocks of rows.
template <int kWords, int kBlocks, typename Order>
HWY_INLINE void Blocks(const Order* masks, int64_t leaves, int64_t members, const Order* x,
                       int64_t block_numbers, Order* held, double* sums) {
  constexpr int kInBlock = kOfBlock<Order>, kVectors = kBlocks * kInBlock;
  const TagOf<Order> d;
  using V = hn::Vec<TagOf<Order>>;
  V left[kVectors][kWords];
#pragma GCC unroll 32
  for (int i = 0; i < kVectors * kWords; ++i) {
    left[i / kWords][i % kWords] = hn::Set(d, kNaNOrder<Order>);
  }
  const Order* node = masks;
  const auto look_at = [&](auto&& is_beyond) HWY_ATTR {
    const Order* const from = x + node[1] * kTreeLanes;
    V removed[kWords];
#pragma GCC unroll 4
    for (int w = 0; w < kWords; ++w) removed[w] = hn::Set(d, node[2 + w]);
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      const auto removes = is_beyond(
          hn::LoadU(d, from + v / kInBlock * block_numbers + v % kInBlock * kLanes<Order>));
#pragma GCC unroll 4
      for (int w = 0; w < kWords; ++w) {
        left[v][w] = hn::AndNot(hn::IfThenElseZero(removes, removed[w]), left[v][w]);
      }
    }
  };
  const Order* const with_sets = masks + (leaves - 1 - members) * (2 + kWords);
  for (; node != with_sets; node += 2 + kWords) {
    const V threshold = hn::Set(d, node[0]);
    look_at([&](V value) HWY_ATTR { return hn::Gt(value, threshold); });
  }
  if constexpr (sizeof(Order) == 8) {
    const V one = hn::Set(d, Order{1}), none = hn::Set(d, Order{kMostMaskedCategory + 1});
    for (; members > 0; --members, node += 2 + kWords) {
      const V set = hn::Set(d, node[0]);
      look_at([&](V category) HWY_ATTR {
        return hn::Eq(hn::And(set >> hn::Min(category, none), one), hn::Zero(d));
      });
    }
  }
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    const auto leaf = hn::BitCast(hn::RebindToSigned<TagOf<Order>>(), FirstBit(d, left[v]));
    const V found = hn::GatherIndex(d, node, leaf);
    if (sums != nullptr) {
      AddVotes(d, found, sums + v * kLanes<Order>);
    } else {
      hn::StoreU(found, d, held + v * kLanes<Order>);
    }
  }
}

template <int kWords, typename Order>
void BlocksOf(const Order* masks, int64_t leaves, int64_t members, const Order* x,
              int64_t block_numbers, int64_t blocks, Order* held, double* sums) {
  // As many as registers have room for.
  constexpr int kRegisters = HWY_TARGET <= HWY_AVX3 ? 16 : 8;
  constexpr int kTogether = std::clamp(kRegisters / (kWords * kOfBlock<Order>), 1, 4);
  const auto next = [&](int count) {
    x += count * block_numbers;
    held += count * kTreeLanes;
    if (sums != nullptr) sums += count * kTreeLanes;
  };
  for (; blocks >= kTogether; blocks -= kTogether, next(kTogether)) {
    Blocks<kWords, kTogether>(masks, leaves, members, x, block_numbers, held, sums);
  }
  for (; blocks > 0; --blocks, next(1)) {
    Blocks<kWords, 1>(masks, leaves, members, x, block_numbers, held, sums);
  }
}

template <typename Order>
void Find(const Order* masks, int64_t leaves, int64_t members, int32_t words, const Order* x,
          int64_t block_numbers, int64_t blocks, Order* held, double* sums) {
  auto run = words == 1 ? BlocksOf<1, Order> : BlocksOf<2, Order>;
  if constexpr (kMostMaskWords<Order> > 2) {
    if (words > 2) run = BlocksOf<4, Order>;
  }
  run(masks, leaves, members, x, block_numbers, blocks, held, sums);
}

template <typename Order>
void Orders(Order* numbers, int64_t count, Order* again) {
  using Number = std::conditional_t<sizeof(Order) == 4, float, double>;
  constexpr Order kNaN = kNaNOrder<Order>;
  const TagOf<Order> d;
  const hn::Rebind<Number, TagOf<Order>> df;
  int64_t i = 0;
  for (; i + kLanes<Order> <= count; i += kLanes<Order>) {
    const auto x = hn::Add(hn::BitCast(df, hn::LoadU(d, numbers + i)), hn::Zero(df));  // no -0
    const auto bits = hn::BitCast(d, x);
    const auto sign = hn::BroadcastSignBit(hn::BitCast(hn::RebindToSigned<TagOf<Order>>(), bits));
    const auto order = hn::Xor(bits, hn::Or(hn::BitCast(d, sign), hn::Set(d, kNaN ^ (kNaN >> 1))));
    const auto is_nan = hn::RebindMask(d, hn::IsNaN(x));
    hn::StoreU(hn::IfThenElse(is_nan, hn::Set(d, kNaN), order), d, numbers + i);
    if (again == nullptr) continue;
    hn::StoreU(hn::IfThenElse(is_nan, hn::Set(d, Order{kLeastOrder}), order), d, again + i);
  }
  for (; i < count; ++i) {
    const Order order = OrderOf(std::bit_cast<Number>(numbers[i]));
    numbers[i] = order;
    if (again != nullptr) again[i] = order == kNaN ? Order{kLeastOrder} : order;
  }
}

void Find32(const uint32_t* masks, int64_t leaves, int64_t members, int32_t words,
            const uint32_t* x, int64_t block_numbers, int64_t blocks, uint32_t* held,
            double* sums) {
  Find(masks, leaves, members, words, x, block_numbers, blocks, held, sums);
}
void Find64(const uint64_t* masks, int64_t leaves, int64_t members, int32_t words,
            const uint64_t* x, int64_t block_numbers, int64_t blocks, uint64_t* held,
            double* sums) {
  Find(masks, leaves, members, words, x, block_numbers, blocks, held, sums);
}
void Orders32(uint32_t* numbers, int64_t count, uint32_t* again) { Orders(numbers, count, again); }
void Orders64(uint64_t* numbers, int64_t count, uint64_t* again) { Orders(numbers, count, again); }

int64_t LanesOf(size_t order_bytes) {
  return order_bytes == 4 ? kLanes<uint32_t> : kLanes<uint64_t>;
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Find32);
HWY_EXPORT(Find64);
HWY_EXPORT(Orders32);
HWY_EXPORT(Orders64);
HWY_EXPORT(LanesOf);

template <typename Order>
int32_t MaskWordsOf(int64_t leaves, int64_t depth) {
  constexpr int64_t kMostLeaves = 128;
  if (leaves < 2 || leaves > kMostLeaves) return 0;
  const int32_t words = MaskWords<Order>(leaves);
  // Nanoseconds for a block of rows (Zen 4): a node's comparison and its words, a vector each, and
  // the leaves of the vectors; a step of a walk.
  const auto vectors =
      static_cast<double>(kTreeLanes / HWY_DYNAMIC_DISPATCH(LanesOf)(sizeof(Order)));
  const double by_masks = vectors * (static_cast<double>(leaves) * (0.2 + 0.2 * words) + 8);
  const double by_walks = 1.1 * static_cast<double>(kTreeLanes * depth);
  return by_masks < by_walks ? words : 0;
}

template <typename Order>
int64_t MaskSteps(int64_t leaves) {
  // Nanoseconds of a block (Zen 4).
  const auto vectors =
      static_cast<double>(kTreeLanes / HWY_DYNAMIC_DISPATCH(LanesOf)(sizeof(Order)));
  const double by_masks = static_cast<double>(leaves) * (0.7 + 0.4 * vectors);
  const double steps = by_masks / (kStepNs * static_cast<double>(kTreeLanes));
  return std::max<int64_t>(1, std::llround(steps));
}

template <typename T>
void WriteMasks(const TreeNode<T>* nodes, int64_t leaves, int64_t members, int32_t words,
                int64_t missing, const uint64_t* sets, OrderType<T>* to) {
  using Order = OrderType<T>;
  constexpr int64_t kBits = 8 * sizeof(Order);
  std::fill_n(to, MaskNumbers(leaves, words), 0);
  Order* const held = to + (leaves - 1) * (2 + words);
  // Nodes that wait with where their masks are, and whether their second child is through.
  struct Open {
    int64_t node;
    Order* masks;
    int64_t first_leaf;
    bool is_second_through;
  };
  std::vector<Open> open;
  int64_t leaf = 0, at = 0, at_set = leaves - 1 - members;
  const auto enter = [&](int64_t node) {
    const TreeNode<T>& here = nodes[node];
    if (here.step() == 0) {
      held[leaf++] = here.order;
      return;
    }
    Order* const masks = to + (here.member() ? at_set++ : at++) * (2 + words);
    masks[0] = here.member() ? static_cast<Order>(sets[here.first_word()]) : here.threshold();
    masks[1] = here.feature() + (here.missing() ? static_cast<Order>(missing) : 0);
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
      here.masks[2 + i / kBits] |= Order{1} << (i % kBits);
    }
    open.pop_back();
    enter(next);
  }
}

template <typename Order>
bool AreMasksSound(std::span<const Order> masks, int64_t leaves, int32_t words,
                   int64_t row_numbers) {
  constexpr int64_t kBits = 8 * sizeof(Order);
  if (leaves < 2 || leaves > kBits * kMostMaskWords<Order> || words != MaskWords<Order>(leaves) ||
      std::ssize(masks) != MaskNumbers(leaves, words)) {
    return false;
  }
  for (int64_t node = 0; node + 1 < leaves; ++node) {
    const std::span<const Order> of_node = masks.subspan(node * (2 + words), 2 + words);
    // The last leaf is below no second child.
    const Order last = of_node[2 + (leaves - 1) / kBits] >> ((leaves - 1) % kBits);
    if (of_node[1] >= static_cast<uint64_t>(row_numbers) || (last & 1) != 0) return false;
  }
  return true;
}

template <typename Order>
void OrderNumbers(Order* numbers, int64_t count, Order* again) {
  if constexpr (sizeof(Order) == 4) {
    HWY_DYNAMIC_DISPATCH(Orders32)(numbers, count, again);
  } else {
    HWY_DYNAMIC_DISPATCH(Orders64)(numbers, count, again);
  }
}

template <typename Order>
void FindLeaves(const Order* masks, int64_t leaves, int64_t members, int32_t words, const Order* x,
                int64_t block_numbers, int64_t blocks, Order* held, double* sums) {
  const auto find = [&](auto function) {
    function(masks, leaves, members, words, x, block_numbers, blocks, held, sums);
  };
  if constexpr (sizeof(Order) == 4) {
    find(HWY_DYNAMIC_DISPATCH(Find32));
  } else {
    find(HWY_DYNAMIC_DISPATCH(Find64));
  }
}

#define SARDONYX_TREE_MASKS_OF(T, Order)                                                          \
  template int32_t MaskWordsOf<Order>(int64_t, int64_t);                                          \
  template int64_t MaskSteps<Order>(int64_t);                                                     \
  template void WriteMasks<T>(const TreeNode<T>*, int64_t, int64_t, int32_t, int64_t,             \
                              const uint64_t*, Order*);                                           \
  template bool AreMasksSound<Order>(std::span<const Order>, int64_t, int32_t, int64_t);          \
  template void OrderNumbers<Order>(Order*, int64_t, Order*);                                     \
  template void FindLeaves<Order>(const Order*, int64_t, int64_t, int32_t, const Order*, int64_t, \
                                  int64_t, Order*, double*)
SARDONYX_TREE_MASKS_OF(float, uint32_t);
SARDONYX_TREE_MASKS_OF(double, uint64_t);
#undef SARDONYX_TREE_MASKS_OF

}  // namespace sardonyx
#endif  // HWY_ONCE
