// Steps down trees a second: each is two dependent loads and a comparison.

#include "kernels/trees.h"

#include <random>

#include "kernel_bench.h"

namespace sardonyx {
namespace {

template <typename T>
struct Forest {
  std::vector<Tree> trees;
  std::vector<TreeNode<T>> nodes;
  Ensemble<T> ensemble{};

  // Complete trees.
  Forest(int count, int depth, int64_t features) {
    std::mt19937 generator(1);
    std::normal_distribution<T> normal;
    for (int t = 0; t < count; ++t) {
      trees.push_back({static_cast<int32_t>(nodes.size()), depth, depth, 0});
      const uint32_t inner = (1U << depth) - 1;
      for (uint32_t i = 0; i < inner; ++i) {
        nodes.push_back(
            TreeNode<T>::Branch(T{0.7} * normal(generator), generator() % features, false, i + 1));
      }
      for (uint32_t i = inner; i <= 2 * inner; ++i) {
        nodes.push_back(TreeNode<T>::Leaf(normal(generator), features));
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
                .steps = int64_t{count} * depth,
                .walked_steps = int64_t{count} * depth};
  }
};

template <typename T>
void Score(benchmark::State& state) {
  constexpr int64_t kFeatures = 30;
  const int64_t rows = state.range(2);
  const Forest<T> forest(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)),
                         kFeatures);
  std::mt19937 generator(2);
  std::normal_distribution<T> normal;
  std::vector<T> x(rows * kFeatures), y(rows);
  for (T& value : x) value = normal(generator);
  std::vector<double> scratch(ScoreTreesScratchBytes(forest.ensemble, rows, 1) / 8 + 16);
  for (auto _ : state) {
    ScoreTrees(forest.ensemble, x.data(), kFeatures, rows, 1.0, nullptr, y.data(), scratch.data(),
               Parallel{});
    benchmark::ClobberMemory();
  }
  state.counters["steps"] = benchmark::Counter(static_cast<double>(forest.ensemble.steps * rows),
                                               benchmark::Counter::kIsIterationInvariantRate);
}
void Forests(benchmark::internal::Benchmark* bench) {
  bench->ArgsProduct({{100}, {12}, {1, 100, 20000}})->ArgsProduct({{500}, {6}, {1, 20000}});
}
BENCHMARK(Score<float>)->Apply(Forests);
BENCHMARK(Score<double>)->Apply(Forests);

}  // namespace
}  // namespace sardonyx
