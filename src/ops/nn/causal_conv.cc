#include "ops/lowering.h"
#include "ops/nn/window.h"

namespace sardonyx::ops {

// A depthwise convolution along the last axis that sees the present and the past alone: what came
// before the input is `past_state`, or zeros. It is computed in float32 where the input is
// narrower, and rounded before the activation.
Outputs LowerCausalConvWithState(Lowering& op) {
  Builder& b = op.builder();
  const Val x = op.in(0), w = op.in(1);
  if (x.rank() != 3 || w.rank() != 3) {
    op.Fail("input and weight must have rank 3, not {} and {}", x.rank(), w.rank());
  }
  const int64_t channels = w.size(0), before = w.size(2) - 1;
  if (before < 0) op.Fail("the weight has no elements along its last axis");
  const Val zeros = Concat({ShapeOf(x, 0, 2), b.Ints({before})}, 0);
  const Val past = op.has(3) ? op.in(3) : Filled(zeros, MakeFilled(x.dtype(), {1}, 0));
  if (past.rank() != 3 || (past.shape()[2].known() && past.size(2) != before)) {
    op.Fail("past_state must hold the {} positions before the input", before);
  }
  const Val padded = Concat({past, x}, 2);
  Attributes window = Window(op, 1, {});
  window.Set("group", channels);
  Val y = b.Make(core::conv, {ToChannelsLast(Widen(padded)), Widen(w)}, window);
  if (op.has(2)) y = y + Widen(op.in(2));
  y = CastLike(ToChannelsFirst(y), x);

  const std::string activation = op.String("activation", "none");
  if (activation == "silu" || activation == "swish") {
    const Val wide = Widen(y);
    y = CastLike(wide * Sigmoid(wide), x);
  } else if (activation != "none") {
    op.Fail("attribute activation is '{}', not silu, swish or none", activation);
  }
  const int64_t first = before > 0 ? -before : INT64_MAX;  // from -0 on would be all of it
  return {y, Slice(padded, {first}, {INT64_MAX}, {2})};
}

}  // namespace sardonyx::ops
