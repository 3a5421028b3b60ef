#include "kernels/trees.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/round.h"
#include "kernels/scratch_slots.h"
#include "kernels/slices.h"
#include "kernels/transpose.h"
#include "kernels/tree_masks.h"

namespace sardonyx {
namespace {

constexpr int kLanes = kTreeLanes;        // walks side by side
constexpr int64_t kTreeBytes = 1 << 14;   // of trees that all rows of a block go down in turn
constexpr int64_t kBlockBytes = 1 << 18;  // of a block of rows

// How rows and trees are cut into tasks.
struct Grid {
  int64_t rows = 1, row_blocks = 1;    // of a block
  int64_t trees = 1, tree_groups = 1;  // of a group
  int64_t row_numbers = 0;             // of a copied row
};

template <typename T>
Grid CutWork(const Ensemble<T>& ensemble, int64_t rows) {
  constexpr int64_t kMostGroups = 8;
  Grid grid;
  grid.row_numbers = ensemble.features + 1;
  if (ensemble.missing && ensemble.masks != nullptr) grid.row_numbers += ensemble.features;
  if (!ensemble.categories.empty()) {
    grid.row_numbers = CategoryOffset(ensemble.features) + std::ssize(ensemble.categories);
  }
  const int64_t row_bytes = int64_t{sizeof(T)} * grid.row_numbers + 8 * ensemble.targets;
  grid.rows = std::max<int64_t>(kLanes, kBlockBytes / row_bytes / kLanes * kLanes);
  grid.rows = std::min(grid.rows, RoundUp(rows, kLanes));
  grid.row_blocks = CeilDiv(rows, grid.rows);
  if (grid.row_blocks > 1) {  // threads that share them end together
    const int64_t blocks = RoundUp(grid.row_blocks, 4);
    grid.rows = RoundUp(CeilDiv(rows, blocks), kLanes);
    grid.row_blocks = CeilDiv(rows, grid.rows);
  }
  const auto trees = static_cast<int64_t>(ensemble.trees.size());
  const double us =
      static_cast<double>(std::min(rows, grid.rows) * ensemble.steps) * kStepNs * 1e-3;
  // With many rows each task takes all trees, with few a part of them, that is worth copying the
  // rows for.
  int64_t groups = grid.row_blocks >= kMostGroups ? 1 : TaskCount(us / 4, kMostGroups);
  while (groups > 1 && trees < groups * kLanes) groups /= 2;
  grid.trees = std::max<int64_t>(1, CeilDiv(trees, groups));
  grid.tree_groups = std::max<int64_t>(1, CeilDiv(trees, grid.trees));
  return grid;
}

template <typename T>
int64_t RowBytes(const Grid& grid) {
  return AlignBytes(grid.rows * grid.row_numbers * int64_t{sizeof(T)});
}
int64_t SumBytes(const Grid& grid, int64_t targets) { return AlignBytes(grid.rows * targets * 8); }

// What nodes ask of features: whether they are at most a number, or missing, or in a set.
enum class Asks : uint8_t { kNumbers, kMissing, kCategories };

// From the roots `at` down to leaves: one row in as many trees as there are lanes, or as many rows,
// interleaved (x[feature * kLanes + lane]), in one tree.
template <Asks kAsks, bool kInterleaved, typename T, typename At>
void Descend(const Ensemble<T>& ensemble, int nearest, int depth, const OrderType<T>* x, At* at) {
  const TreeNode<T>* const nodes = ensemble.nodes;
  constexpr bool kMissing = kAsks != Asks::kNumbers;
  const auto step = [&] {
    uint32_t moved = 0;
#pragma GCC unroll 16
    for (int lane = 0; lane < kLanes; ++lane) {
      const TreeNode<T>& node = nodes[at[lane]];
      const OrderType<T> value = x[kInterleaved ? node.feature() * kLanes + lane : node.feature()];
      At next = at[lane] + node.step();
      bool second = value < node.order;
      if constexpr (kAsks == Asks::kCategories) {
        const uint64_t word = std::min<uint64_t>(value / 64, node.words());  // the last is zeros
        const uint64_t bits = ensemble.sets[node.member() ? node.first_word() + word : 0];
        if (node.member()) second = ((bits >> (value % 64)) & 1) != 0;
      }
      if constexpr (kMissing) second |= node.missing() & (value == kNaNOrder<OrderType<T>>);
      if (second) ++next;  // an addition with carry
      moved |= node.step();
      at[lane] = next;
    }
    return moved;
  };
  for (int i = 0; i < nearest; ++i) step();
  for (int i = nearest; i < depth; i += 2) {
    step();
    if (step() == 0) break;
  }
}

// Whether each leaf adds a vote to the one sum of a row.
template <typename T>
bool HasOneSum(const Ensemble<T>& ensemble) {
  return ensemble.votes == Votes::kTree && ensemble.targets == 1 && !ensemble.absent_is_nan;
}

// Sums of one row.
template <typename T>
struct Tally {
  const Ensemble<T>& ensemble;

