#include "ops/lowering.h"

namespace sardonyx::ops {

Outputs LowerSlice(Lowering& op) { return op.builder().Make(core::slice, op.inputs); }

void AdaptSlice(Lowering& op) {
  if (op.version() >= 10) return;
  op.AttributeToInput("starts", 1);
  op.AttributeToInput("ends", 2);
  op.AttributeToInput("axes", 3);
}

}  // namespace sardonyx::ops
