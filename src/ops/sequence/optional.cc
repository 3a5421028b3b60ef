#include "ops/lowering.h"

namespace sardonyx::ops {

Outputs LowerOptional(Lowering& op) {
  Attributes attributes;
  if (const Attribute* type = op.attributes.Find("type")) attributes.Set("type", *type);
  return op.builder().Make(core::optional, {op.in(0)}, attributes);
}

Outputs LowerOptionalGetElement(Lowering& op) {
  return op.builder().Make(core::optional_get, {op.in(0)});
}

Outputs LowerOptionalHasElement(Lowering& op) {
  if (!op.has(0)) return op.builder().Scalar(DType::kBool, 0);
  return op.builder().Make(core::optional_has, {op.in(0)});
}

}  // namespace sardonyx::ops