  void Add(double* sum, double vote) const {
    *sum = ensemble.absent_is_nan && std::isnan(*sum) ? vote : *sum + vote;
  }

  // `held`: what the leaf holds.
  void operator()(const Tree& tree, OrderType<T> held, double* sums) const {
    if (ensemble.votes == Votes::kTree) return Add(sums + tree.target, std::bit_cast<T>(held));
    const auto number = static_cast<int32_t>(held);
    if (ensemble.votes == Votes::kDense) {
      const T* weights = ensemble.weights + number * ensemble.targets;
      for (int64_t t = 0; t < ensemble.targets; ++t) sums[t] += weights[t];
    } else {
      for (int32_t v = ensemble.offsets[number]; v < ensemble.offsets[number + 1]; ++v) {
        Add(sums + ensemble.listed[v], ensemble.weights[v]);
      }
    }
  }
};

template <Asks kAsks, typename T>
void FewRows(const Ensemble<T>& ensemble, std::span<const Tree> trees, const OrderType<T>* x,
             int64_t row_numbers, int64_t rows, double* sums) {
  const Tally<T> tally{ensemble};
  const bool one_sum = HasOneSum(ensemble);
  for (size_t first = 0; first < trees.size(); first += kLanes) {
    const auto group = trees.subspan(first, std::min<size_t>(kLanes, trees.size() - first));
    for (int64_t row = 0; row < rows; ++row) {
      uint32_t at[kLanes];
      for (size_t lane = 0; lane < kLanes; ++lane) {
        at[lane] = static_cast<uint32_t>(group[std::min(lane, group.size() - 1)].first);
      }
      Descend<kAsks, false>(ensemble, ensemble.nearest, ensemble.depth, x + row * row_numbers, at);
      double* row_sums = sums + row * ensemble.targets;
      if (one_sum && group.size() == kLanes) {  // not one addition after the other
        double parts[4] = {};
        for (int lane = 0; lane < kLanes; ++lane) {
          parts[lane % 4] += std::bit_cast<T>(ensemble.nodes[at[lane]].order);
        }
        *row_sums += (parts[0] + parts[1]) + (parts[2] + parts[3]);
        continue;
      }
      for (size_t lane = 0; lane < group.size(); ++lane) {
        tally(group[lane], ensemble.nodes[at[lane]].order, row_sums);
      }
    }
  }
}

// What the leaves hold at which `rows` rows arrive, a multiple of kLanes.
template <Asks kAsks, typename T>
void WalkBlocks(const Ensemble<T>& ensemble, const Tree& tree, const OrderType<T>* x,
                int64_t row_numbers, int64_t rows, OrderType<T>* held) {
  for (int64_t row = 0; row < rows; row += kLanes) {
    OrderType<T>* const at = held + row;
    std::fill(at, at + kLanes, static_cast<uint32_t>(tree.first));
    Descend<kAsks, true>(ensemble, tree.nearest, tree.depth, x + row * row_numbers, at);
    for (int64_t lane = 0; lane < kLanes; ++lane) at[lane] = ensemble.nodes[at[lane]].order;
  }
}

// Some trees at a time, which stay in the cache while all rows, a multiple of kLanes, go down them.
template <Asks kAsks, typename T>
void ManyRows(const Ensemble<T>& ensemble, std::span<const Tree> trees, const OrderType<T>* x,
              int64_t row_numbers, int64_t rows, double* sums) {
  const Tally<T> tally{ensemble};
  constexpr int64_t kTogether = 8 * kLanes;  // rows that look at the masks of a tree
  const bool one_sum = HasOneSum(ensemble);
  for (size_t first = 0, last = 0; first < trees.size(); first = last) {
    const int64_t limit = trees[first].first + kTreeBytes / int64_t{sizeof(TreeNode<T>)};
    do {
      ++last;
    } while (last < trees.size() && trees[last].first < limit);
    const auto group = trees.subspan(first, last - first);
    // Those that walk come back to their features, which stay in the cache beside the trees.
    const bool walks =
        std::any_of(group.begin(), group.end(), [](const Tree& tree) { return tree.words == 0; });
    const int64_t together = walks ? kLanes : kTogether;
    for (int64_t row = 0; row < rows; row += together) {
      const int64_t count = std::min(together, rows - row);
      for (const Tree& tree : group) {
        OrderType<T> held[kTogether];
        if (tree.words > 0) {
          FindLeaves(ensemble.masks + tree.masks, tree.leaves, tree.members, tree.words,
                     x + row * row_numbers, kLanes * row_numbers, count / kLanes, held,
                     one_sum ? sums + row : nullptr);
          if (one_sum) continue;
        } else {
          WalkBlocks<kAsks>(ensemble, tree, x + row * row_numbers, row_numbers, count, held);
        }
        for (int64_t i = 0; i < count; ++i) {
          tally(tree, held[i], sums + (row + i) * ensemble.targets);
        }
      }
    }
  }
}

// A row's numbers, those of several rows side by side in `lanes` lanes: features become their
// orders, NaN stands behind the last, and the categories at the end. `twice`: the features stand
// there once more, where a NaN is least.
template <typename T>
void FinishRow(const Ensemble<T>& ensemble, int64_t lanes, bool twice, OrderType<T>* row) {
  using Order = OrderType<T>;
  const int64_t numbers = ensemble.features * lanes;
  Order* category = row + CategoryOffset(ensemble.features) * lanes;
  for (const int32_t feature : ensemble.categories) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      *category++ =
          CategoryOf(std::bit_cast<T>(row[feature * lanes + lane]), ensemble.category_end);
    }
  }
  OrderNumbers(row, numbers, twice ? row + MissingOffset(ensemble.features) * lanes : nullptr);
  std::fill_n(row + numbers, lanes, kNaNOrder<Order>);
}

