#pragma once
// What the operations that own bodies (if_, loop, scan) share with those who make the bodies and
// with the runtime that runs them.

#include <span>
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

// Makes the fact of a carried value hold of what the next iteration gets as well; true if that
// changed it. `forgotten`: dimensions that such calls for the same loop made unknown, which stay
// so.
bool Relax(Fact* formal, const Fact& next, SymbolTable& symbols, Dims* forgotten);

// For each of the `formals` inputs of a body the output that feeds it in the next iteration, or -1:
// `count` of them from `first` on take the outputs from `output` on.
std::vector<int> Carried(size_t formals, size_t first, size_t count, int output);

// Tensors of equal shapes along a new axis (negative: from the end of the result's); of none, an
// empty tensor of the element's type and, where unknown, of dimensions 0. Throws kInvalidModel.
Tensor Stack(const std::vector<Tensor>& parts, const Fact& element, int64_t axis);
// Position `index` along an axis, which goes; shares memory where the slice is one block.
Tensor SliceAt(const Tensor& x, int64_t axis, int64_t index);

}  // namespace sardonyx::core
