#include "ops/lowering.h"

namespace sardonyx::ops {

Outputs LowerSequenceConstruct(Lowering& op) {
  return op.builder().Make(core::sequence, op.inputs);
}

Outputs LowerSequenceEmpty(Lowering& op) {
  const DType type = op.DTypeAttribute("dtype", DType::kFloat32);
  return op.builder().Make(core::sequence, {}, {{"dtype", static_cast<int64_t>(type)}});
}

Outputs LowerSequenceAt(Lowering& op) {
  return op.builder().Make(core::sequence_at, {op.in(0), op.in(1)});
}

Outputs LowerSequenceInsert(Lowering& op) {
  return op.builder().Make(core::sequence_insert, {op.in(0), op.in(1), op.in(2)});
}

Outputs LowerSequenceErase(Lowering& op) {
  return op.builder().Make(core::sequence_erase, {op.in(0), op.in(1)});
}

Outputs LowerSequenceLength(Lowering& op) {
  return op.builder().Make(core::sequence_length, {op.in(0)});
}

Outputs LowerConcatFromSequence(Lowering& op) {
  return op.builder().Make(core::concat_from_sequence, {op.in(0)},
                           {{"axis", op.Int("axis")}, {"new_axis", op.Int("new_axis")}});
}

Outputs LowerSplitToSequence(Lowering& op) {
  return op.builder().Make(core::split_to_sequence, {op.in(0), op.in(1)},
                           {{"axis", op.Int("axis")}, {"keepdims", op.Int("keepdims", 1)}});
}

}  // namespace sardonyx::ops
