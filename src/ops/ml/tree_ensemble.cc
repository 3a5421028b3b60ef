// TreeEnsemble: branches and leaves in lists of their own.

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/ml/forest.h"

namespace sardonyx::ops::ml {
namespace {

// Members of all sets in one list, each set closed by a NaN; sets in the order of the branches that
// test them. The reference evaluator meets the branches in another order, that of a walk through
// the trees; the text says the order of nodes_modes.
std::vector<std::vector<double>> ReadSets(Lowering& op) {
  std::vector<std::vector<double>> sets;
  const Tensor& values = op.attributes.TensorValue("membership_values");
  if (!values.defined()) return sets;
  std::vector<double> set;
  for (double value : ToDoubles(values)) {
    if (std::isnan(value)) {
      sets.push_back(std::exchange(set, {}));
    } else {
      set.push_back(value);
    }
  }
  if (!set.empty()) sets.push_back(set);
  return sets;
}

Forest ReadForest(Lowering& op) {
  const std::vector<int64_t>&features = op.Ints("nodes_featureids"),
        &yes = op.Ints("nodes_truenodeids"), &no = op.Ints("nodes_falsenodeids"),
        &yes_leaf = op.Ints("nodes_trueleafs"), &no_leaf = op.Ints("nodes_falseleafs"),
        &missing = op.Ints("nodes_missing_value_tracks_true"), &roots = op.Ints("tree_roots"),
        &leaf_targets = op.Ints("leaf_targetids");
  const std::vector<double> splits = ToDoubles(op.attributes.TensorValue("nodes_splits"));
  const std::vector<int64_t> modes = ToInts(op.attributes.TensorValue("nodes_modes"));
  const std::vector<double> weights = ToDoubles(op.attributes.TensorValue("leaf_weights"));
  const size_t count = features.size();
  for (size_t size : {yes.size(), no.size(), yes_leaf.size(), no_leaf.size(), splits.size(),
                      modes.size(), missing.empty() ? count : missing.size()}) {
    if (size != count) op.Fail("lists of {} and of {} elements describe the nodes", count, size);
  }
  if (leaf_targets.size() != weights.size()) {
    op.Fail("{} leaf_targetids have {} leaf_weights", leaf_targets.size(), weights.size());
  }
  Forest forest;
  forest.members = ReadSets(op);
  forest.leaf_count = static_cast<int64_t>(weights.size());
  size_t sets = 0;
  for (size_t i = 0; i < count; ++i) {
    if (modes[i] < 0 || modes[i] > static_cast<int64_t>(Mode::kMember)) {
      op.Fail("nodes_modes holds {}", modes[i]);
    }
    const Mode mode = static_cast<Mode>(modes[i]);
    const double threshold = mode == Mode::kMember ? static_cast<double>(sets++) : splits[i];
    forest.branches.push_back({mode,
                               !missing.empty() && missing[i] != 0,
                               threshold,
                               features[i],
                               {yes[i], yes_leaf[i] != 0},
                               {no[i], no_leaf[i] != 0}});
  }
  if (sets != forest.members.size()) {
    op.Fail("{} nodes test for members of {} sets", sets, forest.members.size());
  }
  for (int64_t root : roots) forest.roots.push_back({root, false});
  for (size_t i = 0; i < weights.size(); ++i) {
    forest.votes.push_back({static_cast<int64_t>(i), leaf_targets[i], weights[i]});
    if (leaf_targets[i] > std::numeric_limits<int32_t>::max()) {
      op.Fail("a leaf is of target {}", leaf_targets[i]);
    }
    forest.targets = std::max(forest.targets, leaf_targets[i] + 1);
  }
  forest.targets = op.Int("n_targets", forest.targets);
  return forest;
}

}  // namespace

Outputs LowerTreeEnsemble(Lowering& op) {
  constexpr std::string_view kTransforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO",
                                              "PROBIT"};
  const int64_t transform = op.Int("post_transform"), aggregate = op.Int("aggregate_function", 1);
  if (transform < 0 || transform > 4) op.Fail("post_transform is {}, not 0 to 4", transform);
  if (aggregate < 0 || aggregate > 3) op.Fail("aggregate_function is {}, not 0 to 3", aggregate);
  Forest forest = ReadForest(op);
  forest.aggregate = aggregate;
  const DType type = op.in(0).dtype();
  const bool wide = type == DType::kFloat64;
  op.attributes.Set("post_transform", std::string(kTransforms[transform]));
  return Cast(PostTransform(op, Score(op, forest, wide ? type : DType::kFloat32)), type);
}

}  // namespace sardonyx::ops::ml
