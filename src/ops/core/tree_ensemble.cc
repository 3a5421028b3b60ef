// Sums (or means, least, greatest) of what the trees of an ensemble say of each row.

#include <algorithm>
#include <span>

#include "ops/core/core.h"
#include "ops/core/element_type.h"
#include "ops/core/reference.h"
#include "ops/core/tree_nodes.h"

namespace sardonyx::core {
namespace {

enum Input { kX, kNodes, kTrees, kLeaves, kOffsets, kTargets, kWeights, kSets, kMembers };
constexpr int kLanes = 16;  // walked at once: the loads of one hide those of the others
constexpr int kStride = 4;  // steps between two looks whether all lanes have arrived
constexpr int64_t kTreeBytes = 1 << 18;   // of trees that all rows of a block go through in turn
constexpr int64_t kBlockBytes = 1 << 22;  // of a block of rows

void InferTreeEnsemble(InferContext& context) {
  const DType dtype = ElementType(context.attributes(), "dtype");
  if (context.dtype(kX) != DType::kFloat32 && context.dtype(kX) != DType::kFloat64) {
    context.Fail("features are float or double, not {}", Name(context.dtype(kX)));
  }
  const int64_t targets = context.attributes().Int("targets");
  if (!context.ranked(kX)) return context.Set(0, dtype, Dims{context.symbols().Fresh(), targets});
  if (context.rank(kX) != 2) {
    context.Fail("features are [N,F], not {}", context.Print(context.shape(kX)));
  }
  const Dim features = context.shape(kX)[1];
  const int64_t needed = context.attributes().Int("features");
  if (features.known() && features.value() < needed) {
    context.Fail("the trees ask for feature {}, the input has {}", needed - 1, features.value());
  }
  context.Set(0, dtype, Dims{context.shape(kX)[0], targets});
}

struct Tree {
  int32_t first;  // node
  int32_t depth;  // steps from the root to the farthest leaf
};

// The tables of one node, with types.
struct Tables {
  explicit Tables(const ComputeContext& context)
      : trees(context.input(kTrees).data<Tree>(),
              static_cast<size_t>(context.input(kTrees).size() / 2)),
        nodes(context.input(kNodes).raw()),
        leaves(context.input(kLeaves).data<int32_t>()),
        offsets(context.input(kOffsets).data<int64_t>()),
        targets(context.input(kTargets).data<int32_t>()),
        weights(context.input(kWeights).data<double>()) {
    if (context.has(kSets)) {
      sets = context.input(kSets).data<int64_t>();
      members = context.input(kMembers).data<double>();
    }
  }

  std::span<const Tree> trees;
  const void* nodes;
  const int32_t* leaves;          // number of a node's leaf
  const int64_t* offsets;         // of a leaf's votes
  const int32_t* targets;         // of a vote
  const double* weights;          // of a vote, or by node
  const int64_t* sets = nullptr;  // offsets of the sets' members, which ascend
  const double* members = nullptr;
};

// Plain: features at most thresholds. Missing: some nodes send NaN to child + 1. Any: all flags.
enum class Kind { kPlain, kMissing, kAny };

template <Kind kKind, typename Node, typename T>
bool Passes(const Node& node, T x, const Tables& tables) {
  if constexpr (kKind == Kind::kAny) {
    if (node.missing() && x != x) return true;
    if (node.bits & WideNode::kEqual) return x == node.threshold;
    if (node.bits & WideNode::kMember) {
      const int64_t* set = tables.sets + static_cast<int64_t>(node.threshold);
      return std::binary_search(tables.members + set[0], tables.members + set[1],
                                static_cast<double>(x)) &&
             x == x;
    }
    return x <= node.threshold;
  } else if constexpr (kKind == Kind::kMissing) {
    return (x <= node.threshold) | (node.missing() & (x != x));
  } else {
    return x <= node.threshold;
  }
}

// From the root of lane l's tree down, for lane l's row. One of the two is the same for all lanes.
enum class Lanes { kRows, kTrees };

template <Kind kKind, Lanes kOf, typename Node, typename T>
void Descend(const std::array<const Node*, kLanes>& trees, const std::array<const T*, kLanes>& rows,
             int depth, const Tables& tables, std::array<uint32_t, kLanes>& at) {
  at.fill(0);
  for (int step = 0; step < depth; step += kStride) {
    uint32_t moved = 0;
    for (int i = 0; i < kStride; ++i) {
      for (int lane = 0; lane < kLanes; ++lane) {
        const Node& node = trees[kOf == Lanes::kRows ? 0 : lane][at[lane]];
        const T x = rows[kOf == Lanes::kRows ? lane : 0][node.feature()];
        const uint32_t next = node.next() + static_cast<uint32_t>(Passes<kKind>(node, x, tables));
        if (i == kStride - 1) moved |= next ^ at[lane];
        at[lane] = next;
      }
    }
    if (moved == 0) return;
  }
}

enum class Aggregate { kAverage, kSum, kMin, kMax };  // the numbers of TreeEnsemble

// The scores of a block of rows, as votes come in.
class Scores {
 public:
  Scores(const Tables& tables, int64_t targets, Aggregate aggregate, bool one_vote)
      : tables_(tables), targets_(targets), aggregate_(aggregate), one_vote_(one_vote) {}

