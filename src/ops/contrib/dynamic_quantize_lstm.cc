#include "ops/lowering.h"
#include "ops/nn/quantization.h"

namespace sardonyx::ops::contrib {

namespace {

// Weights [directions, inputs, 4 * hidden] with a parameter for each direction, or for each of its
// columns, as LSTM takes them: [directions, 4 * hidden, inputs].
Val Weights(Val w, Val scale, Val zero_point) {
  const auto spread = [](Val parameter) {
    if (parameter.rank() == 0) return parameter;
    return parameter.rank() == 1 ? Unsqueeze(parameter, {1, 2}) : Unsqueeze(parameter, {1});
  };
  return Transpose(Dequantized(w, spread(scale), spread(zero_point)), {0, 2, 1});
}

}  // namespace

// What is quantised dynamically, X and the hidden state, is to spare time and loses precision: the
// result is the same without, but for that loss.
Outputs LowerDynamicQuantizeLSTM(Lowering& op) {
  std::vector<Val> inputs{op.in(0), Weights(op.in(1), op.in(8), op.in(9)),
                          Weights(op.in(2), op.in(10), op.in(11))};
  for (size_t i = 3; i < 8; ++i) inputs.push_back(op.in(i));
  op.inputs = std::move(inputs);
  return FindOnnxOp("", "LSTM")->lower(op);
}

}  // namespace sardonyx::ops::contrib
