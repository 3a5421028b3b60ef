// Elementwise operators of the experimental set of ONNX 1.0 to 1.4.

#include "ops/lowering.h"

namespace sardonyx::ops {

Outputs LowerAffine(Lowering& op) { return op.in(0) * op.Float("alpha") + op.Float("beta"); }

Outputs LowerScale(Lowering& op) { return op.in(0) * op.Float("scale"); }

// Factors that are not given are 1 in these two: their schema names no default.
Outputs LowerScaledTanh(Lowering& op) {
  return Tanh(op.in(0) * op.Float("beta", 1)) * op.Float("alpha", 1);
}

Outputs LowerParametricSoftplus(Lowering& op) {
  return Softplus(op.in(0) * op.Float("beta", 1)) * op.Float("alpha", 1);
}

// Images [N,C,H,W] times `scale`, plus a bias for each channel.
Outputs LowerImageScaler(Lowering& op) {
  const Val x = op.in(0), scaled = x * op.Float("scale");
  const std::vector<double>& bias = op.attributes.Floats("bias");
  if (bias.empty()) return scaled;
  if (const Dim channels = x.shape()[x.Axis(1)];
      channels.known() && channels.value() != static_cast<int64_t>(bias.size())) {
    op.Fail("{} biases are given for {} channels", bias.size(), channels.value());
  }
  const Val biases = Cast(op.builder().Constant(MakeVector(bias)), x.dtype());
  return scaled + AlongChannels(biases, x.rank());
}

}  // namespace sardonyx::ops
