#pragma once
// The graph of core operations that everything between the importer and the plan works on.
//
// A Graph is closed: nodes see only values of their own graph. A body of If, Loop or Scan is a
// Graph of its own whose inputs include what it uses from outside; its node passes these as extra
// inputs, so there is no outer scope after import.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/dim.h"
#include "base/expression.h"
#include "ir/tensor.h"

namespace sardonyx {

class Graph;
struct Node;
struct CoreOp;

// Kind and element type of a value.
struct Type {
  enum class Kind : uint8_t { kTensor, kSequence, kOptional, kMap };
  Kind kind = Kind::kTensor;
  DType dtype = DType::kUndefined;      // element of a tensor, key of a map
  std::shared_ptr<const Type> element;  // of a sequence, optional or map

  Type() = default;
  Type(DType tensor) : dtype(tensor) {}  // NOLINT: an element type is a tensor type
  bool is_tensor() const { return kind == Kind::kTensor; }
  bool operator==(const Type& other) const;
};
std::string Print(const Type& type);
// Inverse of Print; throws kInvalidModel.
Type TypeFromText(std::string_view text);

// What is known of a value before it is computed.
struct Fact {
  Type type;
  std::optional<Dims> shape;     // absent: rank unknown
  Tensor constant;               // defined if the value itself is known
  std::optional<Dims> elements;  // of an int64, int32 or bool tensor of rank <= 1, few

  bool ranked() const { return shape.has_value(); }
  int rank() const { return static_cast<int>(shape->size()); }
  // All dimensions known?
  bool static_shape() const;
  // The value itself known, as a constant or by its elements?
  bool known() const;
  // The known value.
  Tensor ToTensor() const;
  // How much of this is known that tells anything of what is made of the value, in things known: of
  // two facts of one value the one with more tells more.
  int64_t Knowledge() const;
  // The fact of a known tensor: type, shape, constant, and elements where they are few integers.
  static Fact Of(Tensor tensor);
};

// An edge of the graph: made by one node, a graph input or a constant; used by any number.
struct Value {
  std::string name;  // as in the model if it stands there; unique within the graph if not empty
  Fact fact;
  Node* producer = nullptr;  // null for graph inputs and constants
  int index = 0;             // among the producer's outputs
  std::vector<Node*> users;  // one entry a use; a graph output is not a use
  bool is_input = false;

  bool is_constant() const { return producer == nullptr && fact.constant.defined(); }
};

// An attribute value. Ints carry flags, axes and enumerations as well.
using Attribute =
    std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                 std::vector<std::string>, Tensor, std::shared_ptr<Graph>, Expression>;

// Few and short: a sorted vector beats a map.
class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string_view, Attribute>> items);

  const Attribute* Find(std::string_view name) const;
  void Set(std::string_view name, Attribute value);
  void Erase(std::string_view name);

  // The value, or the default if absent; an internal error if it has another type.
  int64_t Int(std::string_view name, int64_t otherwise = 0) const;
  double Float(std::string_view name, double otherwise = 0) const;
  std::string_view String(std::string_view name, std::string_view otherwise = "") const;
  const std::vector<int64_t>& Ints(std::string_view name) const;  // empty if absent
  const std::vector<double>& Floats(std::string_view name) const;
  const std::vector<std::string>& Strings(std::string_view name) const;
  const Tensor& TensorValue(std::string_view name) const;    // undefined if absent
  const Expression* Expr(std::string_view name) const;       // null if absent
  std::shared_ptr<Graph> Body(std::string_view name) const;  // null if absent

  const std::vector<std::pair<std::string, Attribute>>& items() const { return items_; }
  // Equal in all but bodies, which are equal only if they are the same object.
  bool operator==(const Attributes& other) const;

 private:
  std::vector<std::pair<std::string, Attribute>> items_;
};

// The ONNX node that a core node came from; what errors, profiles and explanations name.
struct Origin {
  std::string name;     // node name, or its first output's name where it has none
  std::string op_type;  // with domain prefix unless ai.onnx: "Conv", "com.microsoft.Gelu"
  int version = 0;      // since_version of the operator as the model means it
};
// "node 'name' (Conv-11)".
std::string Print(const Origin& origin);

struct Node {
  const CoreOp* op = nullptr;
  std::vector<Value*> inputs;  // null: an absent optional input
  std::vector<Value*> outputs;
  Attributes attributes;
  std::shared_ptr<const Origin> origin;

  Value* input(size_t i) const { return i < inputs.size() ? inputs[i] : nullptr; }
  Value* output(size_t i = 0) const { return outputs[i]; }
};

class Graph {
 public:
  // Bodies share the symbol table of the graph around them.
  explicit Graph(std::shared_ptr<SymbolTable> symbols = std::make_shared<SymbolTable>());
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  std::string name;
  std::vector<Value*> inputs;
  std::vector<Value*> outputs;

  SymbolTable& symbols() { return *symbols_; }
  const std::shared_ptr<SymbolTable>& shared_symbols() const { return symbols_; }
  // In topological order.
  const std::vector<std::unique_ptr<Node>>& nodes() const { return nodes_; }

  Value* AddInput(std::string name, Fact fact);
  Value* AddConstant(Tensor tensor, std::string name = "");
  // A node with `output_count` fresh outputs whose facts are inferred; not yet part of nodes().
  // Errors of inference name the origin. An output name may be given afterwards.
  std::unique_ptr<Node> MakeNode(const CoreOp& op, std::vector<Value*> inputs,
                                 Attributes attributes, int output_count,
                                 std::shared_ptr<const Origin> origin);
  // Appends a node made by MakeNode; its inputs must come from nodes before it.
  Node* Append(std::unique_ptr<Node> node);

  // Rewriting. Uses of `from` (outputs of the graph as well) become uses of `to`, which takes over
  // the name if it has none.
  void ReplaceUses(Value* from, Value* to);
  void SetInput(Node* node, size_t index, Value* value);
  // Infers again what reads `value`, and so on as long as facts tell more than before: for after
  // its fact came to tell more. Throws where what is now known breaks a rule.
  void Refine(Value* value);
  // Adds new nodes anywhere; SortAndSweep() must follow before nodes() is in order again.
  void Splice(std::vector<std::unique_ptr<Node>> nodes);
  // Restores topological order (stable) and drops nodes and values that no output needs; graph
  // inputs stay. Returns the number of nodes dropped.
  int SortAndSweep();

  bool IsOutput(const Value* value) const;
  // A value by its name, null if none.
  Value* Find(std::string_view name) const;

 private:
  Value* NewValue();

  std::shared_ptr<SymbolTable> symbols_;
  std::vector<std::unique_ptr<Value>> values_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

// Throws kInternal if a graph breaks an invariant: order, producer links, user lists, duplicate
// names, an undefined core operation. The pass driver calls it after each pass.
void Verify(const Graph& graph);

}  // namespace sardonyx
