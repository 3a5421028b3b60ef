#pragma once
// Ensembles of decision trees on float features. All rows of a block go down one tree, or one row
// goes down several, eight walks side by side: the loads of one hide those of the others. Vector
// gathers, by their latencies on Zen 4, would not be faster.

#include <bit>
#include <cstdint>
#include <limits>
#include <span>

#include "base/thread_pool.h"

namespace sardonyx {

// Integers in the order of the floats: comparing them takes fewer instructions and half the time.
// A NaN is greater than all: it is at most no threshold.
constexpr int32_t kNaNOrder = std::numeric_limits<int32_t>::max();
inline int32_t OrderOf(float x) {
  const auto bits = std::bit_cast<int32_t>(x + 0.0F);  // no -0
  return x != x ? kNaNOrder : bits ^ (bits >> 31 & kNaNOrder);
}

// From a node one goes to `child`, or to `child + 1` if the feature is at most the threshold (or is
// NaN and the node says so). Children are positions in the tree, whose root is 0. A leaf is its own
// child and asks for the feature behind the last one, which is always NaN: whoever steps on stays
// there. It holds its vote or its number in place of the threshold's order.
struct TreeNode {
  int32_t order;
  uint32_t bits;

  static constexpr int kFeatureBits = 11, kChildBits = 20;
  // A threshold that is NaN is one that no feature passes.
  static TreeNode Branch(float threshold, uint32_t feature, bool missing, uint32_t child) {
    return {threshold != threshold ? std::numeric_limits<int32_t>::min() : OrderOf(threshold),
            child | uint32_t{missing} << kChildBits | feature << (kChildBits + 1)};
  }
  static TreeNode Leaf(int32_t number, uint32_t features, uint32_t position) {
    return {number, position | features << (kChildBits + 1)};
  }
  static TreeNode Leaf(float vote, uint32_t features, uint32_t position) {
    return Leaf(std::bit_cast<int32_t>(vote), features, position);
  }
  float vote() const { return std::bit_cast<float>(order); }
  uint32_t child() const { return bits & ((1U << kChildBits) - 1); }
  bool missing() const { return ((bits >> kChildBits) & 1) != 0; }
  uint32_t feature() const { return bits >> (kChildBits + 1); }
};

struct Tree {
  int32_t first;    // node
  int32_t nearest;  // steps from the root to the nearest leaf
  int32_t depth;    // and to the farthest
  int32_t target;   // of kTree
};

enum class Votes : int32_t {
  kTree,   // a leaf holds its vote, for the target of its tree
  kDense,  // a leaf holds its number i and has `targets` weights, one each
  kLists   // votes offsets[i] to offsets[i + 1] of leaf i, each with a target and a weight
};

struct Ensemble {
  std::span<const Tree> trees;
  const TreeNode* nodes;
  Votes votes;
  bool missing;        // some node has that flag
  bool absent_is_nan;  // a target without any vote is NaN, not 0
  int64_t features;    // as many are asked for
  int64_t targets;
  int64_t steps;                     // sum of the trees' depths
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
