#include "ops/lowering.h"

namespace sardonyx::ops {

namespace {

// Attribute `shape`; or the input's shape, or its elements if `input_as_shape`, with `extra_shape`
// behind it.
Val FilledShape(Lowering& op) {
  Builder& b = op.builder();
  if (op.HasAttribute("shape") == op.has(0)) {
    op.Fail("its shape must come from either the attribute shape or an input");
  }
  if (!op.has(0)) {
    if (op.HasAttribute("extra_shape")) op.Fail("attribute extra_shape needs an input");
    return b.Ints(op.Ints("shape"));
  }
  const Val x = op.in(0);
  const Val shape = op.Int("input_as_shape") != 0 ? Cast(x, DType::kInt64) : ShapeOf(x);
  if (!op.HasAttribute("extra_shape")) return shape;
  return Concat({shape, b.Ints(op.Ints("extra_shape"))}, 0);
}

}  // namespace

Outputs LowerConstantFill(Lowering& op) {
  const DType type = op.DTypeAttribute("dtype", DType::kFloat32);
  if (type != DType::kFloat32 && type != DType::kInt32 && type != DType::kInt64 &&
      type != DType::kBool) {
    op.Fail("attribute dtype is {}, not float, int32, int64 or bool", op.Int("dtype"));
  }
  return Filled(FilledShape(op), MakeFilled(type, {1}, op.Float("value")));
}

// A tensor whose elements stand in the node.
Outputs LowerGivenTensorFill(Lowering& op) {
  const bool typed = op.has(0) && IsFloat(op.in(0).dtype());
  const Val values = op.builder().Constant(MakeVector(op.attributes.Floats("values")));
  return Reshape(Cast(values, typed ? op.in(0).dtype() : DType::kFloat32), FilledShape(op), true);
}

}  // namespace sardonyx::ops
