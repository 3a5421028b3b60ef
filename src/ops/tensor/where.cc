#include "ops/lowering.h"

namespace sardonyx::ops {

Outputs LowerWhere(Lowering& op) { return Where(op.in(0), op.in(1), op.in(2)); }

Outputs LowerTrilu(Lowering& op) {
  return op.builder().Make(core::trilu, {op.in(0), op.in(1)}, {{"upper", op.Int("upper", 1)}});
}

}  // namespace sardonyx::ops
