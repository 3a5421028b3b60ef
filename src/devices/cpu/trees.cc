#include "kernels/trees.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <optional>

#include "base/round.h"
#include "devices/cpu/families.h"
#include "kernels/tree_masks.h"
#include "ops/core/category_sets.h"
#include "ops/core/tree_nodes.h"

namespace sardonyx::cpu {
namespace {

enum Input { kX, kNodes, kTrees, kLeaves, kOffsets, kTargets, kWeights, kSets, kMembers };

// Nodes that a cache line has.
template <typename T>
constexpr int64_t kLineNodes = 64 / sizeof(TreeNode<T>);

// Of a tree of so many nodes: beside the root one is left out, and the last line is a whole one.
template <typename T>
int64_t PlacesOf(int64_t nodes) {
  return RoundUp(nodes + 1, kLineNodes<T>);
}

// What the kernel reads, one array behind the other: trees, nodes (from a cache line on), weights,
// masks, sets, offsets, listed targets, categories.
template <typename T>
struct Packed {
  Votes votes;
  int32_t trees, nodes, weights, offsets, listed, masks, sets, categories;  // sizes
  int64_t steps;

  const Tree* tree_data() const { return reinterpret_cast<const Tree*>(this + 1); }
  const TreeNode<T>* node_data() const {
    const auto before = static_cast<int64_t>(sizeof(Packed)) + trees * int64_t{sizeof(Tree)};
    return reinterpret_cast<const TreeNode<T>*>(reinterpret_cast<const char*>(this) +
                                                AlignBytes(before));
  }
  const T* weight_data() const { return reinterpret_cast<const T*>(node_data() + nodes); }
  const OrderType<T>* mask_data() const {
    return reinterpret_cast<const OrderType<T>*>(weight_data() + weights);
  }
  const uint64_t* set_data() const {  // no words beside floats
    return reinterpret_cast<const uint64_t*>(mask_data() + masks);
  }
  const int32_t* offset_data() const {
    return reinterpret_cast<const int32_t*>(mask_data() + masks) + 2 * sets;
  }
  const int32_t* listed_data() const { return offset_data() + offsets; }
  const int32_t* category_data() const { return listed_data() + listed; }
};

// What a tree adds to the estimate of its work.
template <typename T>
int64_t StepsOf(const Tree& tree) {
  return tree.words > 0 ? MaskSteps<OrderType<T>>(tree.leaves) : tree.depth;
}

// Numbers that masks of trees of so many nodes together take at most: of two nodes one is a leaf.
template <typename T>
int64_t MostMasks(int64_t nodes) {
  return (nodes / 2 + 1) * (3 + kMostMaskWords<OrderType<T>>);
}

template <typename T>
int64_t PackedBytes(std::span<const Operand> inputs, int64_t set_words) {
  constexpr int64_t kBytes = sizeof(T);
  const int64_t trees = inputs[kTrees].size() / 2;
  return AlignBytes(static_cast<int64_t>(sizeof(Packed<T>)) + trees * int64_t{sizeof(Tree)}) +
         (inputs[kNodes].dims[0] + trees * kLineNodes<T>)*int64_t{sizeof(TreeNode<T>)} +
         (kBytes + 4) * inputs[kWeights].size() + 4 * inputs[kOffsets].size() +
         kBytes * MostMasks<T>(inputs[kNodes].dims[0]) + 8 * set_words +
         (set_words > 0 ? 4 * inputs[kNodes].dims[0] : 0);
}

// Reads the tables of the node, whose constants must all be in memory.
template <typename T>
class Packer {
  using Node = std::conditional_t<sizeof(T) == 4, core::NarrowNode, core::WideNode>;

 public:
  Packer(std::span<const Operand> inputs, const Attributes& attributes)
      : one_vote_(attributes.Int("one_vote") != 0),
        features_(static_cast<uint32_t>(attributes.Int("features"))),
        targets_(attributes.Int("targets")),
        set_words_(attributes.Int("set_words")) {
    for (size_t i = kNodes; i < inputs.size(); ++i) {
      if (inputs[i].size() > 0 && inputs[i].constant->raw() == nullptr) throw ConstantDropped{};
    }
    nodes_ = inputs[kNodes].constant->data<Node>();
    node_count_ = inputs[kNodes].dims[0];
    trees_ = inputs[kTrees].constant->data<int32_t>();
    tree_count_ = inputs[kTrees].size() / 2;
    leaves_ = inputs[kLeaves].constant->data<int32_t>();
    offsets_ = inputs[kOffsets].constant->data<int64_t>();
    leaf_count_ = std::max<int64_t>(0, inputs[kOffsets].size() - 1);
    listed_ = inputs[kTargets].constant->data<int32_t>();
    weights_ = inputs[kWeights].constant->data<double>();
    weight_count_ = inputs[kWeights].size();
    if (inputs.size() > kMembers) {
      set_starts_ = inputs[kSets].constant->data<int64_t>();
      members_ = inputs[kMembers].constant->data<double>();
    }
  }

