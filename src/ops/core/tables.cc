#include "ops/core/tables.h"

#include <algorithm>
#include <span>
#include <vector>

#include "ops/core/category_sets.h"
#include "ops/core/core.h"
#include "ops/core/tree_nodes.h"

namespace sardonyx::core {
namespace {

void Need(bool holds, std::string_view what) {
  if (!holds) Fail(ErrorCode::kInvalidModel, "{}", what);
}

const Tensor& Table(const Node& node, size_t input) {
  const Value* value = node.input(input);
  Need(value != nullptr && value->is_constant() &&
           (value->fact.constant.raw() != nullptr || value->fact.constant.size() == 0),
       "a table is no constant");
  return value->fact.constant;
}

template <typename T>
std::span<const T> Vector(const Node& node, size_t input) {
  const Tensor& table = Table(node, input);
  Need(table.dtype() == kDTypeOf<T> && table.rank() == 1, "a table has another type or rank");
  return {table.data<T>(), static_cast<size_t>(table.size())};
}

// All in [least, end).
template <typename T>
bool Within(std::span<const T> values, int64_t least, int64_t end) {
  return std::all_of(values.begin(), values.end(),
                     [&](T value) { return value >= least && value < end; });
}

bool Ascends(std::span<const int64_t> values, int64_t end) {
  return Within(values, 0, end + 1) && std::is_sorted(values.begin(), values.end());
}

// ---- trees

bool IsPlainLeaf(const NarrowNode& node) {
  return node.threshold != node.threshold && !node.missing();
}
bool IsPlainLeaf(const WideNode& node) {
  constexpr uint32_t kFlags = WideNode::kMissing | WideNode::kEqual | WideNode::kMember;
  return node.threshold != node.threshold && (node.bits & kFlags) == 0;
}

bool IsMember(const NarrowNode&) { return false; }
bool IsMember(const WideNode& node) { return (node.bits & WideNode::kMember) != 0; }

template <typename Node>
void CheckTrees(std::span<const Node> nodes, std::span<const int32_t> trees,
                std::span<const int32_t> leaves, int64_t leaf_count, int64_t features, int64_t sets,
                bool one_vote) {
  const auto count = static_cast<int64_t>(nodes.size());
  std::vector<int32_t> level;
  for (size_t tree = 0; tree < trees.size(); tree += 2) {
    const int64_t first = trees[tree];
    const int64_t end = tree + 2 < trees.size() ? trees[tree + 2] : count;
    Need(first >= 0 && first < end && end <= count, "a tree is not where it should be");
    level.assign(static_cast<size_t>(end - first), 0);
    for (int64_t i = 0; i < end - first; ++i) {
      const Node& node = nodes[static_cast<size_t>(first + i)];
      const int64_t child = node.next();
      Need(node.feature() < features, "a tree asks for a feature that there is not");
      if (child == i) {
        Need(IsPlainLeaf(node), "a leaf of a tree compares");
        Need(one_vote || Within(leaves.subspan(static_cast<size_t>(first + i), 1), 0, leaf_count),
             "a leaf of a tree has no votes");
        Need(level[static_cast<size_t>(i)] <= trees[tree + 1], "a tree is deeper than it says");
        continue;
      }
      Need(child > i && child + 1 < end - first,
           "a child of a tree's node is not where it should be");
      level[static_cast<size_t>(child)] = level[static_cast<size_t>(child) + 1] =
          level[static_cast<size_t>(i)] + 1;
      if (IsMember(node)) {
        Need(node.threshold >= 0 && static_cast<double>(node.threshold) < static_cast<double>(sets),
             "a node of a tree has no set");
      }
    }
  }
}

void CheckEnsemble(const Node& node) {
  enum Input { kX, kNodes, kTrees, kLeaves, kOffsets, kTargets, kWeights, kSets, kMembers };
  const Attributes& attributes = node.attributes;
  const int64_t targets = attributes.Int("targets"), aggregate = attributes.Int("aggregate");
  const bool one_vote = attributes.Int("one_vote") != 0;
  const auto& base = attributes.Floats("base");
  Need(targets >= 1 && (!one_vote || targets == 1), "an ensemble has no targets");
  Need(aggregate >= 0 && aggregate <= 3, "an ensemble aggregates in no known way");
  Need(base.empty() || base.size() == static_cast<size_t>(targets), "base values do not fit");
  const Tensor& nodes = Table(node, kNodes);
  Need(nodes.dtype() == DType::kUInt8 && nodes.rank() == 2, "nodes of trees are bytes");
  const bool any = attributes.Int("any") != 0;
  const bool narrow = nodes.dims()[1] == sizeof(NarrowNode);
  Need(narrow ? !any : nodes.dims()[1] == sizeof(WideNode), "nodes of trees have another size");
  const auto trees = Vector<int32_t>(node, kTrees), leaves = Vector<int32_t>(node, kLeaves),
             voted = Vector<int32_t>(node, kTargets);
  const auto offsets = Vector<int64_t>(node, kOffsets);
  const auto weights = Vector<double>(node, kWeights);
  const auto count = static_cast<size_t>(nodes.dims()[0]);
  Need(trees.size() % 2 == 0 && (one_vote || leaves.size() == count), "tables of trees do not fit");
  if (one_vote) {
    Need(weights.size() == count, "tables of trees do not fit");
  } else {
    Need(voted.size() == weights.size() && Within(voted, 0, targets), "a vote has no target");
    Need(Ascends(offsets, static_cast<int64_t>(weights.size())), "votes do not fit");
  }
  int64_t sets = 0;
  if (node.input(kSets) != nullptr) {
    const auto starts = Vector<int64_t>(node, kSets);
    Need(Ascends(starts, Table(node, kMembers).size()), "sets of trees do not fit");
    Need(Table(node, kMembers).dtype() == DType::kFloat64, "sets of trees do not fit");
    sets = static_cast<int64_t>(starts.size()) - 1;
  }
  constexpr int64_t kMostWords = CategorySets::kEnd / CategorySets::kWordBits + 1;
  Need(attributes.Int("set_words") <= kMostWords * static_cast<int64_t>(count),
       "sets of trees do not fit");
  const int64_t leaf_count = static_cast<int64_t>(offsets.size()) - 1;
  const int64_t features = attributes.Int("features");
  if (narrow) {
    CheckTrees<NarrowNode>({static_cast<const NarrowNode*>(nodes.raw()), count}, trees, leaves,
                           leaf_count, features, sets, one_vote);
  } else {
    CheckTrees<WideNode>({static_cast<const WideNode*>(nodes.raw()), count}, trees, leaves,
                         leaf_count, features, sets, one_vote);
  }
}

// ---- n-grams

void CheckNgrams(const Node& node) {
  enum Input { kX, kPool, kIndexes, kWeights };
  const Attributes& attributes = node.attributes;
  const std::string_view mode = attributes.String("mode");
  const int64_t shortest = attributes.Int("min_gram_length");
  Need(mode == "TF" || mode == "IDF" || mode == "TFIDF", "n-grams count in no known way");
  Need(shortest >= 1 && attributes.Int("max_gram_length") >= shortest &&
           attributes.Int("max_skip_count") >= 0,
       "lengths of n-grams make no sense");
  const Tensor& pool = Table(node, kPool);
  Need(pool.rank() == 1 && (pool.dtype() == DType::kString || pool.dtype() == DType::kInt64),
       "the pool of n-grams holds no tokens");
  std::vector<int64_t> counts = attributes.Ints("ngram_counts");
  Need(Ascends(counts, pool.size()), "the counts of n-grams do not ascend");
  counts.push_back(pool.size());
  int64_t ngrams = 0;
  for (size_t i = 0; i + 1 < counts.size(); ++i) {
    ngrams += (counts[i + 1] - counts[i]) / static_cast<int64_t>(i + 1);
  }
  const auto indexes = Vector<int64_t>(node, kIndexes);
  Need(static_cast<int64_t>(indexes.size()) >= ngrams &&
           Within(indexes, 0, attributes.Int("columns")),
       "an n-gram has no column");
  if (node.input(kWeights) != nullptr) {
    Need(static_cast<int64_t>(Vector<float>(node, kWeights).size()) >= ngrams,
         "an n-gram has no weight");
  }
}

}  // namespace

void CheckTables(const Node& node) {
  if (node.op == &tree_ensemble) CheckEnsemble(node);
  if (node.op == &tf_idf_vectorizer) CheckNgrams(node);
}

}  // namespace sardonyx::core
