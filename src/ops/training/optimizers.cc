// One step of stochastic gradient descent. Inputs are the learning rate R, the update count T, and
// then as many tensors X as are optimised, their gradients, and their states; outputs are the new
// tensors and states in the same order. Scalars are computed in double.

#include "ops/lowering.h"

namespace sardonyx::ops::training {
namespace {

// What is to be done for one tensor: in(0) X, in(1) its gradient, in(2 ...) its states.
class Step {
 public:
  Step(Lowering& op, size_t tensors, size_t i) : op_(op), tensors_(tensors), i_(i) {}
  Val in(size_t group) const { return op_.in(2 + group * tensors_ + i_); }
  double Float(std::string_view name) const { return op_.Float(name); }
  Val Gradient() const { return in(0) * Float("norm_coefficient") + in(1); }

 private:
  Lowering& op_;
  size_t tensors_, i_;
};

// Calls step(Step) -> the new X and states for each tensor.
template <typename Body>
Outputs ForEachTensor(Lowering& op, size_t states, Body&& step) {
  const size_t groups = 2 + states;
  if (op.inputs.size() <= 2 || (op.inputs.size() - 2) % groups != 0) {
    op.Fail("{} takes R, T and {} inputs for each tensor, not {} in all", op.op_type(), groups,
            op.inputs.size());
  }
  const size_t tensors = (op.inputs.size() - 2) / groups;
  std::vector<Val> outputs((1 + states) * tensors);
  for (size_t i = 0; i < tensors; ++i) {
    const std::vector<Val> updated = step(Step(op, tensors, i));
    for (size_t k = 0; k < updated.size(); ++k) outputs[k * tensors + i] = updated[k];
  }
  return outputs;
}

Val Rate(Lowering& op) { return Reshape(Cast(op.in(0), DType::kFloat64), std::vector<int64_t>{}); }
Val Count(Lowering& op) { return Reshape(Cast(op.in(1), DType::kFloat64), std::vector<int64_t>{}); }

}  // namespace

Outputs LowerAdagrad(Lowering& op) {
  const Val rate = Rate(op) / (1 + Count(op) * op.Float("decay_factor"));
  return ForEachTensor(op, 1, [&](const Step& step) -> std::vector<Val> {
    const Val g = step.Gradient();
    const Val h = step.in(2) + g * g;
    return {step.in(0) - CastLike(rate, g) * g / (Sqrt(h) + step.Float("epsilon")), h};
  });
}

Outputs LowerAdam(Lowering& op) {
  Builder& b = op.builder();
  const double alpha = op.Float("alpha"), beta = op.Float("beta");
  const Val t = Count(op);
  const auto decayed = [&](double base) { return 1 - Pow(b.Scalar(DType::kFloat64, base), t); };
  const Val rate = Where(Greater(t, 0), Rate(op) * Sqrt(decayed(beta)) / decayed(alpha), Rate(op));
  return ForEachTensor(op, 2, [&](const Step& step) -> std::vector<Val> {
    const Val g = step.Gradient();
    const Val v = step.in(2) * alpha + g * (1 - alpha);
    const Val h = step.in(3) * beta + g * g * (1 - beta);
    const Val x = step.in(0) - CastLike(rate, g) * (v / (Sqrt(h) + step.Float("epsilon")));
    return {x * (1 - step.Float("norm_coefficient_post")), v, h};
  });
}

Outputs LowerMomentum(Lowering& op) {
  const std::string mode = op.String("mode");
  if (mode != "standard" && mode != "nesterov") {
    op.Fail("the mode of Momentum is standard or nesterov, not '{}'", mode);
  }
  const double alpha = op.Float("alpha");
  const Val t = Count(op);
  const Val one = op.builder().Scalar(DType::kFloat64, 1);
  const Val beta = Where(Greater(t, 0), one * op.Float("beta"), one);
  return ForEachTensor(op, 1, [&](const Step& step) -> std::vector<Val> {
    const Val g = step.Gradient();
    const Val v = step.in(2) * alpha + CastLike(beta, g) * g;
    const Val direction = mode == "nesterov" ? g + v * alpha : v;
    return {step.in(0) - CastLike(Rate(op), g) * direction, v};
  });
}

}  // namespace sardonyx::ops::training
