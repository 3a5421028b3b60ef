#include "ops/lowering.h"

namespace sardonyx::ops {

namespace {

Val LowerReduce(Lowering& op, std::string_view kind) {
  const Val x = op.in(0);
  const bool keepdims = op.Int("keepdims", 1) != 0;
  const std::vector<int64_t> axes = op.has(1) ? op.in(1).ints() : std::vector<int64_t>{};
  if (!axes.empty()) return Reduce(kind, x, axes, keepdims);
  if (op.Int("noop_with_empty_axes") == 0) return ReduceAll(kind, x, keepdims);
  // Each element is a set of its own: what is computed before and after the sum remains.
  return Reduce(kind, x, {}, keepdims);
}

}  // namespace

// Before opset 13 (ReduceSum) and 18 (all others) the axes are an attribute.
#define SARDONYX_REDUCE_OP(name, kind)                                \
  Outputs Lower##name(Lowering& op) { return LowerReduce(op, kind); } \
  void Adapt##name(Lowering& op) { op.AttributeToInput("axes", 1); }

SARDONYX_REDUCE_OP(ReduceL1, "l1")
SARDONYX_REDUCE_OP(ReduceL2, "l2")
SARDONYX_REDUCE_OP(ReduceLogSum, "log_sum")
SARDONYX_REDUCE_OP(ReduceLogSumExp, "log_sum_exp")
SARDONYX_REDUCE_OP(ReduceMax, "max")
SARDONYX_REDUCE_OP(ReduceMean, "mean")
SARDONYX_REDUCE_OP(ReduceMin, "min")
SARDONYX_REDUCE_OP(ReduceProd, "prod")
SARDONYX_REDUCE_OP(ReduceSum, "sum")
SARDONYX_REDUCE_OP(ReduceSumSquare, "sum_square")

#undef SARDONYX_REDUCE_OP

}  // namespace sardonyx::ops
