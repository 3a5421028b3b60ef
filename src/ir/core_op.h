#pragma once
// A core operation: the few dozen nodes that a graph is made of. Each has shape inference and a
// reference compute; devices add fast implementations. The table of all is ops/core/all.inc.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace sardonyx {

// What inference may ask of a node's inputs and must say of its outputs. Serves twice: with
// symbolic shapes while the graph is built, and with concrete ones while a plan is made.
class InferContext {
 public:
  InferContext(const Node& node, std::span<const Fact* const> inputs, std::span<Fact> outputs,
               SymbolTable& symbols)
      : node_(node), inputs_(inputs), outputs_(outputs), symbols_(symbols) {}

  const Node& node() const { return node_; }
  const Attributes& attributes() const { return node_.attributes; }
  SymbolTable& symbols() { return symbols_; }

  size_t input_count() const { return inputs_.size(); }
  size_t output_count() const { return outputs_.size(); }
  bool has(size_t i) const { return i < inputs_.size() && inputs_[i] != nullptr; }
  const Fact& input(size_t i) const { return *inputs_[i]; }
  DType dtype(size_t i) const { return inputs_[i]->type.dtype; }
  bool ranked(size_t i) const { return inputs_[i]->ranked(); }
  const Dims& shape(size_t i) const { return *inputs_[i]->shape; }
  int rank(size_t i) const { return inputs_[i]->rank(); }
  // The elements of an integer input of rank <= 1 where at least their number is known; each may
  // still be symbolic. Null otherwise.
  const Dims* elements(size_t i) const;
  // The elements as numbers; false if any is unknown.
  bool Ints(size_t i, std::vector<int64_t>* values) const;
  // The value itself, or null.
  const Tensor* constant(size_t i) const;

  // Tensor output of that type; no shape: rank unknown.
  void Set(size_t output, DType dtype, std::optional<Dims> shape);
  void Set(size_t output, Fact fact) { outputs_[output] = std::move(fact); }
  // Elements of an integer output, for shape computations.
  void SetElements(size_t output, Dims elements) {
    outputs_[output].elements = std::move(elements);
  }

  // Index of an axis in [-rank, rank), made non-negative; throws outside.
  int Axis(int64_t axis, int rank) const;
  // Numpy broadcast of two shapes; throws if two known sizes differ and neither is 1.
  Dims Broadcast(const Dims& a, const Dims& b);
  std::string Print(const Dims& dims) const;

  // Throws kInvalidModel; the caller adds the node's name.
  template <typename... Args>
  [[noreturn]] void Fail(fmt::format_string<Args...> text, Args&&... args) const {
    sardonyx::Fail(ErrorCode::kInvalidModel, text, std::forward<Args>(args)...);
  }

 private:
  const Node& node_;
  std::span<const Fact* const> inputs_;
  std::span<Fact> outputs_;
  SymbolTable& symbols_;
};

// What a reference compute gets: concrete inputs, and outputs to set.
class ComputeContext {
 public:
  // `inferred`: a fact for each output, as the operation's own inference gives it for these inputs.
  ComputeContext(const Node& node, std::span<const Datum> inputs, std::span<const Fact> inferred,
                 std::span<Datum> outputs)
      : node_(node), inputs_(inputs), inferred_(inferred), outputs_(outputs) {}

  const Node& node() const { return node_; }
  const Attributes& attributes() const { return node_.attributes; }
  size_t input_count() const { return inputs_.size(); }
  size_t output_count() const { return outputs_.size(); }
  bool has(size_t i) const { return i < inputs_.size() && inputs_[i].has_value(); }
  const Tensor& input(size_t i) const { return *inputs_[i].tensor(); }
  const Datum& datum(size_t i) const { return inputs_[i]; }
  const Fact& inferred(size_t output) const { return inferred_[output]; }
  // A tensor of the inferred type and dimensions. Operations whose dimensions depend on data
  // compute these themselves and call the other form.
  Tensor& Allocate(size_t output);
  Tensor& Allocate(size_t output, DType dtype, std::vector<int64_t> dims) {
    outputs_[output] = Tensor(dtype, std::move(dims));
    return const_cast<Tensor&>(*outputs_[output].tensor());
  }
  void Set(size_t output, Datum datum) { outputs_[output] = std::move(datum); }

 private:
  const Node& node_;
  std::span<const Datum> inputs_;
  std::span<const Fact> inferred_;
  std::span<Datum> outputs_;
};

inline constexpr size_t kAnyNumber = SIZE_MAX;

struct OutputCount {
  size_t fewest = 1, most = 1;
};

struct CoreOp {
  std::string_view name;  // as in text form: "matmul", "add"
  // A letter an input: t, a tensor; v, a value of any kind. Behind it ?: may be absent; *: any
  // number of them; +: one or more. Nodes that come from a file are held to it (CheckSignature);
  // lowerings and passes keep to it by the way they are written.
  std::string_view inputs;
  OutputCount outputs = {};
  // Sets type and shape of every output. An output whose dimension depends on data gets
  // symbols().Fresh() there; one whose rank does, no shape.
  void (*infer)(InferContext&);
  // Plain, portable, any type and shape the operation allows: the oracle of all devices.
  void (*reference)(ComputeContext&);
  // For elementwise operations: the expression that the node computes; one without inputs where the
  // node has a meaning that expressions lack (a cast that does not saturate). Null for all others.
  Expression (*expression)(const Node&, std::span<const DType> inputs) = nullptr;
  bool is_view = false;  // output 0 is input 0's memory with other dimensions
  bool is_pure = true;   // same inputs give the same outputs: may be folded, merged and dropped
};

// What is known of a value at run time: all of a tensor, the element type of a sequence.
Fact FactOf(const Datum& datum);
// Outputs of one node with the reference compute. Inference runs first, on the concrete inputs: it
// finds what is wrong with them and says how large the outputs are.
std::vector<Datum> RunReference(const Node& node, std::span<const Datum> inputs);
// Infers a node's outputs from input facts (null: absent), with the node's origin in errors.
std::vector<Fact> Infer(const Node& node, std::span<const Fact* const> inputs,
                        SymbolTable& symbols);

}  // namespace sardonyx
