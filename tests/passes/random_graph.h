#pragma once
// Small random graphs of the operations that passes rewrite, for comparing two ways to compute
// them.

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "graph_text.h"
#include "ops/vocabulary.h"

namespace sardonyx {

class RandomGraph {
 public:
  // `symbolic`: some sizes of the inputs are names.
  explicit RandomGraph(unsigned seed, bool symbolic = true)
      : random_(seed), graph_(std::make_shared<Graph>()), builder_(*graph_) {
    graph_->name = "random" + std::to_string(seed);
    const int inputs = 1 + Pick(3);
    for (int i = 0; i < inputs; ++i) AddInput("x" + std::to_string(i), symbolic);
    const int steps = 4 + Pick(14);
    for (int i = 0; i < steps; ++i) {
      const size_t before = pool_.size();
      for (int tries = 0; tries < 8 && pool_.size() == before; ++tries) AddStep();
    }
    const int outputs = 1 + Pick(4);
    for (int i = 0; i < outputs; ++i) {
      // The last values, for most of the graph to matter, and any others.
      Val output = i == 0 ? pool_.back() : Any();
      graph_->outputs.push_back(output.value);
    }
    for (size_t i = 0; i < graph_->outputs.size(); ++i) {
      if (graph_->outputs[i]->name.empty()) graph_->outputs[i]->name = "y" + std::to_string(i);
    }
    graph_->SortAndSweep();
  }

  const std::shared_ptr<Graph>& graph() const { return graph_; }

