#include <numeric>

#include "ops/lowering.h"

namespace sardonyx::ops {

namespace {

struct Statistics {
  Val mean, variance;
};

// Over all axes but the channels', or over the batch alone.
Statistics BatchStatistics(Val x, bool spatial) {
  std::vector<int64_t> axes = {0};
  for (int axis = 2; spatial && axis < x.rank(); ++axis) axes.push_back(axis);
  const Val deviation = x - Reduce("mean", x, axes, true);
  return {Reduce("mean", x, axes, false), Reduce("mean", deviation * deviation, axes, false)};
}

}  // namespace

// y = x * (scale / sqrt(variance + epsilon)) + (bias - mean * scale / sqrt(variance + epsilon)).
// `spatial` 0 (until opset 8) has parameters for each position, of shape [C,spatial...].
Outputs LowerBatchNormalization(Lowering& op) {
  const Val x = op.in(0);
  const Val scale = Widen(op.in(1)), bias = Widen(op.in(2));
  const bool spatial = op.Int("spatial", 1) != 0;
  Statistics used{Widen(op.in(3)), Widen(op.in(4))};
  std::vector<Val> outputs(1);
  if (op.Int("training_mode") != 0) {
    const Statistics running = used;
    const double momentum = op.Float("momentum", 0.9);
    const Statistics batch = BatchStatistics(Widen(x), spatial);
    used = {CastLike(batch.mean, running.mean), CastLike(batch.variance, running.variance)};
    outputs.push_back(CastLike(running.mean * momentum + used.mean * (1 - momentum), op.in(3)));
    outputs.push_back(
        CastLike(running.variance * momentum + used.variance * (1 - momentum), op.in(4)));
    outputs.push_back(CastLike(batch.mean, op.in(3)));
    outputs.push_back(CastLike(batch.variance, op.in(4)));
  }
  const Val factor =
      CastLike(scale, used.variance) / Sqrt(used.variance + op.Float("epsilon", 1e-5));
  const Val shift = CastLike(bias, factor) - used.mean * factor;
  const auto along = [&](Val v) { return CastLike(spatial ? AlongChannels(v, x.rank()) : v, x); };
  outputs[0] = x * along(factor) + along(shift);
  outputs.resize(std::min(outputs.size(), std::max<size_t>(op.output_count(), 1)));
  return outputs;
}

// Training was said by is_test = 0 until opset 6, by the number of outputs from 7 to 13.
void AdaptBatchNormalization(Lowering& op) {
  if (op.version() >= 14) return;
  const bool training =
      op.version() < 7 ? op.Int("is_test") == 0 : op.wants(1) || op.wants(2) || op.wants(3);
  op.attributes.Set("training_mode", int64_t{training});
}

}  // namespace sardonyx::ops
