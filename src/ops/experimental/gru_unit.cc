#include "ops/lowering.h"

namespace sardonyx::ops {

// One step of a GRU whose gates [1,N,3 D] (reset, update, output) are given before activation.
// Sequences that have ended keep their state, or lose it with `drop_states`. Meaning as in Caffe2's
// gru_unit_op.h: the reset gate has done its work already.
Outputs LowerGRUUnit(Lowering& op) {
  const Val hidden = op.in(0), gates = op.in(1);
  if (hidden.rank() != 3 || gates.rank() != 3) {
    op.Fail("hidden_prev and gates must have rank 3, not {} and {}", hidden.rank(), gates.rank());
  }
  const int64_t size = hidden.size(2);
  if (gates.size(2) != 3 * size) op.Fail("{} gates are given for {} units", gates.size(2), size);
  const Val update = Sigmoid(Slice(gates, {size}, {2 * size}, {2}));
  const Val output = Tanh(Slice(gates, {2 * size}, {3 * size}, {2}));
  const Val next = hidden * update + output * (1.0 - update);
  const Val step = Cast(Reshape(op.in(3), std::vector<int64_t>{}), DType::kFloat64);
  const Val lengths = Cast(op.in(2), DType::kFloat64);
  const Val goes_on = Reshape(Less(step, lengths), std::vector<int64_t>{1, -1, 1});
  const Val zero = op.builder().Scalar(hidden.dtype(), 0);
  return Where(goes_on, next, op.Int("drop_states") != 0 ? zero : hidden);
}

}  // namespace sardonyx::ops