  void Reset(int64_t rows) {
    values_.assign(rows * targets_, 0.0);
    seen_.assign(rows * targets_, one_vote_ ? 1 : 0);
  }

  void Vote(int64_t row, int64_t node) {
    if (one_vote_) {
      values_[row] += tables_.weights[node];
      return;
    }
    const int64_t leaf = tables_.leaves[node];
    for (int64_t v = tables_.offsets[leaf]; v < tables_.offsets[leaf + 1]; ++v) {
      const int64_t i = row * targets_ + tables_.targets[v];
      const double weight = tables_.weights[v];
      if (aggregate_ <= Aggregate::kSum) {
        values_[i] += weight;
      } else if (!seen_[i] ||
                 (aggregate_ == Aggregate::kMin ? weight < values_[i] : weight > values_[i])) {
        values_[i] = weight;
      }
      seen_[i] = 1;
    }
  }

  double value(int64_t i) const { return values_[i]; }
  bool seen(int64_t i) const { return seen_[i] != 0; }

 private:
  const Tables& tables_;
  const int64_t targets_;
  const Aggregate aggregate_;
  const bool one_vote_;
  std::vector<double> values_;
  std::vector<uint8_t> seen_;
};

// Few rows: each goes through many trees at once.
template <Kind kKind, typename Node, typename T>
void ScoreRow(const Tables& tables, const T* x, int64_t row, Scores& scores) {
  const auto* nodes = static_cast<const Node*>(tables.nodes);
  const auto trees = static_cast<int64_t>(tables.trees.size());
  std::array<const Node*, kLanes> at_tree;
  std::array<const T*, kLanes> at_row{x};
  std::array<uint32_t, kLanes> at;
  for (int64_t first = 0; first < trees; first += kLanes) {
    const int64_t count = std::min<int64_t>(kLanes, trees - first);
    int depth = 0;
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const Tree& tree = tables.trees[first + std::min(lane, count - 1)];
      at_tree[lane] = nodes + tree.first;
      depth = std::max(depth, tree.depth);
    }
    Descend<kKind, Lanes::kTrees>(at_tree, at_row, depth, tables, at);
    for (int64_t lane = 0; lane < count; ++lane) {
      scores.Vote(row, tables.trees[first + lane].first + at[lane]);
    }
  }
}

// Many rows: a few trees at a time, which stay in the cache while all rows go through them.
template <Kind kKind, typename Node, typename T>
void ScoreBlock(const Tables& tables, const T* x, int64_t rows, int64_t features, Scores& scores) {
  if (rows < kLanes) {
    for (int64_t row = 0; row < rows; ++row) {
      ScoreRow<kKind, Node>(tables, x + row * features, row, scores);
    }
    return;
  }
  const auto* nodes = static_cast<const Node*>(tables.nodes);
  std::array<const Node*, kLanes> at_tree;
  std::array<const T*, kLanes> at_row;
  std::array<uint32_t, kLanes> at;
  for (size_t first = 0, last = 0; first < tables.trees.size(); first = last) {
    const auto limit = tables.trees[first].first + kTreeBytes / static_cast<int64_t>(sizeof(Node));
    do {
      ++last;
    } while (last < tables.trees.size() && tables.trees[last].first < limit);
    for (int64_t row = 0; row < rows; row += kLanes) {
      const int64_t count = std::min<int64_t>(kLanes, rows - row);
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        at_row[lane] = x + (row + std::min(lane, count - 1)) * features;
      }
      for (const Tree& tree : tables.trees.subspan(first, last - first)) {
        at_tree[0] = nodes + tree.first;
        Descend<kKind, Lanes::kRows>(at_tree, at_row, tree.depth, tables, at);
        for (int64_t lane = 0; lane < count; ++lane) {
          scores.Vote(row + lane, tree.first + at[lane]);
        }
      }
    }
  }
}

