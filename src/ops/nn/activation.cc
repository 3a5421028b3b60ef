#include <cmath>

#include "ops/lowering.h"

namespace sardonyx::ops {

// Activations as formulas.

namespace {

Val Negative(Val x) { return Less(x, 0.0); }
// exp(min(x, 0)) - 1, which is 0 where x is positive.
Val NegativeExp(Val x) { return Exp(Min(x, 0.0)) - 1.0; }

}  // namespace

Outputs LowerCelu(Lowering& op) {
  const Val x = op.in(0);
  const double alpha = op.Float("alpha", 1);
  return Relu(x) + Min(alpha * (Exp(x / alpha) - 1.0), 0.0);
}

Outputs LowerElu(Lowering& op) {
  const Val x = op.in(0);
  return Relu(x) + op.Float("alpha", 1) * NegativeExp(x);
}

Outputs LowerSelu(Lowering& op) {
  const Val x = op.in(0);
  const double alpha = op.Float("alpha", op.version() == 1 ? 1.6732 : 1.67326319217681884765625);
  const double gamma = op.Float("gamma", op.version() == 1 ? 1.0507 : 1.05070102214813232421875);
  return gamma * (Relu(x) + alpha * NegativeExp(x));
}

Outputs LowerLeakyRelu(Lowering& op) {
  const Val x = op.in(0);
  return Where(Negative(x), x * op.Float("alpha", 0.01), x);
}

Outputs LowerPRelu(Lowering& op) {
  const Val x = op.in(0);
  return Where(Negative(x), x * op.in(1), x);
}

// Until opset 6 a slope of more than one element belongs to the channels.
void AdaptPRelu(Lowering& op) {
  if (op.version() >= 7 || op.in(1).rank() != 1 || op.in(1).size(0) == 1) return;
  op.SetInput(1, AlongChannels(op.in(1), op.in(0).rank()));
}

Outputs LowerThresholdedRelu(Lowering& op) {
  const Val x = op.in(0);
  return Where(Greater(x, op.Float("alpha", 1)), x, op.builder().Scalar(x.dtype(), 0));
}

Outputs LowerHardSigmoid(Lowering& op) {
  return Clip(op.in(0) * op.Float("alpha", 0.2) + op.Float("beta", 0.5), 0, 1);
}

Outputs LowerHardSwish(Lowering& op) {
  const Val x = op.in(0);
  return x * (Clip(x + 3.0, 0, 6) / 6.0);
}

Outputs LowerMish(Lowering& op) {
  const Val x = op.in(0);
  return x * Tanh(Softplus(x));
}

Outputs LowerSoftsign(Lowering& op) {
  const Val x = op.in(0);
  return x / (1.0 + Abs(x));
}

Outputs LowerShrink(Lowering& op) {
  // Integers compare with fractions, and unsigned ones with negative numbers.
  const Val x = IsInteger(op.in(0).dtype()) ? Cast(op.in(0), DType::kFloat64) : op.in(0);
  const double bias = op.Float("bias"), threshold = op.Float("lambd", 0.5);
  const Val zero = op.builder().Scalar(x.dtype(), 0);
  const Val y = Where(Less(x, -threshold), x + bias, Where(Greater(x, threshold), x - bias, zero));
  return CastLike(y, op.in(0));
}

Outputs LowerGelu(Lowering& op) {
  const Val x = op.in(0);
  if (op.String("approximate", "none") == "tanh") {
    const double kSqrt2OverPi = 0.79788456080286535588;
    return 0.5 * x * (1.0 + Tanh(kSqrt2OverPi * (x + 0.044715 * (x * x * x))));
  }
  return 0.5 * x * (1.0 + Erf(x * M_SQRT1_2));
}

Outputs LowerSwish(Lowering& op) {
  const Val x = op.in(0);
  const double alpha = op.Float("alpha", 1);
  return x * Sigmoid(alpha == 1 ? x : x * alpha);
}

Outputs LowerSwiGLU(Lowering& op) { return op.in(1) * LowerSwish(op).values[0]; }

}  // namespace sardonyx::ops