  void Write(void* to) {
    auto* packed = static_cast<Packed<T>*>(to);
    const Votes votes = Choose();
    const bool by_leaf = votes != Votes::kTree, lists = votes == Votes::kLists;
    int64_t places = 0;
    for (int64_t tree = 0; tree < tree_count_; ++tree) {
      places += PlacesOf(tree);
    }
    *packed = {votes,
               static_cast<int32_t>(tree_count_),
               static_cast<int32_t>(places),
               static_cast<int32_t>(by_leaf ? weight_count_ : 0),
               static_cast<int32_t>(lists ? leaf_count_ + 1 : 0),
               static_cast<int32_t>(lists ? weight_count_ : 0),
               0,
               0,
               0,
               0};
    auto* trees = const_cast<Tree*>(packed->tree_data());
    auto* nodes = const_cast<TreeNode<T>*>(packed->node_data());
    for (int64_t tree = 0, at = 0; tree < tree_count_; ++tree) {
      trees[tree] = WriteTree(tree, votes, nodes + at);
      trees[tree].first = static_cast<int32_t>(at);
      at += PlacesOf(tree);
    }
    if (static_cast<int64_t>(sets_.words().size()) != std::max<int64_t>(0, set_words_)) {
      Fail(ErrorCode::kInvalidModel, "sets of trees do not fit");
    }
    auto* masks = const_cast<OrderType<T>*>(packed->mask_data());
    for (int64_t i = 0; i < tree_count_; ++i) {
      Tree& tree = trees[i];
      if (CanHaveMasks(tree, {nodes + tree.first, static_cast<size_t>(PlacesOf(i))})) {
        tree.words = MaskWordsOf<OrderType<T>>(tree.leaves, tree.depth);
      }
      if (tree.words > 0) {
        tree.masks = packed->masks;
        WriteMasks(nodes + tree.first, tree.leaves, tree.members, tree.words,
                   MissingOffset(features_), sets_.words().data(), masks + tree.masks);
        packed->masks += static_cast<int32_t>(MaskNumbers(tree.leaves, tree.words));
      }
      packed->steps += StepsOf<T>(tree);
    }
    // Behind the masks, now that all are there.
    packed->sets = static_cast<int32_t>(sets_.words().size());
    packed->categories = static_cast<int32_t>(categories_.size());
    std::ranges::copy(sets_.words(), const_cast<uint64_t*>(packed->set_data()));
    std::ranges::copy(categories_, const_cast<int32_t*>(packed->category_data()));
    if (by_leaf) {
      auto* weights = const_cast<T*>(packed->weight_data());
      for (int64_t i = 0; i < weight_count_; ++i) weights[i] = static_cast<T>(weights_[i]);
    }
    if (lists) {
      auto* offsets = const_cast<int32_t*>(packed->offset_data());
      for (int64_t i = 0; i <= leaf_count_; ++i) offsets[i] = static_cast<int32_t>(offsets_[i]);
      std::copy(listed_, listed_ + weight_count_, const_cast<int32_t*>(packed->listed_data()));
    }
  }

 private:
  int64_t First(int64_t tree) const { return tree < tree_count_ ? trees_[2 * tree] : node_count_; }
  int64_t PlacesOf(int64_t tree) const { return cpu::PlacesOf<T>(First(tree + 1) - First(tree)); }
  bool IsLeaf(int64_t first, int64_t node) const {
    return nodes_[node].next() == static_cast<uint32_t>(node - first);
  }

