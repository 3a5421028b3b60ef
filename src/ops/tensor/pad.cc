#include "ops/lowering.h"

namespace sardonyx::ops {

Outputs LowerPad(Lowering& op) {
  return op.builder().Make(core::pad, op.inputs, {{"mode", op.String("mode", "constant")}});
}

void AdaptPad(Lowering& op) {
  if (op.version() >= 11) return;
  op.AttributeToInput(op.version() == 1 ? "paddings" : "pads", 1);
  op.SetInput(2, op.builder().Scalar(op.in(0).dtype(), op.Float("value")));
}

}  // namespace sardonyx::ops
