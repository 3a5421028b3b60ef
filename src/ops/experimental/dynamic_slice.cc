#include "ops/lowering.h"

namespace sardonyx::ops {

// What became Slice-10.
Outputs LowerDynamicSlice(Lowering& op) {
  return op.builder().Make(core::slice, {op.in(0), op.in(1), op.in(2), op.in(3)});
}

}  // namespace sardonyx::ops
