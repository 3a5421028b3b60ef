#include "ops/lowering.h"

namespace sardonyx::ops {

Outputs LowerConcat(Lowering& op) { return Concat(op.inputs, op.Int("axis", 1)); }

}  // namespace sardonyx::ops
