#include "ops/lowering.h"

namespace sardonyx::ops {

namespace {

// Until opset 12 the axes from `axis` on are one: x is seen as a matrix. From 13 on `axis` is the
// only axis.
Val AlongAxis(Lowering& op, Val (*function)(Val, int64_t)) {
  const Val x = op.in(0);
  if (op.version() >= 13) return function(x, op.Int("axis", -1));
  const int64_t axis = op.Int("axis", 1);
  if (x.ranked() && x.rank() > 0 && x.Axis(axis) == x.rank() - 1) return function(x, -1);
  return Reshape(function(Flatten(x, axis), 1), ShapeOf(x), true);
}

// 1 at the first of the largest elements, 0 elsewhere.
Val Hardmax(Val x, int64_t axis) {
  const Val largest = x.builder->Make(core::arg_reduce, {x},
                                      {{"kind", std::string("argmax")},
                                       {"axis", axis},
                                       {"keepdims", int64_t{0}},
                                       {"select_last_index", int64_t{0}}});
  const int position = x.Axis(axis);
  const Val values = Concat({Reshape(x.builder->Scalar(x.dtype(), 0), std::vector<int64_t>{1}),
                             Reshape(x.builder->Scalar(x.dtype(), 1), std::vector<int64_t>{1})},
                            0);
  return x.builder->Make(core::one_hot, {largest, ShapeOf(x, position, position + 1), values},
                         {{"axis", int64_t{position}}});
}

}  // namespace

Outputs LowerSoftmax(Lowering& op) {
  return AlongAxis(op, [](Val x, int64_t axis) { return Softmax(x, axis); });
}
Outputs LowerLogSoftmax(Lowering& op) {
  return AlongAxis(op, [](Val x, int64_t axis) { return Softmax(x, axis, true); });
}
Outputs LowerHardmax(Lowering& op) { return AlongAxis(op, Hardmax); }

}  // namespace sardonyx::ops
