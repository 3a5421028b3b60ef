#pragma once
// Shape rules shared by the operations that own bodies (if_, loop, scan), by the importer that
// makes the bodies, and by the runtime that runs them; and the lowering of deferred nodes.

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ir/core_op.h"
#include "ir/graph.h"

namespace sardonyx::core {

// What stays known of a value that changes from one iteration to the next: type and shape.
Fact Variable(const Fact& fact);

// Facts of a body's outputs for the given facts of its inputs.
std::vector<Fact> InferBody(const Graph& body, std::span<const Fact* const> inputs,
                            SymbolTable& symbols);

// What holds of a value that has either fact: equal dimensions stay, others become fresh symbols;
// different ranks leave none. An optional and its element make the optional: at run time a full one
// is its element. Throws kInvalidModel if the types differ otherwise.
Fact Join(const Fact& a, const Fact& b, SymbolTable& symbols);

// In which type FlexAttention's softmax and the bodies around it compute: attribute
// softmax_precision, else float32 for all but float64. Throws kInvalidModel.
DType FlexPrecision(const Attributes& attributes, DType type);

// Facts of the formal inputs of the body of an ONNX node (If, Loop, Scan; for others what the body
// declares), before anything is known of later iterations.
std::vector<Fact> BodyInputs(std::string_view op_type, std::span<const Fact* const> inputs,
                             std::span<const Fact> declared, const Attributes& attributes,
                             SymbolTable& symbols);

// For each formal input of a Loop's or Scan's body the body output that feeds it in the next
// iteration, or -1. Empty for other operators.
std::vector<int> CarriedFormals(std::string_view op_type, size_t formals, size_t outputs,
                                const Attributes& attributes);

// Joins the formals with what the body hands to the next iteration; true if a formal changed.
bool RelaxCarried(const Graph& body, std::span<const int> carried, std::vector<Fact>* formals);

// Tensors of equal shapes along a new axis (negative: from the end of the result's); of none, an
// empty tensor of the element's type and, where unknown, of dimensions 0. Throws kInvalidModel.
Tensor Stack(const std::vector<Tensor>& parts, const Fact& element, int64_t axis);
// Position `index` along an axis, which goes; shares memory where the slice is one block.
Tensor SliceAt(const Tensor& x, int64_t axis, int64_t index);

// The graph of a deferred node for inputs of which at least the ranks are known, null if more must
// be known. Graph inputs are the node's inputs in order, absent ones left out.
std::shared_ptr<Graph> LowerDeferred(const Node& node, std::span<const Fact* const> inputs,
                                     const std::shared_ptr<SymbolTable>& symbols);

}  // namespace sardonyx::core
