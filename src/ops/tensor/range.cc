#include "ops/lowering.h"

namespace sardonyx::ops {

// 16-bit formats are counted in float32 (stash_type).
Outputs LowerRange(Lowering& op) {
  std::vector<Val> bounds;
  for (size_t i = 0; i < 3; ++i) bounds.push_back(Widen(op.in(i)));
  return CastLike(op.builder().Make(core::range, bounds), op.in(0));
}

}  // namespace sardonyx::ops
