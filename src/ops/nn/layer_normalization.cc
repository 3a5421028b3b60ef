#include "ops/lowering.h"

namespace sardonyx::ops {

// `stash_type` is the type of the statistics; the core operation sums 16-bit formats in float32.
Outputs LowerLayerNormalization(Lowering& op) {
  const bool statistics = op.wants(1) || op.wants(2);
  std::vector<Val> results = op.builder().MakeMany(
      core::layer_norm, {op.in(0), op.in(1), op.in(2)},
      {{"axis", op.Int("axis", -1)}, {"epsilon", op.Float("epsilon", 1e-5)}, {"rms", int64_t{0}}},
      statistics ? 3 : 1);
  const DType stash = op.DTypeAttribute("stash_type", DType::kFloat32);
  for (size_t i = 1; i < results.size(); ++i) results[i] = Cast(results[i], stash);
  return results;
}

Outputs LowerRMSNormalization(Lowering& op) {
  return op.builder().Make(
      core::layer_norm, {op.in(0), op.in(1)},
      {{"axis", op.Int("axis", -1)}, {"epsilon", op.Float("epsilon", 1e-5)}, {"rms", int64_t{1}}});
}

}  // namespace sardonyx::ops