template <typename T, typename X>
void CopyRows(const Ensemble<T>& ensemble, const X* x, int64_t stride, int64_t rows,
              int64_t row_numbers, OrderType<T>* to) {
  for (int64_t row = 0; row < rows; ++row, x += stride, to += row_numbers) {
    if constexpr (std::is_same_v<T, X>) {
      std::memcpy(to, x, sizeof(T) * ensemble.features);
    } else {
      for (int64_t f = 0; f < ensemble.features; ++f) to[f] = std::bit_cast<OrderType<T>>(T{x[f]});
    }
    FinishRow(ensemble, 1, false, to);
  }
}

// Rows that go down side by side, interleaved. In the last block some lanes may have no row.
template <typename T, typename X>
void InterleaveRows(const Ensemble<T>& ensemble, const X* x, int64_t stride, int64_t rows,
                    int64_t row_numbers, OrderType<T>* to) {
  const int64_t features = ensemble.features;
  const bool twice = ensemble.missing && ensemble.masks != nullptr;
  for (int64_t row = 0; row < rows; row += kLanes) {
    const int64_t count = std::min<int64_t>(kLanes, rows - row);
    if (count < kLanes) std::fill_n(to, features * kLanes, 0);
    if constexpr (std::is_same_v<T, X>) {
      TransposeMatrix(x, stride, to, kLanes, features, count, sizeof(T));
    } else {
      for (int64_t i = 0; i < count; ++i) {
        for (int64_t f = 0; f < features; ++f) {
          to[f * kLanes + i] = std::bit_cast<OrderType<T>>(T{x[i * stride + f]});
        }
      }
    }
    FinishRow(ensemble, kLanes, twice, to);
    x += kLanes * stride;
    to += kLanes * row_numbers;
  }
}

// Whether so few rows sooner look at masks, as a block, than each goes down all trees.
template <typename T>
bool MakeBlock(const Ensemble<T>& ensemble, int64_t rows) {
  constexpr double kOrder = 0.3;  // steps to which a feature's order comes; in a block twice that
  const auto features = static_cast<double>(ensemble.features);
  const double block = static_cast<double>(ensemble.steps) + 2 * kOrder * features;
  const double own = static_cast<double>(ensemble.walked_steps) + kOrder * features;
  return rows > 1 && ensemble.masks != nullptr && kLanes * block < static_cast<double>(rows) * own;
}

}  // namespace

