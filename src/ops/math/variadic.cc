#include "ops/lowering.h"

namespace sardonyx::ops {

namespace {

Val Fold(Lowering& op, Val (*function)(Val, Val)) {
  if (op.inputs.empty()) op.Fail("needs at least one input");
  Val result = op.in(0);
  for (size_t i = 1; i < op.inputs.size(); ++i) result = function(result, op.in(i));
  return result;
}

}  // namespace

Outputs LowerMax(Lowering& op) { return Fold(op, Max); }
Outputs LowerMin(Lowering& op) { return Fold(op, Min); }
Outputs LowerSum(Lowering& op) { return Fold(op, Add); }
Outputs LowerMean(Lowering& op) {
  const Val sum = Fold(op, Add);
  return op.inputs.size() == 1 ? sum : sum / static_cast<double>(op.inputs.size());
}

}  // namespace sardonyx::ops
