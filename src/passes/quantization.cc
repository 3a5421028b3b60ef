#include "passes/quantization.h"

#include "passes/expressions.h"
#include "passes/passes.h"

namespace sardonyx::passes {
namespace {

bool IsByte(const Value* value) {
  const DType type = value->fact.type.dtype;
  return value->fact.type.is_tensor() && IsByte(type);
}

// The node that made the value, if it is of that function.
const Node* MadeBy(const Value* value, Fn fn) {
  return IsFrom(value, core::Elementwise(fn)) ? value->producer : nullptr;
}

}  // namespace

std::optional<double> ScalarOf(const Value* value) {
  if (value == nullptr || !IsScalarConstant(value)) return {};
  return ToDoubles(Aligned(value->fact.constant))[0];
}

std::optional<Dequantized> MatchDequantized(const Value* value) {
  const Node* scaled = MadeBy(value, Fn::kMul);
  if (scaled == nullptr || value->fact.type.dtype != DType::kFloat32) return {};
  const Node* real = MadeBy(scaled->input(0), Fn::kCast);
  if (real == nullptr) return {};
  Dequantized result{.scale = scaled->input(1)};
  const Value* whole = real->input(0);
  if (whole->fact.type.dtype != DType::kInt32) return {};
  if (const Node* shifted = MadeBy(whole, Fn::kSub)) {
    result.zero = shifted->input(1);
    whole = shifted->input(0);
  }
  const Node* cast = MadeBy(whole, Fn::kCast);
  if (cast == nullptr || !IsByte(cast->input(0))) return {};
  result.x = cast->input(0);
  if (!result.x->fact.ranked() || !result.scale->fact.ranked()) return {};
  return result;
}

std::optional<Quantized> MatchQuantized(const Value* value) {
  const Node* cast = MadeBy(value, Fn::kCast);
  if (cast == nullptr || !IsByte(value)) return {};
  const Node* most = MadeBy(cast->input(0), Fn::kMin);
  const Node* least = most != nullptr ? MadeBy(most->input(0), Fn::kMax) : nullptr;
  if (least == nullptr) return {};
  const double low = value->fact.type.dtype == DType::kInt8 ? -128 : 0;
  if (ScalarOf(least->input(1)) != low || ScalarOf(most->input(1)) != low + 255) return {};
  Quantized result;
  const Value* rounded = least->input(0);
  if (const Node* shifted = MadeBy(rounded, Fn::kAdd)) {
    result.zero = shifted->input(1);
    rounded = shifted->input(0);
  }
  const Node* round = MadeBy(rounded, Fn::kRound);
  const Node* scaled = round != nullptr ? MadeBy(round->input(0), Fn::kDiv) : nullptr;
  if (scaled == nullptr) return {};
  result.real = scaled->input(0);
  result.scale = scaled->input(1);
  return result;
}

}  // namespace sardonyx::passes
