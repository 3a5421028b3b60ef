#include "ops/lowering.h"

namespace sardonyx::ops {

namespace {

Val ArgReduce(Lowering& op, std::string_view kind) {
  return op.builder().Make(core::arg_reduce, {op.in(0)},
                           {{"kind", std::string(kind)},
                            {"axis", op.Int("axis")},
                            {"keepdims", op.Int("keepdims", 1)},
                            {"select_last_index", op.Int("select_last_index")}});
}

}  // namespace

Outputs LowerArgMax(Lowering& op) { return ArgReduce(op, "argmax"); }
Outputs LowerArgMin(Lowering& op) { return ArgReduce(op, "argmin"); }

}  // namespace sardonyx::ops
