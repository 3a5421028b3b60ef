#include <algorithm>

#include "ops/lowering.h"

namespace sardonyx::ops {

Outputs LowerPad(Lowering& op) {
  if (op.in(1).is_constant()) {
    const std::vector<int64_t> pads = op.in(1).ints();
    if (std::all_of(pads.begin(), pads.end(), [](int64_t pad) { return pad == 0; }))
      return op.in(0);
  }
  return op.builder().Make(core::pad, op.inputs, {{"mode", op.String("mode", "constant")}});
}

void AdaptPad(Lowering& op) {
  if (op.version() >= 11) return;
  op.AttributeToInput(op.version() == 1 ? "paddings" : "pads", 1);
  op.SetInput(2, op.builder().Scalar(op.in(0).dtype(), op.Float("value")));
}

}  // namespace sardonyx::ops
