#include "kernels/trees.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <span>

#include "each_target.h"
#include "kernels/tree_masks.h"

namespace sardonyx {
namespace {

// A random ensemble, whose leaves know their votes as a plain walk reads them.
template <typename T>
struct Forest {
  std::vector<Tree> trees;
  std::vector<TreeNode<T>> nodes;
  std::vector<T> thresholds;
  std::vector<std::vector<std::pair<int32_t, T>>> votes;  // of a node that is a leaf
  std::vector<T> weights;
  std::vector<int32_t> offsets{0}, listed;
  std::vector<OrderType<T>> masks;
  std::vector<uint64_t> sets;
  std::vector<int32_t> categories;
  Ensemble<T> ensemble{};

  // Of the features the first `asked` are asked for as categories, of sets of `set_words` words.
  Forest(int count, int depth, int64_t features, int64_t targets, Votes kind, bool missing,
         uint32_t seed, int32_t asked = 0, uint32_t set_words = 1) {
    std::mt19937 generator(seed);
    const auto unit = [&] { return static_cast<T>(generator() % 2001) / T{1000} - 1; };
    int64_t steps = 0;
    int32_t leaves = 0;
    for (int t = 0; t < count; ++t) {
      Tree tree{static_cast<int32_t>(nodes.size()), depth, 0,
                static_cast<int32_t>(generator() % targets)};
      const size_t first = nodes.size();
      std::vector<int> level{0};
      nodes.emplace_back();
      for (size_t i = 0; i < level.size(); ++i) {
        votes.resize(nodes.size() + 2);
        thresholds.resize(votes.size());
        if (level[i] < depth && (i == 0 || generator() % 5 != 0)) {
          const T threshold = unit();
          const bool takes_nan = missing && generator() % 2 == 0;
          nodes[first + i] =
              TreeNode<T>::Branch(threshold, generator() % features, takes_nan, level.size() - i);
          if constexpr (TreeNode<T>::kHasSets) {
            if (asked > 0 && generator() % 2 == 0) {
              const auto set = static_cast<uint32_t>(sets.size());
              const uint64_t category = generator() % static_cast<uint32_t>(asked);
              nodes[first + i] =
                  TreeNode<T>::Member(set, set_words, CategoryOffset(features) + category,
                                      takes_nan && set_words > 1, level.size() - i);
              for (uint32_t word = 0; word < set_words; ++word) {
                sets.push_back((uint64_t{generator()} << 32 | generator()) >> 1);
              }
              sets.push_back(0);
              ++tree.members;
            }
          }
          thresholds[first + i] = threshold;
          nodes.resize(nodes.size() + 2);
          level.insert(level.end(), 2, level[i] + 1);
          continue;
        }
        auto& own = votes[first + i];
        if (kind == Votes::kTree) {
          const T vote = unit();
          own = {{tree.target, vote}};
          nodes[first + i] = TreeNode<T>::Leaf(vote, features);
        } else {
          nodes[first + i] = TreeNode<T>::Leaf(leaves++, features);
          for (int32_t target = 0; target < targets; ++target) {
            if (kind == Votes::kDense || generator() % 3 == 0) own.emplace_back(target, unit());
          }
          for (const auto& [target, weight] : own) {
            listed.push_back(target);
            weights.push_back(weight);
          }
          offsets.push_back(static_cast<int32_t>(listed.size()));
        }
        ++tree.leaves;
        tree.nearest = std::min(tree.nearest, level[i]);
        tree.depth = std::max(tree.depth, level[i]);
      }
      steps += tree.depth;
      trees.push_back(tree);
    }
    const auto by = [&](auto member) { return std::ranges::minmax(trees, {}, member); };
    ensemble = {trees,
                nodes.data(),
                kind,
                missing,
                false,
                features,
                targets,
                by(&Tree::nearest).min.nearest,
                by(&Tree::depth).max.depth,
                steps,
                steps,
                nullptr,
                weights.data(),
                offsets.data(),
                listed.data(),
                sets.data(),
                {},
                64 * set_words};
    for (int32_t f = 0; f < asked; ++f) categories.push_back(f);
    ensemble.categories = categories;
  }

