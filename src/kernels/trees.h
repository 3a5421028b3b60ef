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
// A node of doubles may ask for a category instead, and whether it is in a set, which it holds.
template <typename T>
struct TreeNode {
  using Order = OrderType<T>;
  Order order;
  Order bits;

  static constexpr bool kHasSets = sizeof(T) == 8;
  static constexpr int kFeatureBits = sizeof(T) == 4 ? 11 : 31;
  static constexpr int kStepBits = sizeof(T) == 4 ? 20 : 31;
  static constexpr int kFeatureShift = kStepBits + 1 + (kHasSets ? 1 : 0);
  // A threshold that is NaN is one that no feature passes.
  static TreeNode Branch(T threshold, Order feature, bool missing, Order step) {
    return {threshold != threshold ? Order{kLeastOrder} : OrderOf(threshold) + 1,
            step | Order{missing} << kStepBits | feature << kFeatureShift};
  }
  // Words [first, first + words) of Ensemble::sets.
  static TreeNode Member(uint32_t first, uint32_t words, Order category, bool missing, Order step)
    requires kHasSets
  {
    return {first | Order{words} << 32, step | Order{missing} << kStepBits |
                                            Order{1} << (kStepBits + 1) |
                                            category << kFeatureShift};
  }
  static TreeNode Leaf(int32_t number, Order features) {
    return {static_cast<uint32_t>(number), features << kFeatureShift};
  }
  static TreeNode Leaf(T vote, Order features) {
    return {std::bit_cast<Order>(vote), features << kFeatureShift};
  }
  int32_t number() const { return static_cast<int32_t>(order); }
  // The order beyond which a feature goes to the first child.
  Order threshold() const { return order == kLeastOrder ? order : order - 1; }
  uint32_t step() const { return static_cast<uint32_t>(bits & ((Order{1} << kStepBits) - 1)); }
  bool missing() const { return ((bits >> kStepBits) & 1) != 0; }
  bool member() const { return kHasSets && ((bits >> (kStepBits + 1)) & 1) != 0; }
  uint32_t first_word() const { return static_cast<uint32_t>(order); }
  uint32_t words() const { return static_cast<uint32_t>(order >> (kHasSets ? 32 : 0)); }
  // Of a row's numbers: its features, what is always NaN, and more from the offsets below on.
  uint32_t feature() const { return static_cast<uint32_t>(bits >> kFeatureShift); }
};

// The category that a feature is: itself if it is a whole number below the end, the end if not.
template <typename T>
OrderType<T> CategoryOf(T x, int64_t end) {
  if (x != x) return kNaNOrder<OrderType<T>>;
  const bool is_one =
      x >= 0 && x < static_cast<T>(end) && x == static_cast<T>(static_cast<int32_t>(x));
  return static_cast<OrderType<T>>(is_one ? static_cast<int64_t>(x) : end);
}

struct Tree {
  int32_t first;    // node
  int32_t nearest;  // steps from the root to the nearest leaf
  int32_t depth;    // and to the farthest
  int32_t target;   // of kTree
  // Of one that has masks (tree_masks.h): words of a mask, else 0, and where they begin.
  int32_t leaves = 0, words = 0, masks = 0;
  int32_t members = 0;  // nodes that ask for categories
};

enum class Votes : int32_t {
  kTree,   // a leaf holds its vote, for the target of its tree
  kDense,  // a leaf holds its number i and has `targets` weights, one each
  kLists   // votes offsets[i] to offsets[i + 1] of leaf i, each with a target and a weight
};

// As which of a row's numbers a node with `missing` reads its feature, if it has masks; and where
// categories begin.
inline int64_t MissingOffset(int64_t features) { return features + 1; }
inline int64_t CategoryOffset(int64_t features) { return 2 * features + 1; }

constexpr double kStepNs = 0.8;  // of a step, where several are side by side (Zen 4)

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
  int64_t steps;                        // sum of their depths, or of what masks come to
  int64_t walked_steps;                 // sum of their depths
  const OrderType<T>* masks = nullptr;  // of trees that have such
  const T* weights = nullptr;           // of kDense and kLists
  const int32_t* offsets = nullptr;     // of kLists
  const int32_t* listed = nullptr;      // targets of kLists
  const uint64_t* sets = nullptr;       // of nodes that ask for categories: bits, zeros behind each
  std::span<const int32_t> categories = {};  // the features that are such
  int64_t category_end = 0;                  // all are below
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
