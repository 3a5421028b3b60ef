#include "ops/lowering.h"
#include "ops/nn/quantization.h"

namespace sardonyx::ops::contrib {

// Weights are [directions, inputs, 4 * hidden], with a scale and a zero point for each direction or
// for each of its columns. LSTM takes them as [directions, 4 * hidden, inputs], and parameters
// [directions, 4 * hidden].
Outputs LowerDynamicQuantizeLSTM(Lowering& op) {
  const auto [x, scale, zero_point] = QuantizeDynamically(op.in(0));
  std::vector<Val> inputs{x, Transpose(op.in(1), {0, 2, 1}), Transpose(op.in(2), {0, 2, 1})};
  for (size_t i = 3; i < 8; ++i) inputs.push_back(op.in(i));
  inputs.push_back(scale);
  inputs.push_back(zero_point);
  for (size_t i = 8; i < 12; ++i) {
    Val parameter = op.in(i);
    if (parameter && parameter.rank() == 1) parameter = Unsqueeze(parameter, {1});
    inputs.push_back(parameter ? Expand(parameter, ShapeOf(inputs[i < 10 ? 1 : 2], 0, 2)) : Val{});
  }
  op.inputs = std::move(inputs);
  return FindOnnxOp("", "LSTM")->lower(op);
}

}  // namespace sardonyx::ops::contrib
