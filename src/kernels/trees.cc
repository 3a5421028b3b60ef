#include "kernels/trees.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

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
constexpr double kStepUs = 8e-4;          // microseconds

// How rows and trees are cut into tasks.
struct Grid {
  int64_t rows = 1, row_blocks = 1;    // of a block
  int64_t trees = 1, tree_groups = 1;  // of a group
  int64_t row_floats = 0;              // of a copied row
};

Grid CutWork(const Ensemble& ensemble, int64_t rows) {
  constexpr int64_t kMostGroups = 8;
  Grid grid;
  grid.row_floats = ensemble.features + 1;
  if (ensemble.missing && ensemble.masks != nullptr) grid.row_floats += ensemble.features;
  const int64_t row_bytes = 4 * grid.row_floats + 8 * ensemble.targets;
  grid.rows = std::max<int64_t>(kLanes, kBlockBytes / row_bytes / kLanes * kLanes);
  grid.rows = std::min(grid.rows, RoundUp(rows, kLanes));
  grid.row_blocks = CeilDiv(rows, grid.rows);
  if (grid.row_blocks > 1) {  // threads that share them end together
    const int64_t blocks = RoundUp(grid.row_blocks, 4);
    grid.rows = RoundUp(CeilDiv(rows, blocks), kLanes);
    grid.row_blocks = CeilDiv(rows, grid.rows);
  }
  const auto trees = static_cast<int64_t>(ensemble.trees.size());
  const double us = static_cast<double>(std::min(rows, grid.rows) * ensemble.steps) * kStepUs;
  // With many rows each task takes all trees, with few a part of them, that is worth copying the
  // rows for.
  int64_t groups = grid.row_blocks >= kMostGroups ? 1 : TaskCount(us / 4, kMostGroups);
  while (groups > 1 && trees < groups * kLanes) groups /= 2;
  grid.trees = std::max<int64_t>(1, CeilDiv(trees, groups));
  grid.tree_groups = std::max<int64_t>(1, CeilDiv(trees, grid.trees));
  return grid;
}

int64_t RowBytes(const Grid& grid) { return AlignBytes(grid.rows * grid.row_floats * 4); }
int64_t SumBytes(const Grid& grid, int64_t targets) { return AlignBytes(grid.rows * targets * 8); }

// From the roots `at` down to leaves: one row in as many trees as there are lanes, or as many rows,
// interleaved (x[feature * kLanes + lane]), in one tree.
template <bool kMissing, bool kInterleaved>
void Descend(const TreeNode* nodes, int nearest, int depth, const uint32_t* x, uint32_t* at) {
  const auto step = [&] {
    uint32_t moved = 0;
#pragma GCC unroll 16
    for (int lane = 0; lane < kLanes; ++lane) {
      const TreeNode& node = nodes[at[lane]];
      const uint32_t value = x[kInterleaved ? node.feature() * kLanes + lane : node.feature()];
      uint32_t next = at[lane] + node.step();
      bool second = value < node.order;
      if constexpr (kMissing) second |= node.missing() & (value == kNaNOrder);
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
bool HasOneSum(const Ensemble& ensemble) {
  return ensemble.votes == Votes::kTree && ensemble.targets == 1 && !ensemble.absent_is_nan;
}

// Sums of one row.
struct Tally {
  const Ensemble& ensemble;

  void Add(double* sum, double vote) const {
    *sum = ensemble.absent_is_nan && std::isnan(*sum) ? vote : *sum + vote;
  }

  // `number`: what the leaf holds.
  void operator()(const Tree& tree, int32_t number, double* sums) const {
    if (ensemble.votes == Votes::kTree) {
      return Add(sums + tree.target, std::bit_cast<float>(number));
    }
    if (ensemble.votes == Votes::kDense) {
      const float* weights = ensemble.weights + number * ensemble.targets;
      for (int64_t t = 0; t < ensemble.targets; ++t) sums[t] += weights[t];
    } else {
      for (int32_t v = ensemble.offsets[number]; v < ensemble.offsets[number + 1]; ++v) {
        Add(sums + ensemble.listed[v], ensemble.weights[v]);
      }
    }
  }
};

template <bool kMissing>
void FewRows(const Ensemble& ensemble, std::span<const Tree> trees, const uint32_t* x,
             int64_t row_floats, int64_t rows, double* sums) {
  const Tally tally{ensemble};
  const bool one_sum = HasOneSum(ensemble);
  for (size_t first = 0; first < trees.size(); first += kLanes) {
    const auto group = trees.subspan(first, std::min<size_t>(kLanes, trees.size() - first));
    for (int64_t row = 0; row < rows; ++row) {
      uint32_t at[kLanes];
      for (size_t lane = 0; lane < kLanes; ++lane) {
        at[lane] = static_cast<uint32_t>(group[std::min(lane, group.size() - 1)].first);
      }
      Descend<kMissing, false>(ensemble.nodes, ensemble.nearest, ensemble.depth,
                               x + row * row_floats, at);
      double* row_sums = sums + row * ensemble.targets;
      if (one_sum && group.size() == kLanes) {  // not one addition after the other
        double parts[4] = {};
        for (int lane = 0; lane < kLanes; ++lane) {
          parts[lane % 4] += std::bit_cast<float>(ensemble.nodes[at[lane]].number());
        }
        *row_sums += (parts[0] + parts[1]) + (parts[2] + parts[3]);
        continue;
      }
      for (size_t lane = 0; lane < group.size(); ++lane) {
        tally(group[lane], ensemble.nodes[at[lane]].number(), row_sums);
      }
    }
  }
}

// What the leaves hold at which `rows` rows arrive, a multiple of kLanes.
template <bool kMissing>
void WalkBlocks(const Ensemble& ensemble, const Tree& tree, const uint32_t* x, int64_t row_floats,
                int64_t rows, uint32_t* held) {
  for (int64_t row = 0; row < rows; row += kLanes) {
    uint32_t* const at = held + row;
    std::fill(at, at + kLanes, static_cast<uint32_t>(tree.first));
    Descend<kMissing, true>(ensemble.nodes, tree.nearest, tree.depth, x + row * row_floats, at);
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      at[lane] = static_cast<uint32_t>(ensemble.nodes[at[lane]].number());
    }
  }
}

// Some trees at a time, which stay in the cache while all rows, a multiple of kLanes, go down them.
template <bool kMissing>
void ManyRows(const Ensemble& ensemble, std::span<const Tree> trees, const uint32_t* x,
              int64_t row_floats, int64_t rows, double* sums) {
  const Tally tally{ensemble};
  constexpr int64_t kTogether = 8 * kLanes;  // rows that look at the masks of a tree
  const bool one_sum = HasOneSum(ensemble);
  for (size_t first = 0, last = 0; first < trees.size(); first = last) {
    const int64_t limit = trees[first].first + kTreeBytes / int64_t{sizeof(TreeNode)};
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
        uint32_t held[kTogether];
        if (tree.words > 0) {
          FindLeaves(ensemble.masks + tree.masks, tree.leaves, tree.words, x + row * row_floats,
                     kLanes * row_floats, count / kLanes, held, one_sum ? sums + row : nullptr);
          if (one_sum) continue;
        } else {
          WalkBlocks<kMissing>(ensemble, tree, x + row * row_floats, row_floats, count, held);
        }
        for (int64_t i = 0; i < count; ++i) {
          tally(tree, static_cast<int32_t>(held[i]), sums + (row + i) * ensemble.targets);
        }
      }
    }
  }
}