 private:
  int Pick(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  Val Any() { return pool_[static_cast<size_t>(Pick(static_cast<int>(pool_.size())))]; }
  // Rather a young value than an old one.
  Val Recent() {
    const int count = static_cast<int>(pool_.size());
    return pool_[static_cast<size_t>(count - 1 - std::min(Pick(count), Pick(count)))];
  }
  void Add(Val value) {
    if (value.rank() > 5) return;
    int64_t elements = 1;
    for (Dim dim : value.shape()) elements *= dim.known() ? dim.value() : 3;
    if (elements > 600 || elements == 0) return;
    pool_.push_back(value);
  }

  void AddInput(const std::string& name, bool symbolic) {
    Fact fact;
    fact.type = DType::kFloat32;
    fact.shape.emplace();
    const int rank = 1 + Pick(4);
    for (int i = 0; i < rank; ++i) {
      const bool named = symbolic && i == 0 && Pick(2) == 0;
      fact.shape->push_back(named ? graph_->symbols().Named("n") : Dim(kSizes[Pick(4)]));
    }
    pool_.push_back(builder_.Wrap(graph_->AddInput(name, std::move(fact))));
  }

  Val Constant(std::vector<int64_t> dims) {
    Tensor tensor = RandomTensor(DType::kFloat32, std::move(dims), random_);
    if (Pick(8) == 0 && tensor.size() > 0)
      tensor = MakeFilled(DType::kFloat32, tensor.dims(), Pick(2));
    return builder_.Constant(std::move(tensor));
  }

  std::vector<int64_t> Permutation(int rank) {
    std::vector<int64_t> perm(rank);
    std::iota(perm.begin(), perm.end(), 0);
    if (rank == 4 && Pick(3) != 0) {
      return Pick(2) == 0 ? std::vector<int64_t>{0, 3, 1, 2} : std::vector<int64_t>{0, 2, 3, 1};
    }
    std::shuffle(perm.begin(), perm.end(), random_);
    return perm;
  }

  static bool Broadcasts(Val a, Val b) {
    const Dims &x = a.shape(), &y = b.shape();
    for (size_t i = 1; i <= std::min(x.size(), y.size()); ++i) {
      const Dim p = x[x.size() - i], q = y[y.size() - i];
      if (!(p == q) && !(p == 1) && !(q == 1)) return false;
    }
    return true;
  }

  void AddStep() {
    const Val x = Recent();
    const int rank = x.rank();
    const int axis = rank > 0 ? Pick(rank) : 0;
    switch (Pick(23)) {
      case 0:
      case 1: return Add(Unary(x));
      case 2:
      case 3: return AddBinary(x);
      case 4: return Add(Apply(kBinary[Pick(3)], {x, Constant(ConstantDims(x))}));
      case 5:
      case 6:
      case 7: return Add(rank > 1 ? Transpose(x, Permutation(rank)) : Unary(x));
      case 8:
      case 9: return AddConv(x);
      case 10: return AddMatmul(x);
      case 11: return AddReduce(x, axis);
      case 12: return AddConcat(x, axis);
      case 13: return AddReshape(x);
      case 14: return Add(rank == 0 ? Unary(x) : Pick(2) == 0 ? Softmax(x, axis) : Normalised(x));
      case 15: return AddSplit(x, axis);
      case 16: return AddSlice(x, axis);
      case 17: return AddPad(x);
      case 18: return Add(Unsqueeze(x, {Pick(rank + 1)}));
      case 19: return AddConvOfPlanes(x);
      case 20: return AddConvOfResized(x);
      case 21: return AddExperts(x);
      default: return AddSqueeze(x);
    }
  }

  Val Unary(Val x) {
    switch (Pick(7)) {
      case 0: return Relu(x);
      case 1: return Sigmoid(x);
      case 2: return Tanh(x);
      case 3: return Neg(x);
      case 4: return x * Sigmoid(x);
      case 5: return Clip(x, -1, 1);
      default: return Abs(x);
    }
  }

  void AddBinary(Val x) {
    for (int tries = 0; tries < 4; ++tries) {
      const Val z = Any();
      if (!Broadcasts(x, z)) continue;
      return Add(Pick(2) == 0 ? Apply(kBinary[Pick(5)], {x, z}) : Apply(kBinary[Pick(5)], {z, x}));
    }
  }

  // One number, one a channel, or some other shape that broadcasts.
  std::vector<int64_t> ConstantDims(Val x) {
    const int rank = x.rank();
    std::vector<int64_t> dims;
    const int kind = Pick(4);
    if (kind == 0) dims.assign(Pick(rank + 1), 1);
    for (int i = 0; i < rank && kind > 0; ++i) {
      const bool keeps = x.shape()[i].known() && (kind == 1   ? i == rank - 1
                                                  : kind == 2 ? i == 1
                                                              : Pick(2) == 0);
      dims.push_back(keeps ? x.size(i) : 1);
    }
    return dims;
  }

  void AddConv(Val x) {
    if (x.rank() < 3 || x.rank() > 4 || !x.shape().back().known()) return;
    const int64_t in = x.size(-1), out = kSizes[Pick(4)];
    const int spatial = x.rank() - 2;
    std::vector<int64_t> dims = {out, in};
    for (int i = 0; i < spatial; ++i) {
      if (!x.shape()[1 + i].known()) return;
      dims.push_back(std::min<int64_t>(1 + Pick(3), x.size(1 + i)));
    }
    Attributes attributes;
    if (Pick(2) == 0) attributes.Set("pads", std::vector<int64_t>(2 * spatial, 1));
    Val y = Make(core::conv, {x, Constant(dims)}, attributes);
    if (Pick(2) == 0) y = y + Constant({out});
    if (Pick(2) == 0) y = y * Constant({out});
    Add(y);
    if (Pick(2) == 0) Add(ToChannelsFirst(y));
  }

  // Of so many pixels that a graph keeps their mean alone.
  void AddConvOfPlanes(Val x) {
    int64_t channels = 1;
    for (const Dim dim : x.shape()) channels *= dim.known() ? dim.value() : 100;
    if (channels > 12) return;
    const Val one_each = Reshape(x, {1, -1, 1, 1});
    const Val shape = builder_.Ints({1, channels, 22 + Pick(3), 25});
    const Val pixels = ToChannelsLast(Expand(one_each, shape) + Constant({1, 25}));
    const bool depthwise = Pick(2) == 0;
    const int64_t out = depthwise ? channels : kSizes[Pick(4)], kernel = depthwise ? 3 : 1;
    const Val w = Constant({out, depthwise ? 1 : channels, kernel, kernel});
    Attributes attributes;
    if (depthwise) attributes.Set("group", channels);
    if (depthwise && Pick(2) == 0) attributes.Set("pads", std::vector<int64_t>(4, 1));
    Val y = Make(core::conv, {pixels, w}, attributes);
    if (Pick(2) == 0) y = y + Constant({out});
    if (Pick(2) == 0) y = Relu(y);
    Add(Reduce("mean", ToChannelsFirst(y), {2, 3}, false));
  }

  // Of more channels than a graph keeps.
  void AddConvOfResized(Val x) {
    const Val factor = Sigmoid(ReduceAll("sum", x, false));
    const auto resized = [&] {
      const Val small = factor * Constant({1, 2, 2, 66});
      const bool by_sizes = Pick(2) == 0;
      const Val scales = builder_.Constant(MakeVector(std::vector<float>{1, 2, 3, 1}));
      const Attributes attributes = {{"mode", std::string(Pick(2) == 0 ? "linear" : "nearest")}};
      const std::vector<Val> inputs =
          by_sizes ? std::vector<Val>{small, {}, {}, builder_.Ints({1, 4, 6, 66})}
                   : std::vector<Val>{small, {}, scales};
      return Make(core::resize, inputs, attributes);
    };
    std::vector<Val> parts = {resized()};
    if (Pick(2) == 0) parts.push_back(factor * Constant({1, 4, 6, kSizes[Pick(4)]}));
    if (Pick(2) == 0) parts.push_back(resized());
    const Val joined = parts.size() > 1 ? Concat(parts, 3) : parts[0];
    Val y = Make(core::conv, {joined, Constant({3, joined.size(-1), 1, 1})}, {});
    if (Pick(2) == 0) y = y + Constant({3});
    Add(Pick(2) == 0 ? Relu(y) : y);
  }

  // Each row times a matrix that is chosen by numbers which do not fold.
  void AddExperts(Val x) {
    if (x.rank() != 2 || !x.shape()[0].known() || !x.shape()[1].known()) return;
    const int64_t rows = x.size(0), k = x.size(1), n = kSizes[Pick(4)], count = 3;
    Tensor chosen(DType::kInt64, {rows});
    for (int64_t i = 0; i < rows; ++i) chosen.data<int64_t>()[i] = Pick(2 * count) - count;
    const Val huge = builder_.Constant(MakeFilled(DType::kFloat32, {}, 1e30));
    const Val none = Cast(Greater(Reduce("max", x, {1}, false), huge), DType::kInt64);
    const Val experts = builder_.Constant(std::move(chosen)) + none;
    if (Pick(2) == 0) {
      const Val matrices = Gather(Constant({count, n, k}), experts, 0);
      return Add(Squeeze(MatMul(matrices, Unsqueeze(x, {2})), {2}));
    }
    const Val matrices = Gather(Constant({count, k, n}), experts, 0);
    Add(Squeeze(MatMul(Unsqueeze(x, {1}), matrices), {1}));
  }

  void AddMatmul(Val x) {
    if (x.rank() < 2 || !x.shape().back().known()) return;
    for (int tries = 0; tries < 4; ++tries) {
      const Val z = Any();
      if (z.rank() != x.rank() || z.value == x.value) continue;
      bool fits = z.shape().back() == x.shape().back();
      for (int i = 0; i < x.rank() - 2; ++i) fits = fits && z.shape()[i] == x.shape()[i];
      if (fits) return Add(MatMul(x, z, false, true));
    }
    const int64_t out = kSizes[Pick(4)];
    const bool transposed = Pick(2) == 0;
    Val y = MatMul(x, transposed ? Constant({out, x.size(-1)}) : Constant({x.size(-1), out}), false,
                   transposed);
    if (Pick(2) == 0) y = y + Constant({out});
    Add(y);
  }

  void AddReduce(Val x, int axis) {
    if (x.rank() == 0) return;
    static constexpr const char* kKinds[] = {"sum", "mean", "max", "min", "l2"};
    std::vector<int64_t> axes = {axis};
    if (axis + 1 < x.rank() && Pick(2) == 0) axes.push_back(axis + 1);
    Add(Reduce(kKinds[Pick(5)], x, axes, Pick(2) == 0));
  }

  // Rows in the steps of a layer normalisation.
  Val Normalised(Val x) {
    const Val distance = x - Reduce("mean", x, {-1}, true);
    const Val variance = Reduce("mean", distance * distance, {-1}, true);
    const int last = x.rank() - 1;
    const std::vector<int64_t> row = {x.shape()[last].known() ? x.size(last) : 1};
    const Val scaled = distance / Sqrt(variance + 1) * Constant(row);
    return scaled + Constant(row);
  }

  void AddConcat(Val x, int axis) {
    if (x.rank() == 0) return;
    std::vector<Val> parts = {x};
    for (int tries = 0; tries < 6 && parts.size() < 3; ++tries) {
      const Val z = Any();
      if (z.rank() != x.rank()) continue;
      bool fits = true;
      for (int i = 0; i < x.rank(); ++i) fits = fits && (i == axis || z.shape()[i] == x.shape()[i]);
      if (fits) parts.push_back(z);
    }
    Add(Concat(parts, axis));
  }

  void AddReshape(Val x) {
    if (x.rank() < 2) return;
    // Joins two dimensions, or splits one.
    std::vector<int64_t> target;
    const int at = Pick(x.rank() - 1);
    const bool joins = Pick(2) == 0;
    for (int i = 0; i < x.rank(); ++i) {
      const Dim dim = x.shape()[i];
      if (!dim.known() && i != 0) return;
      const int64_t size = dim.known() ? dim.value() : 0;
      if (joins && i == at) {
        if (!dim.known() || !x.shape()[i + 1].known()) return;
        target.push_back(size * x.size(i + 1));
        ++i;
      } else if (!joins && i == at && size > 0 && size % 2 == 0) {
        target.push_back(2);
        target.push_back(size / 2);
      } else {
        target.push_back(size);
      }
    }
    Add(Reshape(x, target));
  }

  void AddSplit(Val x, int axis) {
    if (x.rank() == 0 || !x.shape()[axis].known() || x.size(axis) < 2) return;
    const int64_t first = 1 + Pick(static_cast<int>(x.size(axis)) - 1);
    for (Val part : Split(x, {first, x.size(axis) - first}, axis)) Add(part);
  }

  void AddSlice(Val x, int axis) {
    if (x.rank() == 0 || !x.shape()[axis].known()) return;
    const int64_t size = x.size(axis);
    if (Pick(3) == 0) return Add(Slice(x, {-1}, {-size - 1}, {axis}, {-1}));
    const int64_t begin = Pick(static_cast<int>(size));
    Add(Slice(x, {begin}, {size + Pick(2)}, {axis}, {1 + Pick(2)}));
  }

  void AddPad(Val x) {
    if (x.rank() < 1) return;
    std::vector<int64_t> pads(2 * x.rank(), 0);
    for (int i = 0; i < x.rank(); ++i) {
      const bool border = x.rank() == 4 ? i == 1 || i == 2 : Pick(2) == 0;
      if (!border) continue;
      pads[i] = Pick(2);
      pads[i + x.rank()] = Pick(3) - (pads[i] == 1 ? 1 : 0);
    }
    Add(Make(core::pad, {x, builder_.Ints(pads)}, {}));
  }

  void AddSqueeze(Val x) {
    for (int i = 0; i < x.rank(); ++i) {
      if (x.shape()[i] == 1) return Add(Squeeze(x, {i}));
    }
  }

  Val Make(const CoreOp& op, const std::vector<Val>& inputs, Attributes attributes) {
    return builder_.Make(op, inputs, std::move(attributes));
  }

  static constexpr int64_t kSizes[] = {1, 2, 3, 4};
  static constexpr Fn kBinary[] = {Fn::kAdd, Fn::kMul, Fn::kSub, Fn::kMax, Fn::kMin};

  std::mt19937 random_;
  std::shared_ptr<Graph> graph_;
  Builder builder_;
  std::vector<Val> pool_;
};

}  // namespace sardonyx