template <typename T>
int64_t ScoreTreesScratchBytes(const Ensemble<T>& ensemble, int64_t rows, int threads) {
  const Grid grid = CutWork(ensemble, rows);
  return ScratchSlots::CountFor(threads) * RowBytes<T>(grid) +
         grid.row_blocks * grid.tree_groups * SumBytes(grid, ensemble.targets);
}

template <typename T, typename X, typename Y>
void ScoreTrees(const Ensemble<T>& ensemble, const X* x, int64_t stride, int64_t rows,
                double divisor, const double* base, Y* y, void* scratch, const Parallel& par) {
  const Grid grid = CutWork(ensemble, rows);
  const int slots = ScratchSlots::CountFor(par.threads);
  const int64_t row_bytes = RowBytes<T>(grid), targets = ensemble.targets;
  const int64_t sum_count = SumBytes(grid, targets) / 8;
  ScratchSlots copies(scratch, row_bytes, slots);
  auto* all_sums = reinterpret_cast<double*>(static_cast<std::byte*>(scratch) + slots * row_bytes);
  par.For(grid.row_blocks * grid.tree_groups, [&](int64_t task) {
    const int64_t row = task / grid.tree_groups * grid.rows;
    const int64_t count = std::min(grid.rows, rows - row);
    const int64_t tree = task % grid.tree_groups * grid.trees;
    const auto trees =
        ensemble.trees.subspan(tree, std::min<int64_t>(grid.trees, ensemble.trees.size() - tree));
    double* sums = all_sums + task * sum_count;
    std::fill(sums, sums + RoundUp(count, kLanes) * targets,
              ensemble.absent_is_nan ? std::numeric_limits<double>::quiet_NaN() : 0.0);
    const ScratchSlots::Lease copy(copies);
    auto* copied = reinterpret_cast<OrderType<T>*>(copy.floats());
    const int64_t few = MakeBlock(ensemble, count % kLanes) ? 0 : count % kLanes;
    const int64_t many = count - few;
    const X* const first = x + row * stride;
    const auto score = [&]<Asks kAsks>() {
      if (many > 0) {
        InterleaveRows(ensemble, first, stride, many, grid.row_numbers, copied);
        ManyRows<kAsks>(ensemble, trees, copied, grid.row_numbers, RoundUp(many, kLanes), sums);
      }
      if (few > 0) {
        CopyRows(ensemble, first + many * stride, stride, few, grid.row_numbers, copied);
        FewRows<kAsks>(ensemble, trees, copied, grid.row_numbers, few, sums + many * targets);
      }
    };
    if constexpr (TreeNode<T>::kHasSets) {
      if (!ensemble.categories.empty()) return score.template operator()<Asks::kCategories>();
    }
    if (ensemble.missing) return score.template operator()<Asks::kMissing>();
    score.template operator()<Asks::kNumbers>();
  });
  const Tally<T> tally{ensemble};
  for (int64_t block = 0; block < grid.row_blocks; ++block) {
    double* sums = all_sums + block * grid.tree_groups * sum_count;
    const int64_t row = block * grid.rows, count = std::min(grid.rows, rows - row) * targets;
    for (int64_t group = 1; group < grid.tree_groups; ++group) {
      const double* other = sums + group * sum_count;
      for (int64_t i = 0; i < count; ++i) {
        if (!ensemble.absent_is_nan || !std::isnan(other[i])) tally.Add(sums + i, other[i]);
      }
    }
    for (int64_t i = 0; i < count; ++i) {
      const double bias = base != nullptr ? base[i % targets] : 0.0;
      y[row * targets + i] = static_cast<Y>(sums[i] / divisor + bias);
    }
  }
}

template int64_t ScoreTreesScratchBytes(const Ensemble<float>&, int64_t, int);
template int64_t ScoreTreesScratchBytes(const Ensemble<double>&, int64_t, int);
template void ScoreTrees(const Ensemble<float>&, const float*, int64_t, int64_t, double,
                         const double*, float*, void*, const Parallel&);
template void ScoreTrees(const Ensemble<double>&, const float*, int64_t, int64_t, double,
                         const double*, float*, void*, const Parallel&);
template void ScoreTrees(const Ensemble<double>&, const double*, int64_t, int64_t, double,
                         const double*, float*, void*, const Parallel&);
template void ScoreTrees(const Ensemble<double>&, const double*, int64_t, int64_t, double,
                         const double*, double*, void*, const Parallel&);

}  // namespace sardonyx
