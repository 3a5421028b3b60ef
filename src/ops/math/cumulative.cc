#include "ops/lowering.h"

namespace sardonyx::ops {

namespace {

Val Cumulative(Lowering& op, std::string_view kind) {
  const std::vector<int64_t> axis = op.in(1).ints();
  if (axis.size() != 1) op.Fail("axis has {} elements, not 1", axis.size());
  return op.builder().Make(core::cumulative, {op.in(0)},
                           {{"kind", std::string(kind)},
                            {"axis", axis[0]},
                            {"exclusive", op.Int("exclusive")},
                            {"reverse", op.Int("reverse")}});
}

}  // namespace

Outputs LowerCumSum(Lowering& op) { return Cumulative(op, "sum"); }
Outputs LowerCumProd(Lowering& op) { return Cumulative(op, "prod"); }

}  // namespace sardonyx::ops
