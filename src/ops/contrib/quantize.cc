#include "ops/lowering.h"

namespace sardonyx::ops::contrib {

// The operators of ai.onnx had 16-bit and 4-bit integers later.
Outputs LowerQuantizeLinear(Lowering& op) { return FindOnnxOp("", "QuantizeLinear")->lower(op); }
Outputs LowerDequantizeLinear(Lowering& op) {
  return FindOnnxOp("", "DequantizeLinear")->lower(op);
}

}  // namespace sardonyx::ops::contrib
