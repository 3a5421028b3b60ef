#pragma once
// Whether what a caller gives fits the inputs that a model declares.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "sardonyx/sardonyx.hpp"

namespace sardonyx {

// Sizes of named dimensions, and which input gave them.
struct InputSizes {
  std::map<int32_t, std::pair<int64_t, std::string>> named;
  std::string conflict;  // the first two sizes of one name
};

// Throws kInvalidArgument if a value is not of the kind, element type, rank or fixed sizes that the
// graph's input has; `info` is what the model says of it. Notes the sizes of named dimensions.
void CheckInput(const Fact& fact, const ValueInfo& info, const Datum& datum,
                const SymbolTable& symbols, InputSizes* sizes);

// The same of a shape alone.
void CheckShape(const Fact& fact, const ValueInfo& info, const std::vector<int64_t>& dims,
                const SymbolTable& symbols, InputSizes* sizes);

}  // namespace sardonyx
