#include "ops/lowering.h"

namespace sardonyx::ops {

namespace {

// Which elements are kept: all, outside of training.
Val FullMask(Lowering& op) {
  const DType type = op.version() >= 10 ? DType::kBool : op.in(0).dtype();
  return Filled(ShapeOf(op.in(0)), MakeFilled(type, {1}, 1));
}

}  // namespace

// Inference is the identity. Before opset 7 the attribute is_test, 0 by default, asks for training;
// models of that age leave it out and mean inference all the same.
Outputs LowerDropout(Lowering& op) {
  if (op.has(2) && op.in(2).ints().at(0) != 0) {
    const double ratio = op.has(1) ? op.in(1).doubles().at(0) : 0.5;
    if (ratio != 0) op.Unsupported("training mode draws random numbers, which is not implemented");
  }
  return {op.in(0), op.wants(1) ? FullMask(op) : Val{}};
}

}  // namespace sardonyx::ops
