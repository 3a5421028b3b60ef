#include "ops/ml/forest.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "ops/core/category_sets.h"
#include "ops/core/tree_nodes.h"

namespace sardonyx::ops::ml {
namespace {

using core::NarrowNode;
using core::WideNode;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kMostCopies = 64;  // of nodes that several share, on average

// The ensemble as tables; first in the wide form.
class Compiler {
 public:
  Compiler(Lowering& op, const Forest& forest, bool float_features)
      : sets(forest.members), op_(op), forest_(forest), float_features_(float_features) {}

  void Run() {
    states_.assign(forest_.branches.size(), State::kNew);
    for (const Target& root : forest_.roots) CheckBelow(root);
    nodes_.reserve(forest_.branches.size() + forest_.leaf_count);
    leaves.reserve(nodes_.capacity());
    for (const Target& root : forest_.roots) AddTree(root);
  }

  bool FitsNarrow() const {
    return !any && fits_narrow_ && features <= (1U << NarrowNode::kFeatureBits);
  }
  Tensor WideNodes() const { return Table<WideNode>(nodes_); }
  Tensor NarrowNodes() const {
    std::vector<NarrowNode> narrow;
    narrow.reserve(nodes_.size());
    for (const WideNode& node : nodes_) {
      narrow.push_back({static_cast<float>(node.threshold),
                        node.feature() | uint32_t{node.missing()} << NarrowNode::kFeatureBits |
                            node.child << (NarrowNode::kFeatureBits + 1)});
    }
    return Table<NarrowNode>(narrow);
  }

  std::vector<int32_t> trees;             // first node and depth of each
  std::vector<int32_t> leaves;            // of each node, its leaf or -1
  std::vector<std::vector<double>> sets;  // of nodes that ask for members
  int64_t features = 0;                   // at least these must be there
  bool missing = false, any = false;

  // Words of the CategorySets that nodes ask for, -1 if one is no such set.
  int64_t SetWords() const {
    return are_categories_ ? static_cast<int64_t>(categories_.words().size()) : -1;
  }

 private:
  template <typename Node>
  static Tensor Table(const std::vector<Node>& nodes) {
    Tensor table(DType::kUInt8, {static_cast<int64_t>(nodes.size()), sizeof(Node)});
    std::copy(nodes.begin(), nodes.end(), table.data<Node>());
    return table;
  }

  // Breadth first, so that the nodes near the root, which every row meets, lie together.
  void AddTree(const Target& root) {
    const size_t first = nodes_.size();
    int32_t depth = 0;
    std::vector<Target> level{root}, below;
    Place(root);
    for (size_t at = first; !level.empty(); ++depth) {
      below.clear();
      for (const Target& target : level) {
        const size_t node = at++;
        const auto child = static_cast<uint32_t>(nodes_.size() - first);
        if (target.is_leaf) {
          nodes_[node] = {kNaN, 0, static_cast<uint32_t>(node - first)};
          leaves[node] = static_cast<int32_t>(target.index);
          continue;
        }
        const Branch branch = Joined(forest_.branches[target.index]);
        const bool reversed =
            branch.mode == Mode::kGte || branch.mode == Mode::kGt || branch.mode == Mode::kNeq;
        nodes_[node] = Compare(branch, reversed);
        nodes_[node].child = child;
        for (const Target& next :
             {reversed ? branch.yes : branch.no, reversed ? branch.no : branch.yes}) {
          Place(next);
          below.push_back(next);
        }
      }
      std::swap(level, below);
    }
    trees.push_back(static_cast<int32_t>(first));
    trees.push_back(depth - 1);
    fits_narrow_ = fits_narrow_ && nodes_.size() - first <= (1U << NarrowNode::kChildBits);
  }

  void Place(const Target& target) {
    if (nodes_.size() >= std::numeric_limits<int32_t>::max()) op_.Fail("the trees are too large");
    if (nodes_.size() >= most_) {
      op_.Fail("nodes are shared so often that trees have over {}", most_);
    }
    if (target.is_leaf && (target.index < 0 || target.index >= forest_.leaf_count)) {
      op_.Fail("leaf {} is outside [0,{}]", target.index, forest_.leaf_count - 1);
    }
    nodes_.emplace_back();
    leaves.push_back(-1);
  }

