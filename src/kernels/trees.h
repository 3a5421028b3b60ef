#pragma once
// Ensembles of decision trees on float features. All rows of a block go down one tree, or one row
// goes down several, eight walks side by side: the loads of one hide those of the others. Vector
// gathers, by their latencies on Zen 4, would not be faster.

#include <cstdint>
#include <span>

#include "base/thread_pool.h"

namespace sardonyx {

// From a node one goes to `child`, or to `child + 1` if the feature is at most the threshold (or is
// NaN and the node says so). Children are positions in the tree, whose root is 0. A leaf is its own
// child and asks for the feature behind the last one, which is always NaN: whoever steps on stays
// there. Its threshold is then free to hold its vote or its number.
struct TreeNode {
  float threshold;
  uint32_t bits;

  static constexpr int kFeatureBits = 11, kChildBits = 20;
  static TreeNode Make(float threshold, uint32_t feature, bool missing, uint32_t child) {
    return {threshold, child | uint32_t{missing} << kChildBits | feature << (kChildBits + 1)};
  }
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
  kTree,   // a leaf's threshold is its vote, for the target of its tree
  kDense,  // leaf i (a number in the bits of its threshold) has `targets` weights, one each
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
