#include "passes/seen_keys.h"

#include <algorithm>
#include <limits>

namespace sardonyx::passes {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();
// No key is so far; one more is a number as well.
constexpr double kFarthest = 0x1p62;

bool Is(const Value* value, Fn fn) { return IsFrom(value, core::Elementwise(fn)); }

// 0, 1, ... for each key, along the last axis alone.
bool IsPositions(const Value* value, Dim keys) {
  const Fact& fact = value->fact;
  if (fact.type.dtype != DType::kInt64 || !fact.ranked() || fact.rank() == 0 ||
      !(fact.shape->back() == keys) ||
      !std::all_of(fact.shape->begin(), fact.shape->end() - 1, [](Dim dim) { return dim == 1; })) {
    return false;
  }
  if (value->is_constant()) {
    const Tensor positions = Aligned(fact.constant);
    for (int64_t i = 0; i < positions.size(); ++i) {
      if (positions.data<int64_t>()[i] != i) return false;
    }
    return true;
  }
  while (IsFrom(value, core::unsqueeze) || IsFrom(value, core::reshape)) {
    value = value->producer->input(0);
  }
  return IsFrom(value, core::range) && IsConstantOf(value->producer->input(0), 0) &&
         IsConstantOf(value->producer->input(2), 1);
}

// The same for all keys.
bool IsBound(const Value* value) {
  return value->fact.type.dtype == DType::kInt64 && value->fact.ranked() &&
         (value->fact.rank() == 0 || value->fact.shape->back() == 1);
}

}  // namespace

void PartCondition(Value* condition, Dim keys, PatchMaker& maker, MaskParts* parts) {
  if (Is(condition, Fn::kAnd)) {
    for (Value* part : condition->producer->inputs) PartCondition(part, keys, maker, parts);
    return;
  }
  const bool less = Is(condition, Fn::kLess), less_equal = Is(condition, Fn::kLessEqual);
  const bool greater = Is(condition, Fn::kGreater),
             greater_equal = Is(condition, Fn::kGreaterEqual);
  if (less || less_equal || greater || greater_equal) {
    for (const size_t at : {0, 1}) {
      Value* const positions = condition->producer->input(at);
      Value* const bound = condition->producer->input(1 - at);
      if (!IsPositions(positions, keys) || !IsBound(bound)) continue;
      // position < bound, position <= bound: seen before it, or with it.
      const bool is_end = (less || less_equal) == (at == 0);
      const bool next = is_end ? less_equal || greater_equal : less || greater;
      const Val key = maker.Wrap(bound);
      (is_end ? parts->ends : parts->begins).push_back(next ? Min(key, kFarthest) + 1.0 : key);
      return;
    }
  }
  parts->conditions.push_back(maker.Wrap(condition));
}

void PartMask(Value* mask, Dim keys, PatchMaker& maker, MaskParts* parts) {
  if (Is(mask, Fn::kAdd)) {
    for (Value* part : mask->producer->inputs) PartMask(part, keys, maker, parts);
  } else if (Is(mask, Fn::kWhere) && IsConstantOf(mask->producer->input(1), 0) &&
             IsConstantOf(mask->producer->input(2), kHidden) &&
             SameShape(mask->producer->input(0), mask)) {
    PartCondition(mask->producer->input(0), keys, maker, parts);
  } else {
    parts->terms.push_back(maker.Wrap(mask));
  }
}

}  // namespace sardonyx::passes