  // That nodes below are there, and none is below itself. Several may share a node: converters
  // write a test for categories so. It is copied.
  void CheckBelow(const Target& root) {
    std::vector<int64_t> path;
    const auto enter = [&](const Target& target) {
      const auto count = static_cast<int64_t>(forest_.branches.size());
      if (target.is_leaf) return;
      if (target.index < 0 || target.index >= count) {
        op_.Fail("node {} is outside [0,{}]", target.index, count - 1);
      }
      if (states_[target.index] == State::kAbove) {
        op_.Fail("node {} is below itself: it is in no tree", target.index);
      }
      if (states_[target.index] == State::kNew) path.push_back(target.index);
    };
    enter(root);
    while (!path.empty()) {
      const int64_t at = path.back();
      if (states_[at] != State::kNew) {  // what is below it was seen
        states_[at] = State::kDone;
        path.pop_back();
        continue;
      }
      states_[at] = State::kAbove;
      enter(forest_.branches[at].yes);
      enter(forest_.branches[at].no);
    }
  }

  // Of "is it 1?" and, if not, "is it 5?", with the same behind both answers "yes", as converters
  // write a test for one of several categories: that test. Trees may share such chains, whose sets
  // together have as many members as trees have nodes.
  Branch Joined(Branch branch) {
    const auto asks_for_categories = [](const Branch& of) {
      return of.mode == Mode::kEq || of.mode == Mode::kMember;
    };
    std::vector<double> set;
    const auto take = [&](const Branch& from) {
      if (from.mode == Mode::kEq) return set.push_back(from.threshold);
      const std::vector<double>& members = sets[static_cast<size_t>(from.threshold)];
      set.insert(set.end(), members.begin(), members.end());
    };
    bool has_joined = false;
    while (asks_for_categories(branch) && !branch.no.is_leaf && joined_ + set.size() < most_) {
      const Branch& next = forest_.branches[branch.no.index];
      if (!asks_for_categories(next) || next.feature != branch.feature ||
          next.yes.index != branch.yes.index || next.yes.is_leaf != branch.yes.is_leaf) {
        break;
      }
      if (!has_joined) take(branch);
      has_joined = true;
      take(next);
      branch.missing_is_true = branch.missing_is_true || next.missing_is_true;
      branch.no = next.no;
    }
    if (!has_joined) return branch;
    joined_ += set.size();
    std::erase_if(set, [](double member) { return std::isnan(member); });  // in no set
    branch.mode = Mode::kMember;
    branch.threshold = static_cast<double>(sets.size());
    sets.push_back(std::move(set));
    return branch;
  }

  void AddCategories(std::span<const double> set) {
    are_categories_ = are_categories_ && categories_.Add(set).has_value();
  }

  // The comparison for going to the second child. With `reversed` that is the one for "no".
  WideNode Compare(const Branch& branch, bool reversed) {
    if (branch.feature < 0 || branch.feature >= 1 << WideNode::kFeatureBits) {
      op_.Fail("feature {} is outside [0,{}]", branch.feature, (1 << WideNode::kFeatureBits) - 1);
    }
    features = std::max(features, branch.feature + 1);
    WideNode node{branch.threshold, static_cast<uint32_t>(branch.feature), 0};
    const double t = branch.threshold;
    switch (branch.mode) {
      case Mode::kLeq: break;
      case Mode::kLt: node.threshold = Below(t); break;
      // What is never at least NaN goes to "no".
      case Mode::kGte: node.threshold = std::isnan(t) ? kInfinity : Below(t); break;
      case Mode::kGt: node.threshold = std::isnan(t) ? kInfinity : t; break;
      case Mode::kEq:
      case Mode::kNeq:
        node.bits |= WideNode::kEqual;
        AddCategories({&t, 1});
        break;
      case Mode::kMember:
        node.bits |= WideNode::kMember;
        AddCategories(sets[static_cast<size_t>(t)]);
        break;
    }
    any = any || (node.bits & (WideNode::kEqual | WideNode::kMember)) != 0;
    // NaN differs from everything, so that it passes kNeq in any case.
    const bool second = branch.mode != Mode::kNeq && branch.missing_is_true != reversed;
    if (second) node.bits |= WideNode::kMissing;
    missing = missing || second;
    const auto narrow = static_cast<float>(node.threshold);
    fits_narrow_ = fits_narrow_ && (narrow == node.threshold || std::isnan(node.threshold));
    return node;
  }

  // x < t is x <= Below(t) for all features x of the input's type.
  double Below(double t) const {
    if (t == -kInfinity) return kNaN;
    const auto narrow = static_cast<float>(t);
    if (!float_features_ || narrow != t) return std::nextafter(t, -kInfinity);
    return std::nextafter(narrow, -std::numeric_limits<float>::infinity());
  }