  Votes Choose() const {
    if (one_vote_) return Votes::kTree;
    bool by_tree = true, dense = true;
    for (int64_t leaf = 0; leaf < leaf_count_; ++leaf) {
      by_tree &= offsets_[leaf + 1] - offsets_[leaf] == 1;
      dense &= offsets_[leaf + 1] - offsets_[leaf] == targets_;
    }
    for (int64_t i = 0; dense && i < weight_count_; ++i) dense = listed_[i] == i % targets_;
    for (int64_t tree = 0; by_tree && tree < tree_count_; ++tree) {
      int32_t target = -1;
      for (int64_t node = First(tree); node < First(tree + 1); ++node) {
        if (!IsLeaf(First(tree), node)) continue;
        const int32_t voted = listed_[offsets_[leaves_[node]]];
        by_tree &= target < 0 || voted == target;
        target = voted;
      }
    }
    return by_tree ? Votes::kTree : dense ? Votes::kDense : Votes::kLists;
  }

  // Where the nodes of a tree go, from `first` on. Children stand behind their parents, siblings
  // side by side. A line has a pair of these and of their descendants as many as it takes, nearest
  // first, so a walk finds the next step or two in the line that it has waited for.
  std::vector<int32_t> Places(int64_t first, int64_t count) const {
    const auto children = [&](int32_t node) {
      return IsLeaf(first, first + node) ? 0 : static_cast<int32_t>(nodes_[first + node].next());
    };
    std::vector<int32_t> below(count, 0);  // pairs below a node
    for (int64_t i = count; i-- > 0;) {
      if (const int32_t next = children(static_cast<int32_t>(i)); next != 0) {
        below[i] = 1 + below[next] + below[next + 1];
      }
    }
    std::vector<int32_t> places(count, 0);
    std::deque<int32_t> family, heads;  // pairs that wait: of those in this line, and of others
    int64_t at = 0;
    const auto place = [&](int32_t node) {
      if (at > count) Fail(ErrorCode::kInvalidModel, "nodes of a tree have two parents");
      places[node] = static_cast<int32_t>(at++);
      if (const int32_t next = children(node); next != 0) family.push_back(next);
    };
    place(0);
    ++at;
    while (!family.empty() || !heads.empty()) {
      const int64_t free = (kLineNodes<T> - at % kLineNodes<T>) / 2;
      if (free == kLineNodes<T> / 2) {
        heads.insert(heads.end(), family.begin(), family.end());
        family.clear();
      }
      if (family.empty()) TakeHead(below, free, &heads, &family);
      const int32_t pair = family.front();
      family.pop_front();
      place(pair);
      place(pair + 1);
    }
    return places;
  }

  // The one that waits longest begins a line; the rest of one takes what fits best with all that is
  // below it, of those that wait longest.
  static void TakeHead(const std::vector<int32_t>& below, int64_t free, std::deque<int32_t>* heads,
                       std::deque<int32_t>* family) {
    constexpr size_t kLooks = 16;
    size_t best = 0;
    int64_t most = 0;
    for (size_t i = 0; free < kLineNodes<T> / 2 && i < std::min(heads->size(), kLooks); ++i) {
      const int64_t pairs = 1 + below[(*heads)[i]] + below[(*heads)[i] + 1];
      if (pairs <= free && pairs > most) best = i, most = pairs;
    }
    family->push_back((*heads)[best]);
    heads->erase(heads->begin() + static_cast<int64_t>(best));
  }

  // As a node of the kernel that asks for a category, if this one does.
  std::optional<TreeNode<T>> MemberOf(const Node& node, uint32_t step) {
    if constexpr (TreeNode<T>::kHasSets) {
      std::span<const double> set;
      if ((node.bits & Node::kEqual) != 0) {
        set = {&node.threshold, 1};
      } else if ((node.bits & Node::kMember) != 0) {
        const int64_t* const start = set_starts_ + static_cast<int64_t>(node.threshold);
        set = {members_ + start[0], members_ + start[1]};
      } else {
        return {};
      }
      const auto place = sets_.Add(set);
      if (!place) Fail(ErrorCode::kInvalidModel, "sets of trees do not fit");
      const auto feature = static_cast<int32_t>(node.feature());
      const auto [category, is_new] =
          category_of_.try_emplace(feature, static_cast<uint32_t>(categories_.size()));
      if (is_new) categories_.push_back(feature);
      const auto number = static_cast<uint64_t>(CategoryOffset(features_) + category->second);
      return TreeNode<T>::Member(place->first, place->words, number, node.missing(), step);
    }
    return {};
  }

  // Masks have sets of one word, and no NaN that is in them.
  bool CanHaveMasks(const Tree& tree, std::span<const TreeNode<T>> nodes) const {
    constexpr uint64_t kBeyond = ~uint64_t{0} << (kMostMaskedCategory + 1);
    return tree.members == 0 || std::ranges::none_of(nodes, [&](const TreeNode<T>& node) {
             return node.member() && (node.missing() || node.words() > 1 ||
                                      (sets_.words()[node.first_word()] & kBeyond) != 0);
           });
  }

