// TreeEnsembleRegressor and TreeEnsembleClassifier: nodes, leaves among them, bear the numbers of
// their tree and of themselves, and leaves may have several votes.

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

#include "ops/ml/forest.h"

namespace sardonyx::ops::ml {
namespace {

// Numbers from attribute `name`, or from `name`_as_tensor.
std::vector<double> Numbers(Lowering& op, const std::string& name) {
  const Tensor& tensor = op.attributes.TensorValue(name + "_as_tensor");
  const std::vector<double>& floats = op.attributes.Floats(name);
  if (!tensor.defined()) return floats;
  if (!floats.empty()) op.Fail("give one of {} and {}_as_tensor, not both", name, name);
  return ToDoubles(tensor);
}

std::vector<double> TakeNumbers(Lowering& op, const std::string& name) {
  std::vector<double> numbers = Numbers(op, name);
  op.attributes.Erase(name);
  return numbers;
}

// From the number of a tree and of a node in it to the position in the lists.
class NodeIndex {
 public:
  NodeIndex(Lowering& op, std::span<const int64_t> trees, std::span<const int64_t> nodes)
      : op_(op), trees_(trees), nodes_(nodes), order_(trees.size()) {
    if (trees.size() > std::numeric_limits<int32_t>::max()) op.Fail("the trees are too large");
    std::iota(order_.begin(), order_.end(), 0);
    const auto less = [this](int32_t a, int32_t b) { return Key(a) < Key(b); };
    if (!std::is_sorted(order_.begin(), order_.end(), less)) {
      std::sort(order_.begin(), order_.end(), less);
    }
    for (size_t i = 1; i < order_.size(); ++i) {
      if (Key(order_[i - 1]) == Key(order_[i])) {
        op.Fail("tree {} has node {} twice", trees[order_[i]], nodes[order_[i]]);
      }
    }
  }

  // `near`: any position, best one of the same tree. Numbers of a tree mostly count from 0 without
  // a gap, so that the distance is known.
  int64_t Find(int64_t tree, int64_t node, int64_t near) const {
    if (order_.empty()) op_.Fail("tree {} has no node {}", tree, node);
    const std::pair key(tree, node);
    const auto guess = static_cast<int64_t>(static_cast<uint64_t>(near) + node - nodes_[near]);
    if (guess >= 0 && guess < std::ssize(order_) && Key(guess) == key) return guess;
    const auto found =
        std::lower_bound(order_.begin(), order_.end(), key,
                         [this](int32_t position, const auto& k) { return Key(position) < k; });
    if (found == order_.end() || Key(*found) != key) op_.Fail("tree {} has no node {}", tree, node);
    return *found;
  }

 private:
  std::pair<int64_t, int64_t> Key(int64_t position) const {
    return {trees_[position], nodes_[position]};
  }

  Lowering& op_;
  const std::span<const int64_t> trees_, nodes_;
  std::vector<int32_t> order_;
};

bool IsLeaf(std::string_view mode) { return mode == "LEAF"; }

Mode ModeNamed(Lowering& op, std::string_view name) {
  constexpr std::string_view kNames[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                         "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};
  const auto* found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) op.Fail("nodes_modes holds '{}'", name);
  return static_cast<Mode>(found - std::begin(kNames));
}

// `votes`: the prefix of the attributes of votes, "target" or "class". The lists, which are most of
// such a model, leave the attributes as soon as they are read.
Forest ReadForest(Lowering& op, const std::string& votes) {
  // Views of elements stay valid when other lists are erased.
  const std::span<const int64_t> trees = op.Ints("nodes_treeids"), ids = op.Ints("nodes_nodeids"),
                                 features = op.Ints("nodes_featureids"),
                                 yes = op.Ints("nodes_truenodeids"),
                                 no = op.Ints("nodes_falsenodeids"),
                                 missing = op.Ints("nodes_missing_value_tracks_true"),
                                 vote_trees = op.Ints(votes + "_treeids"),
                                 vote_nodes = op.Ints(votes + "_nodeids"),
                                 vote_targets = op.Ints(votes + "_ids");
  op.attributes.Erase("nodes_hitrates");
  const std::vector<double> values = TakeNumbers(op, "nodes_values");
  const std::vector<double> weights = TakeNumbers(op, votes + "_weights");
  const std::vector<std::string>& modes = op.attributes.Strings("nodes_modes");
  const size_t count = trees.size();
  for (size_t size : {ids.size(), features.size(), yes.size(), no.size(), modes.size(),
                      values.size(), missing.empty() ? count : missing.size()}) {
    if (size != count) op.Fail("lists of {} and of {} elements describe the nodes", count, size);
  }
  for (size_t size : {vote_trees.size(), vote_nodes.size(), vote_targets.size()}) {
    if (size != weights.size()) {
      op.Fail("lists of {} and of {} elements describe the votes", weights.size(), size);
    }
  }
  Forest forest;
  const NodeIndex index(op, trees, ids);
  // Positions become numbers of branches and, from -1 downwards, of leaves.
  std::vector<int32_t> numbers;
  numbers.reserve(count);
  int32_t branches = 0, leaves = 0;
  for (const std::string& mode : modes) numbers.push_back(IsLeaf(mode) ? --leaves : branches++);
  forest.leaf_count = -int64_t{leaves};
  forest.branches.reserve(branches);
  for (size_t i = 0; i < count; ++i) {
    if (numbers[i] >= 0) forest.branches.push_back({ModeNamed(op, modes[i]), false, 0, 0, {}, {}});
  }
  op.attributes.Erase("nodes_modes");
  const auto target = [&](int64_t position) {
    const int32_t number = numbers[position];
    return number < 0 ? Target{-1 - int64_t{number}, true} : Target{number, false};
  };
  for (size_t i = 0; i < count; ++i) {
    const auto position = static_cast<int64_t>(i);
    if (i == 0 || trees[i] != trees[i - 1]) forest.roots.push_back(target(position));
    if (numbers[i] < 0) continue;
    Branch& branch = forest.branches[numbers[i]];
    branch = {branch.mode,
              !missing.empty() && missing[i] != 0,
              values[i],
              features[i],
              target(index.Find(trees[i], yes[i], position)),
              target(index.Find(trees[i], no[i], position))};
  }
  forest.votes.reserve(weights.size());
  int64_t position = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    position = index.Find(vote_trees[i], vote_nodes[i], position);
    const Target node = target(position);
    if (node.is_leaf) forest.votes.push_back({node.index, vote_targets[i], weights[i]});
  }
  for (const char* list : {"treeids", "nodeids", "featureids", "truenodeids", "falsenodeids",
                           "missing_value_tracks_true"}) {
    op.attributes.Erase(std::string("nodes_") + list);
  }
  for (const char* list : {"_treeids", "_nodeids", "_ids"}) op.attributes.Erase(votes + list);
  return forest;
}

}  // namespace

