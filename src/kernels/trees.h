#pragma once
// Ensembles of decision trees on float or double features. 16 rows of a block go down one tree, or
// one row goes down 16 trees, side by side: the loads of one walk hide those of the others. (Vector
// gathers, by their latencies on Zen 4, would not be faster.) In trees of few leaves blocks of rows
// do not walk, see tree_masks.h.

#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "base/thread_pool.h"

namespace sardonyx {

// Integers in the order of the floats or doubles T, and as wide: to compare them and count on the
// outcome takes two instructions. A NaN is greater than all: it is at most no threshold.
template <typename T>
using OrderType = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
template <typename Order>
constexpr Order kNaNOrder = std::numeric_limits<Order>::max();
constexpr uint32_t kLeastOrder = 0;  // of no number
template <typename T>
OrderType<T> OrderOf(T x) {
  using Order = OrderType<T>;
  constexpr Order kSign = kNaNOrder<Order> ^ (kNaNOrder<Order> >> 1);
  const auto bits = std::bit_cast<Order>(x + T{0});  // no -0
  return x != x ? kNaNOrder<Order> : bits ^ ((bits & kSign) != 0 ? kNaNOrder<Order> : kSign);
}

// From a node one goes `step` nodes on, and one more if the feature's order is below the node's,
// which is the one after the threshold's: if the feature is at most the threshold (or is NaN and
// the node says so). A leaf has a step of 0 and asks for the feature behind the last one, which is
// always NaN: whoever steps on stays there. It holds its vote or its number in place of the order.
template <typename T>
struct TreeNode {
  using Order = OrderType<T>;
  Order order;
  Order bits;

  static constexpr int kFeatureBits = sizeof(T) == 4 ? 11 : 31;
  static constexpr int kStepBits = sizeof(T) == 4 ? 20 : 31;
  // A threshold that is NaN is one that no feature passes.
  static TreeNode Branch(T threshold, Order feature, bool missing, Order step) {
    return {threshold != threshold ? Order{kLeastOrder} : OrderOf(threshold) + 1,
            step | Order{missing} << kStepBits | feature << (kStepBits + 1)};
  }
  static TreeNode Leaf(int32_t number, Order features) {
    return {static_cast<uint32_t>(number), features << (kStepBits + 1)};
  }
  static TreeNode Leaf(T vote, Order features) {
    return {std::bit_cast<Order>(vote), features << (kStepBits + 1)};
  }
  int32_t number() const { return static_cast<int32_t>(order); }
  // The order beyond which a feature goes to the first child.
  Order threshold() const { return order == kLeastOrder ? order : order - 1; }
  uint32_t step() const { return static_cast<uint32_t>(bits & ((Order{1} << kStepBits) - 1)); }
  bool missing() const { return ((bits >> kStepBits) & 1) != 0; }
  uint32_t feature() const { return static_cast<uint32_t>(bits >> (kStepBits + 1)); }
};

struct Tree {
  int32_t first;    // node
  int32_t nearest;  // steps from the root to the nearest leaf
  int32_t depth;    // and to the farthest
  int32_t target;   // of kTree
  // Of one that has masks (tree_masks.h): words of a mask, else 0, and where they begin.
  int32_t leaves = 0, words = 0, masks = 0;
};

enum class Votes : int32_t {
  kTree,   // a leaf holds its vote, for the target of its tree
  kDense,  // a leaf holds its number i and has `targets` weights, one each
  kLists   // votes offsets[i] to offsets[i + 1] of leaf i, each with a target and a weight
};

// As which of a row's numbers a node with `missing` reads its feature, if it has masks.
inline int64_t MissingOffset(int64_t features) { return features + 1; }

template <typename T>
struct Ensemble {
  std::span<const Tree> trees;
  const TreeNode<T>* nodes;
  Votes votes;
  bool missing;        // some node has that flag
  bool absent_is_nan;  // a target without any vote is NaN, not 0
  int64_t features;    // as many are asked for
  int64_t targets;
  int32_t nearest;                      // the least of the trees' `nearest`
  int32_t depth;                        // the greatest of their depths
  int64_t steps;                        // sum of their depths, less for those with masks
  const OrderType<T>* masks = nullptr;  // of trees that have such
  const T* weights = nullptr;           // of kDense and kLists
  const int32_t* offsets = nullptr;     // of kLists
  const int32_t* listed = nullptr;      // targets of kLists
};

template <typename T>
int64_t ScoreTreesScratchBytes(const Ensemble<T>& ensemble, int64_t rows, int threads);

// y[r, t] = (sum of votes) / divisor + base[t] for rows x[r] of `stride` features; base may be
// null. Sums are kept in double. Trees of floats take and give floats, those of doubles either.
// Scratch is aligned to 64 bytes.
template <typename T, typename X, typename Y>
void ScoreTrees(const Ensemble<T>& ensemble, const X* x, int64_t stride, int64_t rows,
                double divisor, const double* base, Y* y, void* scratch, const Parallel& par);

}  // namespace sardonyx
