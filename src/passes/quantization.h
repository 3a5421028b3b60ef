#pragma once
// The formulas of QuantizeLinear and DequantizeLinear as lowerings write them.

#include <optional>
#include <string>

#include "ir/graph.h"

namespace sardonyx::passes {

// value = (x - zero) * scale in float32, x of 8 bits.
struct Dequantized {
  Value* x = nullptr;
  Value* zero = nullptr;  // int32; null: 0
  Value* scale = nullptr;
};
std::optional<Dequantized> MatchDequantized(const Value* value);

// value = clip(round(real / scale) + zero) as an integer of 8 bits.
struct Quantized {
  Value* real = nullptr;
  Value* scale = nullptr;
  Value* zero = nullptr;  // float32; null: 0
};
std::optional<Quantized> MatchQuantized(const Value* value);

// Of a constant of one element; nothing for all else.
std::optional<double> ScalarOf(const Value* value);

}  // namespace sardonyx::passes
