#include "ops/lowering.h"

namespace sardonyx::ops::ml {

// Indices of any shape are one list; of a vector the result is a row, as ONNX Runtime has it.
Outputs LowerArrayFeatureExtractor(Lowering& op) {
  const Val x = op.in(0);
  if (x.rank() == 0) op.Fail("cannot extract features of a scalar");
  const Val y = Gather(x, Reshape(op.in(1), {-1}), -1);
  return x.rank() == 1 ? Unsqueeze(y, {0}) : y;
}

}  // namespace sardonyx::ops::ml