  // Gives masks to each tree of so few leaves, whether they would be faster or not.
  void AddMasks(int64_t most_leaves) {
    for (Tree& tree : trees) {
      if (tree.leaves < 2 || tree.leaves > most_leaves) continue;
      tree.words = MaskWords<OrderType<T>>(tree.leaves);
      tree.masks = static_cast<int32_t>(masks.size());
      masks.resize(masks.size() + MaskNumbers(tree.leaves, tree.words));
      const int64_t missing = MissingOffset(ensemble.features);
      WriteMasks(nodes.data() + tree.first, tree.leaves, tree.members, tree.words, missing,
                 sets.data(), masks.data() + tree.masks);
      const auto own = std::span<const OrderType<T>>(masks).subspan(tree.masks);
      int64_t numbers = missing + (ensemble.missing ? ensemble.features : 0);
      if (!categories.empty()) numbers = CategoryOffset(ensemble.features) + categories.size();
      EXPECT_TRUE(AreMasksSound(own, tree.leaves, tree.words, numbers));
    }
    ensemble.masks = masks.data();
  }

  bool IsMember(const TreeNode<T>& node, T value) const {
    if (!(value >= 0 && value < 64 * node.words() && value == std::floor(value))) return false;
    const auto category = static_cast<uint32_t>(value);
    return (sets[node.first_word() + category / 64] >> (category % 64) & 1) != 0;
  }

  template <typename X>
  double Score(const X* x, int64_t target, double absent) const {
    double sum = absent;
    for (const Tree& tree : trees) {
      uint32_t at = 0;
      for (int i = 0; i < tree.depth; ++i) {
        const TreeNode<T>& node = nodes[tree.first + at];
        if (node.feature() == ensemble.features) break;
        const int64_t before = node.member() ? CategoryOffset(ensemble.features) : 0;
        const T value = x[node.feature() - before];
        const bool second =
            (node.member() ? IsMember(node, value) : value <= thresholds[tree.first + at]) ||
            (std::isnan(value) && node.missing());
        at += node.step() + (second ? 1 : 0);
      }
      for (const auto& [voted, weight] : votes[tree.first + at]) {
        if (voted == target) sum = std::isnan(sum) ? weight : sum + weight;
      }
    }
    return sum;
  }
};

template <typename X, typename Y, typename T>
void CheckOf(const Forest<T>& forest, int64_t rows, double divisor, bool biased) {
  const Ensemble<T>& ensemble = forest.ensemble;
  const int64_t stride = ensemble.features + 2, targets = ensemble.targets;
  const Floats random = Floats::Random(rows * stride, 5);
  std::vector<X> x(random.get(), random.get() + random.size());
  // What no float is decides too: features a little beyond the thresholds, and short of them.
  for (size_t i = 0; sizeof(X) == 8 && i < x.size(); i += 3) {
    x[i] = forest.thresholds[i % forest.thresholds.size()] + (i % 2 == 0 ? X{0} : X{1e-12});
  }
  for (size_t i = 0; ensemble.missing && i < x.size(); i += 7) {
    x[i] = std::numeric_limits<X>::quiet_NaN();
  }
  for (size_t i = 2; i < x.size(); i += 5) x[i] = X{-0.0};
  // Categories, some beyond all sets or between two.
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t feature = i % static_cast<size_t>(stride);
    if (feature >= ensemble.categories.size() || i % 7 == 0) continue;
    x[i] = static_cast<X>(i * 31 % 150) - 1 + (i % 11 == 0 ? X{0.5} : X{0});
  }
  for (size_t i = 3; i < x.size(); i += 31) x[i] = -std::numeric_limits<X>::infinity();
  std::vector<double> base(targets);
  for (int64_t t = 0; t < targets; ++t) base[t] = static_cast<double>(t) / 4;
  const double absent = ensemble.absent_is_nan ? std::numeric_limits<double>::quiet_NaN() : 0;
  constexpr double kBound = sizeof(Y) == 8 ? 1e-13 : 1e-6;
  std::vector<std::vector<Y>> results;
  for (const Parallel& par : {OneThread(), TwoThreads()}) {
    std::vector<Y> y(rows * targets);
    Floats scratch(ScoreTreesScratchBytes(ensemble, rows, par.threads) / 4);
    ScoreTrees(ensemble, x.data(), stride, rows, divisor, biased ? base.data() : nullptr, y.data(),
               scratch.get(), par);
    ASSERT_TRUE(scratch.Intact());
    for (int64_t i = 0; i < rows * targets; ++i) {
      const double sum = forest.Score(x.data() + i / targets * stride, i % targets, absent);
      const double expected = sum / divisor + (biased ? base[i % targets] : 0);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(y[i]));
      } else {
        ASSERT_NEAR(y[i], expected, kBound * (1 + std::abs(expected)));
      }
    }
    results.push_back(std::move(y));
  }
  ASSERT_EQ(std::memcmp(results[0].data(), results[1].data(), sizeof(Y) * results[0].size()), 0);
}