  Lowering& op_;
  const Forest& forest_;
  const bool float_features_;
  const size_t most_ = kMostCopies * (forest_.branches.size() + 1024);  // nodes
  size_t joined_ = 0;                                                   // members of sets
  std::vector<WideNode> nodes_;
  enum class State : uint8_t { kNew, kAbove, kDone };
  std::vector<State> states_;
  bool fits_narrow_ = true;
  core::CategorySets categories_;
  bool are_categories_ = true;
};

// The narrowest type that has all votes, none if one is not finite.
DType TypeOfVotes(const std::vector<double>& votes) {
  DType type = DType::kFloat32;
  for (const double vote : votes) {
    if (!std::isfinite(vote)) return DType::kUndefined;
    if (static_cast<float>(vote) != vote) type = DType::kFloat64;
  }
  return type;
}

}  // namespace

Val Score(Lowering& op, const Forest& forest, DType dtype) {
  constexpr int64_t kMaxTargets = 1 << 30;
  if (forest.targets < 1 || forest.targets > kMaxTargets) {
    op.Fail("the number of targets must be from 1 to {}, not {}", kMaxTargets, forest.targets);
  }
  if (!forest.base.empty() && static_cast<int64_t>(forest.base.size()) != forest.targets) {
    op.Fail("{} base values for {} targets", forest.base.size(), forest.targets);
  }
  const bool is_double = op.in(0).dtype() == DType::kFloat64;
  const Val x = Rows(op, is_double ? DType::kFloat64 : DType::kFloat32);
  Compiler compiler(op, forest, !is_double);
  compiler.Run();
  std::vector<int64_t> offsets(forest.leaf_count + 1);
  for (const Vote& vote : forest.votes) ++offsets[vote.leaf + 1];
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  std::vector<int32_t> targets(forest.votes.size());
  std::vector<double> weights(forest.votes.size());
  std::vector<int64_t> next(offsets.begin(), offsets.end() - 1);
  for (const Vote& vote : forest.votes) {
    if (vote.target < 0 || vote.target >= forest.targets) {
      op.Fail("a leaf is of target {}, outside [0,{}]", vote.target, forest.targets - 1);
    }
    const int64_t at = next[vote.leaf]++;
    targets[at] = static_cast<int32_t>(vote.target);
    weights[at] = vote.weight;
  }
  const DType votes = TypeOfVotes(weights);
  // The common case needs no lists of votes.
  bool one_vote = forest.targets == 1 && forest.aggregate <= 1;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) one_vote &= offsets[i + 1] - offsets[i] == 1;
  if (one_vote) {
    std::vector<double> by_node;
    by_node.reserve(compiler.leaves.size());
    for (int32_t leaf : compiler.leaves) by_node.push_back(leaf < 0 ? 0.0 : weights[leaf]);
    weights = std::move(by_node);
    compiler.leaves.clear();
    offsets.clear();
    targets.clear();
  }
  const bool narrow = !is_double && compiler.FitsNarrow();
  std::vector<Tensor> tables{narrow ? compiler.NarrowNodes() : compiler.WideNodes(),
                             MakeVector(compiler.trees),
                             MakeVector(compiler.leaves),
                             MakeVector(offsets),
                             MakeVector(targets),
                             MakeVector(weights)};
  if (!compiler.sets.empty()) {
    std::vector<int64_t> sets{0};
    std::vector<double> members;
    for (std::vector<double> set : compiler.sets) {
      std::sort(set.begin(), set.end());
      members.insert(members.end(), set.begin(), set.end());
      sets.push_back(static_cast<int64_t>(members.size()));
    }
    tables.push_back(MakeVector(sets));
    tables.push_back(MakeVector(members));
  }
  std::vector<Val> inputs{x};
  for (Tensor& table : tables) inputs.push_back(op.builder().Constant(std::move(table)));
  Attributes attributes{
      {"targets", forest.targets},        {"aggregate", forest.aggregate},
      {"features", compiler.features},    {"missing", int64_t{compiler.missing}},
      {"any", int64_t{compiler.any}},     {"absent_is_nan", int64_t{forest.absent_is_nan}},
      {"one_vote", int64_t{one_vote}},    {"votes", static_cast<int64_t>(votes)},
      {"set_words", compiler.SetWords()}, {"dtype", static_cast<int64_t>(dtype)}};
  if (!forest.base.empty()) attributes.Set("base", forest.base);
  return op.builder().Make(core::tree_ensemble, inputs, std::move(attributes));
}

}  // namespace sardonyx::ops::ml
