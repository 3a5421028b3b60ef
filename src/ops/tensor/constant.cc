#include "ops/lowering.h"

namespace sardonyx::ops {

Outputs LowerConstant(Lowering& op) {
  Builder& b = op.builder();
  if (op.HasAttribute("value")) return b.Constant(op.attributes.TensorValue("value"));
  if (op.HasAttribute("sparse_value")) return b.Constant(op.attributes.TensorValue("sparse_value"));
  if (op.HasAttribute("value_float")) {
    return b.Constant(MakeScalar(static_cast<float>(op.Float("value_float"))));
  }
  if (op.HasAttribute("value_floats")) {
    const std::vector<double>& values = op.attributes.Floats("value_floats");
    return b.Constant(MakeVector(std::vector<float>(values.begin(), values.end())));
  }
  if (op.HasAttribute("value_int")) return b.Constant(MakeScalar(op.Int("value_int")));
  if (op.HasAttribute("value_ints")) return b.Ints(op.Ints("value_ints"));
  if (op.HasAttribute("value_string")) return b.Constant(MakeScalar(op.String("value_string")));
  if (op.HasAttribute("value_strings")) {
    return b.Constant(MakeVector(op.attributes.Strings("value_strings")));
  }
  op.Fail("has no attribute that gives its value");
}

Outputs LowerConstantOfShape(Lowering& op) {
  const Tensor value =
      op.HasAttribute("value") ? op.attributes.TensorValue("value") : MakeVector<float>({0.0f});
  return Filled(op.in(0), value);
}

}  // namespace sardonyx::ops