template <typename T>
using BlockFunction = void (*)(const Tables&, const T*, int64_t, int64_t, Scores&);

template <typename T>
BlockFunction<T> ChooseFunction(bool narrow, bool missing, bool any) {
  if (any) return &ScoreBlock<Kind::kAny, WideNode, T>;
  if constexpr (std::is_same_v<T, float>) {
    if (narrow) {
      return missing ? &ScoreBlock<Kind::kMissing, NarrowNode, T>
                     : &ScoreBlock<Kind::kPlain, NarrowNode, T>;
    }
  }
  return missing ? &ScoreBlock<Kind::kMissing, WideNode, T>
                 : &ScoreBlock<Kind::kPlain, WideNode, T>;
}

// Attribute absent_is_nan: a target that no leaf had a vote for is NaN; else it counts as 0.
// Attribute one_vote: there is one target, each leaf has one vote, and weights are by node.
template <typename T, typename Y>
void ScoreAll(ComputeContext& context, Tensor& y) {
  const Attributes& attributes = context.attributes();
  const Tensor& x = context.input(kX);
  const int64_t rows = x.dims()[0], features = x.dims()[1], targets = attributes.Int("targets");
  const auto aggregate = static_cast<Aggregate>(attributes.Int("aggregate"));
  const std::vector<double>& base = attributes.Floats("base");
  const bool absent_is_nan = attributes.Int("absent_is_nan") != 0;
  const Tables tables(context);
  const double divisor =
      aggregate == Aggregate::kAverage ? static_cast<double>(tables.trees.size()) : 1.0;
  const bool narrow = context.input(kNodes).dims()[1] == sizeof(NarrowNode);
  const auto score =
      ChooseFunction<T>(narrow, attributes.Int("missing") != 0, attributes.Int("any") != 0);
  const int64_t row_bytes = features * sizeof(T) + targets * sizeof(double);
  const int64_t block = std::max<int64_t>(kLanes, kBlockBytes / row_bytes / kLanes * kLanes);
  Scores scores(tables, targets, aggregate, attributes.Int("one_vote") != 0);
  for (int64_t row = 0; row < rows; row += block) {
    const int64_t count = std::min(block, rows - row);
    scores.Reset(count);
    score(tables, x.data<T>() + row * features, count, features, scores);
    Y* out = y.data<Y>() + row * targets;
    for (int64_t i = 0; i < count * targets; ++i) {
      const bool absent = absent_is_nan && !scores.seen(i);
      const double value = scores.value(i) / divisor + (base.empty() ? 0.0 : base[i % targets]);
      out[i] = static_cast<Y>(absent ? std::numeric_limits<double>::quiet_NaN() : value);
    }
  }
}

void ComputeTreeEnsemble(ComputeContext& context) {
  Tensor& y = context.Allocate(0);
  const bool wide_in = context.input(kX).dtype() == DType::kFloat64;
  if (y.dtype() == DType::kFloat64) {
    wide_in ? ScoreAll<double, double>(context, y) : ScoreAll<float, double>(context, y);
  } else {
    wide_in ? ScoreAll<double, float>(context, y) : ScoreAll<float, float>(context, y);
  }
}

}  // namespace

const CoreOp tree_ensemble = {.name = "tree_ensemble",
                              .inputs = "tttttttt?t?",
                              .infer = InferTreeEnsemble,
                              .reference = ComputeTreeEnsemble};

}  // namespace sardonyx::core
