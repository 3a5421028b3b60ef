#include "ops/contrib/standard.h"

namespace sardonyx::ops::contrib {
namespace {

Val Gelu(Lowering& op, Val bias, std::string approximate) {
  const Val x = bias ? op.in(0) + bias : op.in(0);
  return Standard(op, "Gelu", {x}, {{"approximate", std::move(approximate)}}).values[0];
}

}  // namespace

Outputs LowerGelu(Lowering& op) { return Gelu(op, {}, "none"); }
Outputs LowerBiasGelu(Lowering& op) { return Gelu(op, op.in(1), "none"); }
Outputs LowerFastGelu(Lowering& op) { return Gelu(op, op.in(1), "tanh"); }
Outputs LowerQuickGelu(Lowering& op) { return Standard(op, "Swish", op.inputs, op.attributes); }

}  // namespace sardonyx::ops::contrib
