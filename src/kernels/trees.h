#pragma once
// Ensembles of decision trees on float features. 16 rows of a block go down one tree, or one row
// goes down 16 trees, side by side: the loads of one walk hide those of the others. (Vector
// gathers, by their latencies on Zen 4, would not be faster.) In trees of few leaves blocks of rows
// do not walk, see tree_masks.h.

#include <bit>
#include <cstdint>
#include <limits>
#include <span>

#include "base/thread_pool.h"

namespace sardonyx {

// Integers in the order of the floats: to compare them and count on the outcome takes two
// instructions. A NaN is greater than all: it is at most no threshold.
constexpr uint32_t kNaNOrder = std::numeric_limits<uint32_t>::max();
constexpr uint32_t kLeastOrder = 0;  // of no float
inline uint32_t OrderOf(float x) {
  constexpr uint32_t kSign = 1U << 31;
  const auto bits = std::bit_cast<uint32_t>(x + 0.0F);  // no -0
  return x != x ? kNaNOrder : bits ^ ((bits & kSign) != 0 ? kNaNOrder : kSign);
}

// From a node one goes `step` nodes on, and one more if the feature's order is below the node's,
// which is the one after the threshold's: if the feature is at most the threshold (or is NaN and
// the node says so). A leaf has a step of 0 and asks for the feature behind the last one, which is
// always NaN: whoever steps on stays there. It holds its vote or its number in place of the order.
struct TreeNode {
  uint32_t order;
  uint32_t bits;

  static constexpr int kFeatureBits = 11, kStepBits = 20;
  // A threshold that is NaN is one that no feature passes.
  static TreeNode Branch(float threshold, uint32_t feature, bool missing, uint32_t step) {
    return {threshold != threshold ? kLeastOrder : OrderOf(threshold) + 1,
            step | uint32_t{missing} << kStepBits | feature << (kStepBits + 1)};
  }
  static TreeNode Leaf(int32_t number, uint32_t features) {
    return {static_cast<uint32_t>(number), features << (kStepBits + 1)};
  }
  static TreeNode Leaf(float vote, uint32_t features) {
    return Leaf(std::bit_cast<int32_t>(vote), features);
  }
  int32_t number() const { return static_cast<int32_t>(order); }
  // The order beyond which a feature goes to the first child.
  uint32_t threshold() const { return order == kLeastOrder ? order : order - 1; }
  uint32_t step() const { return bits & ((1U << kStepBits) - 1); }
  bool missing() const { return ((bits >> kStepBits) & 1) != 0; }
  uint32_t feature() const { return bits >> (kStepBits + 1); }
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

struct Ensemble {
  std::span<const Tree> trees;
  const TreeNode* nodes;
  Votes votes;
  bool missing;        // some node has that flag
  bool absent_is_nan;  // a target without any vote is NaN, not 0
  int64_t features;    // as many are asked for
  int64_t targets;
  int32_t nearest;                   // the least of the trees' `nearest`
  int32_t depth;                     // the greatest of their depths
  int64_t steps;                     // sum of their depths
  const uint32_t* masks = nullptr;   // of trees that have such
  const float* weights = nullptr;    // of kDense and kLists
  const int32_t* offsets = nullptr;  // of kLists
  const int32_t* listed = nullptr;   // targets of kLists
};

int64_t ScoreTreesScratchBytes(const Ensemble& ensemble, int64_t rows, int threads);

// y[r, t] = (sum of votes) / divisor + base[t] for rows x[r] of `stride` floats; base may be null.
// Sums are kept in double. Scratch is aligned to 64 bytes.
void ScoreTrees(const Ensemble& ensemble, const float* x, int64_t stride, int64_t rows,
                double divisor, const double* base, float* y, void* scratch, const Parallel& par);

}  // namespace sardonyx
