#pragma once
// An ensemble of decision trees between an ONNX node and the tables of core operation
// tree_ensemble.

#include "ops/ml/scores.h"

namespace sardonyx::ops::ml {

enum class Mode : uint8_t { kLeq, kLt, kGte, kGt, kEq, kNeq, kMember };  // numbers of TreeEnsemble

// Where a branch leads: another branch, or a leaf.
struct Target {
  int64_t index;
  bool is_leaf;
};

struct Branch {
  Mode mode;
  bool missing_is_true;  // NaN passes
  double threshold;      // of kMember: number of the set
  int64_t feature;
  Target yes, no;
};

struct Vote {
  int64_t leaf, target;
  double weight;
};

struct Forest {
  std::vector<Branch> branches;
  std::vector<Target> roots;
  int64_t leaf_count = 0;
  std::vector<Vote> votes;                   // of leaves, in any order
  std::vector<std::vector<double>> members;  // of sets
  int64_t targets = 0;
  int64_t aggregate = 1;  // as TreeEnsemble numbers them: average, sum, min, max
  std::vector<double> base;
  bool absent_is_nan = false;
};

// The scores [N,targets] of type `dtype`. Throws if the branches are no trees.
Val Score(Lowering& op, const Forest& forest, DType dtype);

}  // namespace sardonyx::ops::ml
