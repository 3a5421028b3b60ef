#include <limits>

#include "ops/lowering.h"

namespace sardonyx::ops {

namespace {

// The rows [N,groups,...] of x [N,C,spatial...], normalised over axis 2 and behind; scale and bias
// broadcast to them.
Outputs NormalizeGroups(Lowering& op, Val rows, Val scale, Val bias) {
  const Val y = op.builder().Make(
      core::layer_norm, {rows, scale, bias},
      {{"axis", int64_t{2}}, {"epsilon", op.Float("epsilon", 1e-5)}, {"rms", int64_t{0}}});
  return Reshape(y, ShapeOf(op.in(0)), true);
}

}  // namespace

Outputs LowerInstanceNormalization(Lowering& op) {
  // 0 copies the size of the axis: a group a channel.
  const Val rows = Reshape(op.in(0), std::vector<int64_t>{0, 0, -1});
  return NormalizeGroups(op, rows, Unsqueeze(op.in(1), {1}), Unsqueeze(op.in(2), {1}));
}

Outputs LowerGroupNormalization(Lowering& op) {
  const int64_t groups = op.Int("num_groups");
  if (groups < 1) op.Fail("attribute num_groups is {}, less than 1", groups);
  const Val x = op.in(0);
  if (x.rank() > 1 && x.shape()[1].known() && x.size(1) % groups != 0) {
    op.Fail("{} channels cannot be cut into {} groups", x.size(1), groups);
  }
  const Val channels = SizeOf(x, 1) / static_cast<double>(groups);
  const Val rows = Reshape(
      x, Concat({ShapeOf(x, 0, 1), x.builder->Ints({groups}), channels, x.builder->Ints({-1})}, 0));
  const std::vector<int64_t> dims = {groups, -1, 1};
  return NormalizeGroups(op, rows, Reshape(op.in(1), dims), Reshape(op.in(2), dims));
}

// GroupNormalization-18 has a scale and a bias for each group, not for each channel.
void AdaptGroupNormalization(Lowering& op) {
  if (op.version() >= 21) return;
  const Val channels = SizeOf(op.in(0), 1) / static_cast<double>(op.Int("num_groups"));
  op.SetInput(1, Repeat(op.in(1), 0, channels));
  op.SetInput(2, Repeat(op.in(2), 0, channels));
}

// MeanVarianceNormalization-1, an experiment before the standard had it in opset 9.
void AdaptMeanVarianceNormalization(Lowering& op) {
  if (op.version() >= 9) return;
  std::vector<int64_t> axes;
  for (int64_t axis = 0; axis < op.in(0).rank(); ++axis) {
    if (axis != 1 || op.Int("across_channels") != 0) axes.push_back(axis);
  }
  op.attributes.Set("axes", axes);
}

// The standard's body: variance as E[x^2] - E[x]^2, and 1e-9 added to the deviation.
Outputs LowerMeanVarianceNormalization(Lowering& op) {
  const Val x = Widen(op.in(0));
  std::vector<int64_t> axes = op.Ints("axes");
  if (!op.HasAttribute("axes")) axes = {0, 2, 3};
  const Val mean = Reduce("mean", x, axes, true);
  if (op.Int("normalize_variance", 1) == 0) return CastLike(x - mean, op.in(0));
  const Val variance = Reduce("mean", x * x, axes, true) - mean * mean;
  return CastLike((x - mean) / (Sqrt(variance) + 1e-9), op.in(0));
}

// Vectors of norm 0 stay 0.
Outputs LowerLpNormalization(Lowering& op) {
  const Val x = op.in(0);
  const int64_t p = op.Int("p", 2);
  if (p != 1 && p != 2) op.Fail("attribute p is {}, not 1 or 2", p);
  const Val norm = Reduce(p == 1 ? "l1" : "l2", x, {op.Int("axis", -1)}, true);
  const Val infinity = op.builder().Scalar(x.dtype(), std::numeric_limits<double>::infinity());
  return x / Where(Equal(norm, 0.0), infinity, norm);
}

}  // namespace sardonyx::ops