Outputs LowerTreeEnsembleRegressor(Lowering& op) {
  constexpr std::string_view kAggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  Forest forest = ReadForest(op, "target");
  const std::string aggregate = op.String("aggregate_function", "SUM");
  const auto* found = std::find(std::begin(kAggregates), std::end(kAggregates), aggregate);
  if (found == std::end(kAggregates)) op.Fail("aggregate_function '{}' is unknown", aggregate);
  forest.aggregate = found - std::begin(kAggregates);
  forest.targets = op.Int("n_targets", 1);
  forest.base = Numbers(op, "base_values");
  return PostTransform(op, Score(op, forest, DType::kFloat32));
}

namespace {

Val Column(Lowering& op, Val like, double value) {
  return Expand(op.builder().Scalar(DType::kFloat32, value), ShapeOf(like));
}

// All votes of a model of two classes are for one: the other's score follows. As in ONNX Runtime:
// if no vote is negative the scores are probabilities, and base values of both classes make them
// two scores like any others. (There its own score is lost where that class is the second.)
Outputs TwoFromOne(Lowering& op, Forest& forest, const Tensor& labels) {
  const int64_t voted = forest.votes[0].target;
  const bool probabilities = std::none_of(forest.votes.begin(), forest.votes.end(),
                                          [](const Vote& vote) { return vote.weight < 0; });
  for (Vote& vote : forest.votes) vote.target = 0;
  forest.targets = 1;
  const std::vector<double> base = std::exchange(forest.base, {});
  const bool alone = base.size() < 2 && voted == 0;
  if (base.size() == 2 || (alone && !base.empty())) forest.base = {base[voted]};
  const Val score = Score(op, forest, DType::kFloat32);
  const Val wins = Greater(Squeeze(score, {1}), probabilities ? 0.5 : 0.0);
  const Val label = LabelsAt(op, labels, Cast(wins, DType::kInt64));
  if (alone) return {label, TwoClasses(op, score, !probabilities)};
  const Val other = Column(op, score, base.size() == 2 ? base[1 - voted] : 0.0);
  const Val both = voted == 0 ? Concat({score, other}, 1) : Concat({other, score}, 1);
  return {label, PostTransform(op, both)};
}

}  // namespace

Outputs LowerTreeEnsembleClassifier(Lowering& op) {
  const Tensor labels = StringsOrInts(op, "classlabels_strings", "classlabels_int64s");
  Forest forest = ReadForest(op, "class");
  forest.targets = labels.size();
  forest.base = Numbers(op, "base_values");
  for (const Vote& vote : forest.votes) {
    if (vote.target < 0 || vote.target >= labels.size()) {
      op.Fail("class_ids holds {}, outside [0,{}]", vote.target, labels.size() - 1);
    }
  }
  const bool one_voted =
      !forest.votes.empty() &&
      std::all_of(forest.votes.begin(), forest.votes.end(),
                  [&](const Vote& vote) { return vote.target == forest.votes[0].target; });
  if (labels.size() == 2 && one_voted && forest.base.size() <= 2) {
    return TwoFromOne(op, forest, labels);
  }
  if (labels.size() == 1) {
    // One class is there or not: ONNX Runtime's labels.
    const Tensor found = labels.dtype() == DType::kString
                             ? MakeVector(std::vector<std::string>{"0", "1"})
                             : MakeVector(std::vector<int64_t>{0, 1});
    const Val score = Score(op, forest, DType::kFloat32);
    const Val positive = Cast(Greater(Squeeze(score, {1}), 0.0), DType::kInt64);
    return {LabelsAt(op, found, positive), PostTransform(op, score)};
  }
  // A class without a vote has score 0 and cannot win.
  forest.absent_is_nan = forest.base.empty();
  const Val scores = Score(op, forest, DType::kFloat32), absent = IsNaN(scores);
  const auto or_absent = [&](double value) {
    return Where(absent, op.builder().Scalar(DType::kFloat32, value), scores);
  };
  const Val winner = Largest(or_absent(-std::numeric_limits<double>::infinity()));
  return {LabelsAt(op, labels, winner), PostTransform(op, or_absent(0))};
}

}  // namespace sardonyx::ops::ml
