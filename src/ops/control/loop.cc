#include "ops/lowering.h"

namespace sardonyx::ops {

// Inputs arrive as (M, condition, carried..., captures...); the last "captures" were added by the
// importer.
Outputs LowerLoop(Lowering& op) {
  const auto body = op.attributes.Body("body");
  const int64_t captures = op.Int("captures");
  const int64_t carried = static_cast<int64_t>(op.inputs.size()) - captures - 2;
  if (carried < 0) {
    if (captures > 0) op.Fail("needs at least its two inputs M and cond (they may be empty)");
    op.inputs.resize(2);
  }
  const int64_t count = std::max<int64_t>(carried, 0);
  if (static_cast<int64_t>(body->outputs.size()) < 1 + count) {
    op.Fail("carries {} values, but its body has {} outputs", count, body->outputs.size());
  }
  if (op.output_count() > body->outputs.size() - 1) {
    op.Fail("has {} outputs, but its body gives {}", op.output_count(), body->outputs.size() - 1);
  }
  return op.builder().MakeMany(core::loop, op.inputs, {{"body", body}, {"carried", count}},
                               static_cast<int>(op.output_count()));
}

}  // namespace sardonyx::ops
