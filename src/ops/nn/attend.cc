#include "ops/nn/attention.h"

#include <cmath>
#include <limits>

namespace sardonyx::ops {
namespace {

constexpr double kNegativeInfinity = -std::numeric_limits<double>::infinity();

}  // namespace

void ShareHeads(const Lowering& op, Val queries, Val* keys, Val* values) {
  const int64_t query_heads = queries.size(1), key_heads = keys->size(1);
  if (query_heads == key_heads) return;
  if (key_heads == 0 || query_heads % key_heads != 0) {
    op.Fail("{} query heads cannot share {} key heads", query_heads, key_heads);
  }
  const Val copies = queries.builder->Ints({query_heads / key_heads});
  *keys = Repeat(*keys, 1, copies);
  *values = Repeat(*values, 1, copies);
}

Val SplitHeads(Val x, int64_t heads) {
  return Transpose(Reshape(x, std::vector<int64_t>{0, 0, heads, -1}), {0, 2, 1, 3});
}

Val JoinHeads(Val x) { return Reshape(Transpose(x, {0, 2, 1, 3}), std::vector<int64_t>{0, 0, -1}); }

Val Hide(Val seen, DType type) {
  Builder& b = *seen.builder;
  return Where(seen, b.Scalar(type, 0), b.Scalar(type, kNegativeInfinity));
}

Attended Attend(const Lowering& op, Val queries, Val keys, Val values, const Scoring& scoring) {
  const DType type = queries.dtype();
  const DType precision = scoring.precision == DType::kUndefined ? type : scoring.precision;
  ShareHeads(op, queries, &keys, &values);
  Attended result;
  if (IsHalf(type)) {
    // The root of the scale each, as the standard has it, lest the product overflow or lose digits.
    const double factor = std::sqrt(std::abs(scoring.scale));
    result.product =
        MatMul(queries * std::copysign(factor, scoring.scale), keys * factor, false, true);
  } else {
    result.product = MatMul(queries, keys, false, true) * scoring.scale;
  }
  const double cap = scoring.softcap;
  result.capped = cap > 0 ? Tanh(result.product / cap) * cap : result.product;
  result.biased = scoring.bias ? result.capped + scoring.bias : result.capped;
  Val scores = Cast(result.biased, precision);
  if (scoring.sink) {
    const Val shape = Concat({ShapeOf(scores, 0, 3), scores.builder->Ints({1})}, 0);
    scores = Concat({scores, Expand(Cast(scoring.sink, precision), shape)}, 3);
  }
  result.weights = Cast(Softmax(scores, -1), type);
  if (scoring.sink) {
    result.weights = Slice(result.weights, {0}, {-1}, {3});
  } else if (scoring.bias) {
    const Val blind = Equal(Reduce("max", scoring.bias, {-1}, true), kNegativeInfinity);
    result.weights = Where(blind, blind.builder->Scalar(type, 0), result.weights);
  }
  result.y = MatMul(result.weights, CastLike(values, result.weights));
  return result;
}

}  // namespace sardonyx::ops
