#include "ops/contrib/standard.h"
#include "ops/nn/quantization.h"

namespace sardonyx::ops::contrib {
namespace {

struct Normalized {
  Val y, mean, inverse_deviation;
};

// With statistics where any is asked for, which kernels without them are faster than.
Normalized Normalize(Lowering& op, Val x, Val scale, Val bias, bool rms, bool statistics) {
  const std::vector<Val> results = op.builder().MakeMany(
      core::layer_norm, {x, scale, bias},
      {{"axis", op.Int("axis", -1)}, {"epsilon", op.Float("epsilon")}, {"rms", int64_t{rms}}},
      statistics ? 3 : 1);
  if (!statistics) return {results[0], {}, {}};
  const DType stash = op.DTypeAttribute("stash_type", DType::kFloat32);
  return {results[0], Cast(results[1], stash), Cast(results[2], stash)};
}

// The normalised sum of the input, what skipped layers before it, and a bias; and that sum.
Outputs SkipNormalization(Lowering& op, Val shift, Val bias, bool rms) {
  Val sum = Widen(op.in(0)) + Widen(op.in(1));
  if (bias) sum = sum + Widen(bias);
  const Normalized result = Normalize(op, sum, op.in(2), shift, rms, op.wants(1) || op.wants(2));
  const Val mean = rms && op.wants(1) ? Reduce("mean", sum, {-1}, true) : result.mean;
  return {result.y, mean, result.inverse_deviation, CastLike(sum, op.in(0))};
}

// How many words of each row the mask leaves; without one 0.
Val WordCounts(Val words, Val mask) {
  return mask ? Reduce("sum", Cast(Equal(mask, 1.0), DType::kInt32), {1}, false)
              : Filled(SizeOf(words, 0), MakeFilled(DType::kInt32, {1}, 0));
}

}  // namespace

Outputs LowerLayerNormalization(Lowering& op) {
  return Standard(op, "LayerNormalization", op.inputs, op.attributes, op.output_count());
}

Outputs LowerSimplifiedLayerNormalization(Lowering& op) {
  const Normalized result = Normalize(op, op.in(0), op.in(1), {}, true, op.wants(1));
  return {result.y, result.inverse_deviation};
}

Outputs LowerSkipLayerNormalization(Lowering& op) {
  return SkipNormalization(op, op.in(3), op.in(4), false);
}

Outputs LowerSkipSimplifiedLayerNormalization(Lowering& op) {
  return SkipNormalization(op, {}, op.in(3), true);
}

// The sum of the embeddings of words, positions and segments, normalised; how many words of each
// row the mask leaves; the sum itself.
Outputs LowerEmbedLayerNormalization(Lowering& op) {
  const Val words = op.in(0);
  const Val positions = op.has(8) ? op.in(8) : Unsqueeze(Positions(SizeOf(words, 1)), {0});
  Val sum = Gather(op.in(2), words, 0) + Gather(op.in(3), positions, 0);
  if (op.has(1)) {
    if (!op.has(4)) op.Fail("segment_ids are given, but no segment_embedding");
    sum = sum + Gather(op.in(4), op.in(1), 0);
  }
  const Val y = Normalize(op, sum, op.in(5), op.in(6), false, false).y;
  return {y, WordCounts(words, op.in(7)), sum};
}

// The same with bytes for tables, scale and shift, each with a scale and a zero point of its own.
Outputs LowerQEmbedLayerNormalization(Lowering& op) {
  const Val words = op.in(0);
  const auto real = [&](Val bytes, size_t i) {
    const Val scale = op.in(i + 6), zero = op.in(i + 11);
    for (const Val parameter : {scale, zero}) {
      if (!parameter) op.Fail("input {} has no scale or zero point", i);
      const Dims& dims = parameter.shape();
      if (dims.size() > 1 || (dims.size() == 1 && dims[0].known() && !(dims[0] == 1))) {
        op.Fail("a scale or zero point of input {} has rank {} and not one element", i,
                dims.size());
      }
    }
    return Dequantized(bytes, scale, zero);
  };
  const auto rows = [&](size_t i, Val indices) { return real(Gather(op.in(i), indices, 0), i); };
  const Val positions = Unsqueeze(Positions(SizeOf(words, 1)), {0});
  Val sum = rows(2, words) + rows(3, positions);
  if (op.has(1) != op.has(4)) op.Fail("segment_ids and segment_embedding come together");
  if (op.has(1)) sum = sum + rows(4, op.in(1));
  const Val y = Normalize(op, sum, real(op.in(5), 5), real(op.in(6), 6), false, false).y;
  return {y, WordCounts(words, op.in(7))};
}

}  // namespace sardonyx::ops::contrib
