#pragma once
// Making nodes of a graph in the words of a formula: Val is a handle on a value, and the functions
// of vocabulary.h and the usual operators make nodes of it.

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ir/core_op.h"
#include "ir/graph.h"

namespace sardonyx {

// Thrown by a lowering that needs a rank, a size or a value that is not known yet. The importer
// then keeps the ONNX node whole (core operation `deferred`), and it is lowered when a plan knows.
struct NotYetKnown {};

class Builder;

// A value under construction. Empty for an absent optional input.
struct Val {
  Builder* builder = nullptr;
  Value* value = nullptr;

  explicit operator bool() const { return value != nullptr; }
  const Fact& fact() const { return value->fact; }
  const Type& type() const { return value->fact.type; }
  DType dtype() const { return value->fact.type.dtype; }
  bool ranked() const { return value->fact.ranked(); }
  // These throw NotYetKnown where the graph does not know.
  int rank() const;
  const Dims& shape() const;
  int64_t size(int axis) const;       // a known size; negative axes count from the end
  const Tensor& constant() const;     // the value itself
  std::vector<int64_t> ints() const;  // elements of an integer tensor
  std::vector<double> doubles() const;
  bool is_constant() const { return value->fact.constant.defined(); }
  // Index of an axis in [-rank, rank), non-negative; throws kInvalidModel outside.
  int Axis(int64_t axis) const;
};

// Makes nodes in a graph. Nodes whose inputs are all small constants are computed at once, so that
// shape computations of a model are plain constants to the lowerings after them.
class Builder {
 public:
  // Nodes are appended to the graph, or put into `sink` if given (a pass's patch).
  explicit Builder(Graph& graph, std::vector<std::unique_ptr<Node>>* sink = nullptr)
      : graph_(graph), sink_(sink) {}

  Graph& graph() { return graph_; }
  SymbolTable& symbols() { return graph_.symbols(); }
  // The origin of nodes made from now on.
  void SetOrigin(std::shared_ptr<const Origin> origin) { origin_ = std::move(origin); }
  const std::shared_ptr<const Origin>& origin() const { return origin_; }

  Val Wrap(Value* value) { return {this, value}; }
  Val Make(const CoreOp& op, const std::vector<Val>& inputs, Attributes attributes = {});
  std::vector<Val> MakeMany(const CoreOp& op, const std::vector<Val>& inputs, Attributes attributes,
                            int output_count);
  Val Constant(Tensor tensor);
  // A scalar of that type: float, integer, bool or complex.
  Val Scalar(DType dtype, double value);
  Val Ints(const std::vector<int64_t>& values);  // int64, rank 1

 private:
  Graph& graph_;
  std::vector<std::unique_ptr<Node>>* sink_;
  std::shared_ptr<const Origin> origin_;
};

}  // namespace sardonyx