// The order of rows' features, with NaN behind the last.
void CopyRows(const float* x, int64_t stride, int64_t rows, int64_t features, int64_t row_floats,
              uint32_t* to) {
  for (int64_t row = 0; row < rows; ++row, x += stride, to += row_floats) {
    for (int64_t f = 0; f < features; ++f) to[f] = OrderOf(x[f]);
    to[features] = kNaNOrder;
  }
}

// The same of rows that go down side by side, interleaved; behind it, if rows have room for that,
// the features once more, where a NaN is least.
void InterleaveRows(const float* x, int64_t stride, int64_t rows, int64_t features,
                    int64_t row_floats, uint32_t* to) {
  for (int64_t row = 0; row < rows;
       row += kLanes, x += kLanes * stride, to += kLanes * row_floats) {
    TransposeMatrix(x, stride, to, kLanes, features, kLanes);
    const bool has_more = row_floats > features + 1;
    OrderBlock(to, features, has_more ? to + MissingOffset(features) * kLanes : nullptr);
    std::fill_n(to + features * kLanes, kLanes, kNaNOrder);
  }
}

}  // namespace

int64_t ScoreTreesScratchBytes(const Ensemble& ensemble, int64_t rows, int threads) {
  const Grid grid = CutWork(ensemble, rows);
  return ScratchSlots::CountFor(threads) * RowBytes(grid) +
         grid.row_blocks * grid.tree_groups * SumBytes(grid, ensemble.targets);
}

void ScoreTrees(const Ensemble& ensemble, const float* x, int64_t stride, int64_t rows,
                double divisor, const double* base, float* y, void* scratch, const Parallel& par) {
  const Grid grid = CutWork(ensemble, rows);
  const int slots = ScratchSlots::CountFor(par.threads);
  const int64_t row_bytes = RowBytes(grid), targets = ensemble.targets;
  const int64_t sum_count = SumBytes(grid, targets) / 8;
  ScratchSlots copies(scratch, row_bytes, slots);
  auto* all_sums = reinterpret_cast<double*>(static_cast<std::byte*>(scratch) + slots * row_bytes);
  par.For(grid.row_blocks * grid.tree_groups, [&](int64_t task) {
    const int64_t row = task / grid.tree_groups * grid.rows;
    const int64_t count = std::min(grid.rows, rows - row);
    const int64_t tree = task % grid.tree_groups * grid.trees;
    const auto trees =
        ensemble.trees.subspan(tree, std::min<int64_t>(grid.trees, ensemble.trees.size() - tree));
    const ScratchSlots::Lease copy(copies);
    auto* copied = reinterpret_cast<uint32_t*>(copy.floats());
    const int64_t many = count / kLanes * kLanes, few = count - many;
    uint32_t* rest = copied + many * grid.row_floats;
    InterleaveRows(x + row * stride, stride, many, ensemble.features, grid.row_floats, copied);
    CopyRows(x + (row + many) * stride, stride, few, ensemble.features, grid.row_floats, rest);
    double* sums = all_sums + task * sum_count;
    std::fill(sums, sums + count * targets,
              ensemble.absent_is_nan ? std::numeric_limits<double>::quiet_NaN() : 0.0);
    const auto score_many = ensemble.missing ? ManyRows<true> : ManyRows<false>;
    const auto score_few = ensemble.missing ? FewRows<true> : FewRows<false>;
    if (many > 0) score_many(ensemble, trees, copied, grid.row_floats, many, sums);
    if (few > 0) score_few(ensemble, trees, rest, grid.row_floats, few, sums + many * targets);
  });
  const Tally tally{ensemble};
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
      y[row * targets + i] = static_cast<float>(sums[i] / divisor + bias);
    }
  }
}

}  // namespace sardonyx
