#pragma once
// Bodies of ONNX operators: what is known of their inputs as they are imported, and their nodes in
// line for operators that call them once.

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ops/builder.h"

namespace sardonyx::ops {

// Facts of the formal inputs of the body of a node (Loop, Scan, SequenceMap, FlexAttention; for
// others the types and known sizes that the body declares), before anything is known of later
// iterations.
std::vector<Fact> BodyInputs(std::string_view op_type, std::span<const Fact* const> inputs,
                             std::span<const Fact> declared, const Attributes& attributes,
                             SymbolTable& symbols);

// For each formal input of a Loop's or Scan's body the body output that feeds it in the next
// iteration, or -1. Empty for other operators.
std::vector<int> CarriedFormals(std::string_view op_type, size_t formals,
                                const Attributes& attributes);

// Joins the formals with what the body hands to the next iteration; true if a formal changed.
// `forgotten`: dimensions that earlier calls made unknown for that reason, which stay so.
bool RelaxCarried(const Graph& body, std::span<const int> carried, std::vector<Fact>* formals,
                  Dims* forgotten);

// Makes the body's nodes for these values of its inputs, captures included; gives its outputs.
std::vector<Val> Inline(Builder& builder, const Graph& body, std::span<const Val> arguments);

// The body where some of its inputs are bound to values of the graph around it (`bound`, one for
// each input, empty for the others): to constants, which become its own, or else to captures, which
// come behind its other inputs and are appended to `captures`.
std::shared_ptr<Graph> Bind(const Graph& body, std::span<const Val> bound,
                            std::vector<Val>* captures);

}  // namespace sardonyx::ops