  Tree WriteTree(int64_t tree, Votes votes, TreeNode<T>* to) {
    const int64_t first = First(tree), count = First(tree + 1) - first;
    Tree result{0, trees_[2 * tree + 1], trees_[2 * tree + 1], 0};
    const std::vector<int32_t> places = Places(first, count);
    std::fill(to, to + PlacesOf(tree), TreeNode<T>::Leaf(0, features_));
    std::vector<int32_t> level(count, 0);
    for (int64_t i = 0; i < count; ++i) {
      const Node& node = nodes_[first + i];
      if (!IsLeaf(first, first + i)) {
        const auto step = static_cast<uint32_t>(places[node.next()] - places[i]);
        if (const auto member = MemberOf(node, step)) {
          to[places[i]] = *member;
          ++result.members;
        } else {
          to[places[i]] = TreeNode<T>::Branch(node.threshold, node.feature(), node.missing(), step);
        }
        level[node.next()] = level[node.next() + 1] = level[i] + 1;
        continue;
      }
      result.nearest = std::min(result.nearest, level[i]);
      ++result.leaves;
      if (votes != Votes::kTree) {
        to[places[i]] = TreeNode<T>::Leaf(leaves_[first + i], features_);
        continue;
      }
      const int64_t vote = one_vote_ ? first + i : offsets_[leaves_[first + i]];
      if (!one_vote_) result.target = listed_[vote];
      to[places[i]] = TreeNode<T>::Leaf(static_cast<T>(weights_[vote]), features_);
    }
    return result;
  }

