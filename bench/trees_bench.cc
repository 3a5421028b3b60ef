// Steps down trees a second: each is two dependent loads and a comparison.

#include "kernels/trees.h"

#include <random>

#include "kernel_bench.h"

namespace sardonyx {
namespace {

struct Forest {
  std::vector<Tree> trees;
  std::vector<TreeNode> nodes;
  Ensemble ensemble{};

  // Complete trees.
  Forest(int count, int depth, int64_t features) {
    std::mt19937 generator(1);
    std::normal_distribution<float> normal;
    for (int t = 0; t < count; ++t) {
      trees.push_back({static_cast<int32_t>(nodes.size()), depth, depth, 0});
      const uint32_t inner = (1U << depth) - 1;
      for (uint32_t i = 0; i < inner; ++i) {
        nodes.push_back(
            TreeNode::Branch(0.7f * normal(generator), generator() % features, false, i + 1));
      }
      for (uint32_t i = inner; i <= 2 * inner; ++i) {
        nodes.push_back(TreeNode::Leaf(normal(generator), features));
      }
    }
    ensemble = {.trees = trees,
                .nodes = nodes.data(),
                .votes = Votes::kTree,
                .missing = false,
                .absent_is_nan = false,
                .features = features,
                .targets = 1,
                .nearest = depth,
                .depth = depth,
                .steps = int64_t{count} * depth};
  }
};

void Score(benchmark::State& state) {
  constexpr int64_t kFeatures = 30;
  const int64_t rows = state.range(2);
  const Forest forest(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)),
                      kFeatures);
  std::mt19937 generator(2);
  std::normal_distribution<float> normal;
  std::vector<float> x(rows * kFeatures), y(rows);
  for (float& value : x) value = normal(generator);
  std::vector<double> scratch(ScoreTreesScratchBytes(forest.ensemble, rows, 1) / 8 + 16);
  for (auto _ : state) {
    ScoreTrees(forest.ensemble, x.data(), kFeatures, rows, 1.0, nullptr, y.data(), scratch.data(),
               Parallel{});
    benchmark::ClobberMemory();
  }
  state.counters["steps"] = benchmark::Counter(static_cast<double>(forest.ensemble.steps * rows),
                                               benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(Score)
    ->ArgsProduct({{100}, {12}, {1, 100, 20000}})
    ->ArgsProduct({{500}, {6}, {1, 20000}});

}  // namespace
}  // namespace sardonyx
