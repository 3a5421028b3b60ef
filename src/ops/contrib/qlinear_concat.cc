#include "ops/lowering.h"
#include "ops/nn/quantization.h"

namespace sardonyx::ops::contrib {

// Inputs: scale and zero point of y, then x, its scale and zero point for each part.
Outputs LowerQLinearConcat(Lowering& op) {
  if (op.inputs.size() < 5 || op.inputs.size() % 3 != 2) {
    op.Fail("{} inputs: there must be two, and three more for each part", op.inputs.size());
  }
  std::vector<Val> parts;
  for (size_t i = 2; i < op.inputs.size(); i += 3) {
    const Val real = Dequantized(op.in(i), op.in(i + 1), op.in(i + 2));
    parts.push_back(ToQuantized(real / op.in(0), op.in(1), op.in(1).dtype()));
  }
  return Concat(parts, op.Int("axis"));
}

}  // namespace sardonyx::ops::contrib