void Check(const Forest<float>& forest, int64_t rows, double divisor, bool biased) {
  CheckOf<float, float>(forest, rows, divisor, biased);
}
void Check(const Forest<double>& forest, int64_t rows, double divisor, bool biased) {
  CheckOf<double, double>(forest, rows, divisor, biased);
  CheckOf<double, float>(forest, rows, divisor, biased);
  CheckOf<float, float>(forest, rows, divisor, biased);
}

template <typename T>
class Trees : public testing::Test {};
using Numbers = testing::Types<float, double>;
TYPED_TEST_SUITE(Trees, Numbers);

TYPED_TEST(Trees, EveryKindOfVote) {
  for (Votes votes : {Votes::kTree, Votes::kDense, Votes::kLists}) {
    for (bool missing : {false, true}) {
      for (int64_t targets : {1, 3}) {
        Forest<TypeParam> forest(13, 6, 5, targets, votes, missing, 3);
        for (int64_t rows : {1, 3, 8, 21}) Check(forest, rows, 1, rows == 3);
        forest.ensemble.absent_is_nan = votes != Votes::kDense;
        Check(forest, 9, 13, false);
      }
    }
  }
}

// In place of walks: bits of one word, of two and of four, among trees of which some walk. Few rows
// make a block that is not full, or walk.
TYPED_TEST(Trees, Masks) {
  for (Votes votes : {Votes::kTree, Votes::kDense, Votes::kLists}) {
    for (bool missing : {false, true}) {
      for (int64_t targets : {1, 3}) {
        for (int depth : {1, 4, 6, 8}) {
          Forest<TypeParam> forest(9, depth, 5, targets, votes, missing, 7 + depth);
          forest.AddMasks(depth == 8 ? 100 : 128);
          ForEachTarget([&] {
            for (int64_t rows : {16, 21, 64, 300}) Check(forest, rows, 1, rows == 21);
            Forest<TypeParam> absent = forest;
            absent.ensemble.trees = absent.trees;
            absent.ensemble.absent_is_nan = votes != Votes::kDense;
            for (int64_t rows : {1, 2, 5, 33, 44}) Check(absent, rows, 13, false);
            absent.ensemble.steps = 1;  // as if masks took no time
            for (int64_t rows : {15, 18}) Check(absent, rows, 13, true);
          });
        }
      }
    }
  }
}

// Nodes that ask for categories, by masks and, where sets are larger, by walks.
TEST(TreesOfCategories, AsWalks) {
  for (Votes votes : {Votes::kTree, Votes::kLists}) {
    for (bool missing : {false, true}) {
      for (uint32_t set_words : {1, 2}) {
        for (int depth : {3, 5}) {
          Forest<double> forest(9, depth, 5, 2, votes, missing, 70 + depth, 3, set_words);
          for (int64_t rows : {1, 7, 37}) Check(forest, rows, 1, rows == 7);
          if (set_words == 1) forest.AddMasks(128);
          ForEachTarget([&] {
            for (int64_t rows : {2, 16, 21, 300}) Check(forest, rows, 1, rows == 21);
          });
        }
      }
    }
  }
}

TYPED_TEST(Trees, MasksThatAreDamaged) {
  Forest<TypeParam> forest(1, 4, 5, 1, Votes::kTree, false, 8);
  forest.AddMasks(32);
  const Tree& tree = forest.trees[0];
  ASSERT_EQ(tree.words, 1);
  using Order = OrderType<TypeParam>;
  const auto is_sound = [&](int64_t leaves, int32_t words) {
    return AreMasksSound<Order>(forest.masks, leaves, words, 6);
  };
  EXPECT_TRUE(is_sound(tree.leaves, 1));
  EXPECT_FALSE(is_sound(tree.leaves + 1, 1));
  EXPECT_FALSE(is_sound(tree.leaves, 2));
  EXPECT_FALSE(is_sound(tree.leaves, 0));
  EXPECT_FALSE(is_sound(1, 1));
  std::swap(forest.masks[1], forest.masks[2]);  // a feature that no row has
  forest.masks[1] = 6;
  EXPECT_FALSE(is_sound(tree.leaves, 1));
  forest.masks[1] = 5;
  forest.masks[2] = Order{1} << (tree.leaves - 1);  // no leaf may be left
  EXPECT_FALSE(is_sound(tree.leaves, 1));
}

TYPED_TEST(Trees, CutIntoTasks) {
  const Forest<TypeParam> many(120, 9, 30, 1, Votes::kTree, false, 4);
  Check(many, 90, 120, true);   // groups of trees
  Check(many, 6000, 1, false);  // blocks of rows
  Check(many, 1, 1, false);
  Check(Forest<TypeParam>(1, 0, 2, 2, Votes::kDense, false, 5), 10, 1, true);  // a leaf alone
}

}  // namespace
}  // namespace sardonyx
