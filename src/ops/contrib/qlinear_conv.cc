#include "ops/nn/quantized_product.h"

namespace sardonyx::ops::contrib {

Outputs LowerQLinearConv(Lowering& op) {
  return QuantizedConvolution(op, op.Int("channels_last") != 0);
}

}  // namespace sardonyx::ops::contrib
