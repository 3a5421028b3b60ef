#include "ops/lowering.h"

namespace sardonyx::ops {

Outputs LowerIf(Lowering& op) {
  Attributes bodies;
  bodies.Set("then_branch", op.attributes.Body("then_branch"));
  bodies.Set("else_branch", op.attributes.Body("else_branch"));
  return op.builder().MakeMany(core::if_, op.inputs, std::move(bodies),
                               static_cast<int>(op.output_count()));
}

}  // namespace sardonyx::ops