  const bool one_vote_;
  const uint32_t features_;
  const int64_t targets_, set_words_;
  const Node* nodes_;
  const int32_t *trees_, *leaves_, *listed_;
  const int64_t* offsets_;
  const double* weights_;
  const int64_t* set_starts_ = nullptr;
  const double* members_ = nullptr;
  int64_t node_count_, tree_count_, leaf_count_, weight_count_;
  core::CategorySets sets_;
  std::vector<int32_t> categories_;  // features
  std::map<int32_t, uint32_t> category_of_;
};

// Of a tree that has any: whether rows find what they look for in them, and at their end one of
// `numbers` leaves, or a vote if that is negative.
template <typename Order>
bool HasSoundMasks(const Tree& tree, std::span<const Order> masks, int64_t row_numbers,
                   int64_t numbers) {
  if (tree.words == 0) return true;
  constexpr int64_t kMostLeaves = 8 * sizeof(Order) * kMostMaskWords<Order>;
  if (tree.leaves < 2 || tree.leaves > kMostLeaves || tree.words < 0 ||
      tree.words > kMostMaskWords<Order> || tree.members < 0 || tree.members >= tree.leaves) {
    return false;
  }
  const int64_t count = MaskNumbers(tree.leaves, tree.words);
  if (tree.masks < 0 || tree.masks + count > std::ssize(masks)) return false;
  const auto own = masks.subspan(static_cast<size_t>(tree.masks), static_cast<size_t>(count));
  const auto held = own.last(static_cast<size_t>(tree.leaves));
  const auto is_leaf = [&](Order number) { return number < static_cast<uint64_t>(numbers); };
  return AreMasksSound(own, tree.leaves, tree.words, row_numbers) &&
         (numbers < 0 || std::all_of(held.begin(), held.end(), is_leaf));
}

// Whether rows find nothing but what is there on their way down: the pack may come from a file.
template <typename T>
bool IsSound(const Packed<T>& packed, std::span<const Operand> inputs,
             const Attributes& attributes) {
  const int64_t features = attributes.Int("features"), targets = attributes.Int("targets");
  const int64_t set_words = std::max<int64_t>(0, attributes.Int("set_words"));
  const bool by_leaf = packed.votes != Votes::kTree, lists = packed.votes == Votes::kLists;
  if (packed.votes > Votes::kLists || packed.votes < Votes::kTree ||
      packed.trees != inputs[kTrees].size() / 2 || packed.nodes < inputs[kNodes].dims[0] ||
      packed.nodes > inputs[kNodes].dims[0] + packed.trees * kLineNodes<T> ||
      packed.weights != (by_leaf ? inputs[kWeights].size() : 0) ||
      packed.offsets != (lists ? inputs[kOffsets].size() : 0) ||
      packed.listed != (lists ? inputs[kWeights].size() : 0) || packed.masks < 0 ||
      packed.masks > MostMasks<T>(inputs[kNodes].dims[0]) || packed.sets != set_words) {
    return false;
  }
  const int64_t category_count = packed.categories;
  if (category_count < 0 || category_count > (set_words > 0 ? inputs[kNodes].dims[0] : 0)) {
    return false;
  }
  const std::span offsets(packed.offset_data(), static_cast<size_t>(packed.offsets));
  const std::span listed(packed.listed_data(), static_cast<size_t>(packed.listed));
  const std::span masks(packed.mask_data(), static_cast<size_t>(packed.masks));
  const std::span sets(packed.set_data(), static_cast<size_t>(packed.sets));
  const std::span categories(packed.category_data(), static_cast<size_t>(packed.categories));
  if (std::ranges::any_of(categories, [&](int32_t f) { return f < 0 || f >= features; })) {
    return false;
  }
  int64_t row_numbers = features + 1 + (attributes.Int("missing") != 0 ? features : 0);
  if (!categories.empty()) row_numbers = CategoryOffset(features) + packed.categories;
  const auto has_set = [&](const TreeNode<T>& node) {
    const uint64_t last = uint64_t{node.first_word()} + node.words();
    return last < sets.size() && sets[last] == 0 && node.feature() < row_numbers &&
           node.feature() >= CategoryOffset(features);
  };
  const auto is_target = [&](int32_t target) { return target >= 0 && target < targets; };
  if (lists && (offsets.empty() || offsets.front() < 0 || offsets.back() > packed.weights ||
                !std::is_sorted(offsets.begin(), offsets.end()) ||
                !std::all_of(listed.begin(), listed.end(), is_target))) {
    return false;
  }
  const int64_t leaves = lists ? packed.offsets - 1 : packed.weights / targets;
  int64_t steps = 0;
  std::vector<int32_t> level;
  for (int32_t t = 0; t < packed.trees; ++t) {
    const Tree& tree = packed.tree_data()[t];
    const int64_t end = t + 1 < packed.trees ? packed.tree_data()[t + 1].first : packed.nodes;
    if (tree.first < 0 || tree.first >= end || end > packed.nodes || tree.nearest < 0 ||
        tree.nearest > tree.depth || tree.depth >= end - tree.first) {
      return false;
    }
    if (!by_leaf && !is_target(tree.target)) return false;
    if (!HasSoundMasks(tree, masks, row_numbers, by_leaf ? leaves : -1)) return false;
    const std::span nodes(packed.node_data() + tree.first, static_cast<size_t>(end - tree.first));
    level.assign(nodes.size(), 0);
    for (uint32_t i = 0; i < nodes.size(); ++i) {
      const uint32_t step = nodes[i].step();
      if (step == 0) {
        const int32_t held = nodes[i].number();
        if (nodes[i].missing() || nodes[i].member() || nodes[i].feature() != features ||
            level[i] > tree.depth || (by_leaf && (held < 0 || held >= leaves))) {
          return false;
        }
      } else if (i + step + 1 >= nodes.size() ||
                 !(nodes[i].member() ? has_set(nodes[i]) : nodes[i].feature() < features)) {
        return false;
      } else {
        level[i + step] = level[i + step + 1] = level[i] + 1;
      }
    }
    steps += StepsOf<T>(tree);
  }
  return steps == packed.steps;
}

// The narrowest type that has all votes, none if one is not finite.
DType VotesOf(const Node& node) { return static_cast<DType>(node.attributes.Int("votes")); }

// Of nodes that have thresholds, and of leaves that have votes, of type T.
template <typename T, typename X, typename Y>
BindResult Bind(const BindRequest& request) {
  const Attributes& attributes = request.node.attributes;
  const Operand& x = request.inputs[kX];
  const int64_t features = attributes.Int("features"), targets = attributes.Int("targets");
  const int64_t aggregate = attributes.Int("aggregate");
  const auto inputs = static_cast<int>(request.inputs.size());
  if (aggregate > 1) return Refuse("aggregates the least or the greatest vote");
  if (x.size() == 0) return Refuse("no elements");
  if (features >= int64_t{1} << TreeNode<T>::kFeatureBits) return Refuse("{} features", features);
  for (int i = kNodes; i < inputs; ++i) {
    if (request.inputs[i].constant == nullptr) return Refuse("tables are computed");
    if (request.inputs[i].size() > std::numeric_limits<int32_t>::max() / 8) {
      return Refuse("the tables are too large");
    }
  }
  // Ensembles of the same nodes may say else at their leaves.
  PackCache::Ids ids;
  for (int i = kNodes; i < inputs; ++i) ids.push_back(request.inputs[i].id);
  const auto pack = request.packs.Get(
      *request.inputs[kNodes].constant, ids,
      fmt::format("trees by lines and masks: {} {} {}", attributes.Int("one_vote"), features,
                  targets),
      PackedBytes<T>(request.inputs, std::max<int64_t>(0, attributes.Int("set_words"))),
      [&](const Tensor&, void* to) { Packer<T>(request.inputs, attributes).Write(to); });
  const auto& packed = *static_cast<const Packed<T>*>(pack.get());
  if (!IsSound(packed, request.inputs, attributes)) {
    Fail(ErrorCode::kInvalidModel, "the packed trees are damaged");
  }
  Ensemble<T> ensemble{
      .trees = {packed.tree_data(), static_cast<size_t>(packed.trees)},
      .nodes = packed.node_data(),
      .votes = packed.votes,
      .missing = attributes.Int("missing") != 0,
      .absent_is_nan = attributes.Int("absent_is_nan") != 0 && packed.votes != Votes::kDense,
      .features = features,
      .targets = targets,
      .nearest = std::numeric_limits<int32_t>::max(),
      .depth = 0,
      .steps = packed.steps,
      .walked_steps = 0,
      .masks = packed.masks > 0 ? packed.mask_data() : nullptr,
      .weights = packed.weight_data(),
      .offsets = packed.offset_data(),
      .listed = packed.listed_data(),
      .sets = packed.set_data(),
      .categories = {packed.category_data(), static_cast<size_t>(packed.categories)},
      .category_end = core::CategorySets::kEnd};
  for (const Tree& tree : ensemble.trees) {
    ensemble.nearest = std::min(ensemble.nearest, tree.nearest);
    ensemble.depth = std::max(ensemble.depth, tree.depth);
    ensemble.walked_steps += tree.depth;
  }
  Bound bound;
  bound.scratch_bytes = ScoreTreesScratchBytes(ensemble, x.dims[0], request.threads);
  for (int i = kNodes; i < inputs; ++i) bound.packed |= 1U << i;
  bound.run = [pack, ensemble, rows = x.dims[0], stride = x.dims[1],
               divisor = aggregate == 0 ? static_cast<double>(packed.trees) : 1.0,
               base = attributes.Floats("base")](const StepArgs& args) {
    ScoreTrees(ensemble, static_cast<const X*>(args.in[kX]), stride, rows, divisor,
               base.empty() ? nullptr : base.data(), static_cast<Y*>(args.out[0]), args.scratch,
               args.parallel);
  };
  return bound;
}

BindResult BindNarrow(const BindRequest& request) {
  const DType x = request.inputs[kX].dtype, y = request.outputs[0].dtype;
  if (request.inputs[kNodes].dims[1] != sizeof(core::NarrowNode)) return Refuse("wide nodes");
  if (VotesOf(request.node) != DType::kFloat32) return Refuse("votes are not finite floats");
  if (x != DType::kFloat32 || y != DType::kFloat32) {
    return Refuse("features are {}, scores {}", Name(x), Name(y));
  }
  return Bind<float, float, float>(request);
}

BindResult BindWide(const BindRequest& request) {
  const DType x = request.inputs[kX].dtype, y = request.outputs[0].dtype;
  if (request.inputs[kNodes].dims[1] != sizeof(core::WideNode)) return Refuse("narrow nodes");
  if (request.node.attributes.Int("set_words") < 0) {
    return Refuse("numbers that are no small categories are asked for");
  }
  if (VotesOf(request.node) == DType::kUndefined) return Refuse("votes are not finite");
  if (y == DType::kFloat64) {
    if (x != DType::kFloat64) return Refuse("features are {}, scores double", Name(x));
    return Bind<double, double, double>(request);
  }
  return x == DType::kFloat64 ? Bind<double, double, float>(request)
                              : Bind<double, float, float>(request);
}

constexpr Implementation kList[] = {{"narrow nodes", BindNarrow}, {"wide nodes", BindWide}};

}  // namespace

std::span<const Implementation> TreeEnsembleList() { return kList; }

}  // namespace sardonyx::cpu
