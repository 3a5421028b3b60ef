#include <algorithm>

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
  const bool is_double = std::any_of(op.inputs.begin(), op.inputs.end(),
                                     [](Val v) { return v.dtype() == DType::kFloat64; });
  const auto wide = [&](Val v) { return is_double ? Cast(v, DType::kFloat64) : Widen(v); };
  const Val scale = wide(op.in(1)), bias = wide(op.in(2));
  const bool spatial = op.Int("spatial", 1) != 0;
  Statistics used{wide(op.in(3)), wide(op.in(4))};
  std::vector<Val> outputs(1);
  if (op.Int("training_mode") != 0) {
    const Statistics running = used;
    const double momentum = op.Float("momentum", 0.9);
    const Statistics batch = BatchStatistics(wide(x), spatial);
    used = batch;
    outputs.push_back(CastLike(running.mean * momentum + used.mean * (1 - momentum), op.in(3)));
    outputs.push_back(
        CastLike(running.variance * momentum + used.variance * (1 - momentum), op.in(4)));
    outputs.push_back(CastLike(batch.mean, op.in(3)));
    outputs.push_back(CastLike(batch.variance, op.in(4)));
  }
  const Val factor = scale / Sqrt(used.variance + op.Float("epsilon", 1e-5));
  const Val shift = bias - used.mean * factor;
  const auto along = [&](Val v) { return CastLike(spatial ? AlongChannels(v, x.rank()) : v, x); };
  outputs[0] = x * along(factor) + along(shift);
  outputs.resize(std::min(outputs.size(), std::max<size_t>(op.output_count(), 1)));
  return outputs;
}

// Until opset 13 training was said by asking for more outputs than y, which is_test, 0 by default,
// forbade until opset 6.
void AdaptBatchNormalization(Lowering& op) {
  if (op.version() >= 14) return;
  const bool training = op.Int("is_test") == 0 && (op.wants(1) || op.wants(2) || op.wants(3));
  op.attributes.Set("training_mode", int64_t{training});
}

}  // namespace sardonyx::ops
