#pragma once
// Element types that attributes of core operations name by their number in ONNX.

#include <string_view>

#include "ir/graph.h"

namespace sardonyx::core {

// The type that an attribute names, or `otherwise` where the node has none. Throws kInvalidModel if
// no type has that number, for graphs come from files too; the caller adds the node's name.
inline DType ElementType(const Attributes& attributes, std::string_view attribute,
                         DType otherwise = DType::kUndefined) {
  const int64_t number = attributes.Int(attribute, static_cast<int64_t>(otherwise));
  if (number <= 0 || number >= kDTypeCount) {
    Fail(ErrorCode::kInvalidModel, "attribute '{}' is {}: there is no such element type", attribute,
         number);
  }
  return static_cast<DType>(number);
}

}  // namespace sardonyx::core
