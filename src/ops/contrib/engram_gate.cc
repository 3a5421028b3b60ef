#include <cmath>

#include "ops/contrib/shapes.h"

namespace sardonyx::ops::contrib {
namespace {

enum Input : size_t { kKey, kQuery, kValue, kKeyScale, kQueryScale, kValueScale };

}  // namespace

// How much a key and a query agree, both normalised, gates a value that all branches share. With
// d the product of the two:
//   gate = sigmoid(sign(d) sqrt(max(|d|, 1e-6)))
// What norms divide by is taken to the end of each row, so that no row is normalised for itself.
Outputs LowerEngramGate(Lowering& op) {
  const Val k = Widen(op.in(kKey)), q = Widen(op.in(kQuery)), value = Widen(op.in(kValue));
  ExpectRank(op, k, "key", 4);
  const Dims dims = k.shape();
  ExpectShape(op, q, "query", dims);
  ExpectShape(op, value, "value", {dims[0], dims[1], dims[3]});
  ExpectShape(op, op.in(kKeyScale), "key_norm_scale", {dims[2], dims[3]});
  ExpectShape(op, op.in(kQueryScale), "query_norm_scale", {dims[2], dims[3]});
  if (op.has(kValueScale)) {
    ExpectShape(op, op.in(kValueScale), "conv_norm_scale", {dims[2], dims[3]});
  } else if (op.wants(1)) {
    op.Fail("the output gated_value_normed needs the input conv_norm_scale");
  }
  const auto size = static_cast<double>(k.size(3));
  const double epsilon = op.Float("epsilon", 1e-5);
  const auto squares = [&](Val x) { return Reduce("sum_square", x, {-1}, true) / size; };

  const Val weights = Widen(op.in(kKeyScale)) * Widen(op.in(kQueryScale));
  const Val product = Reduce("sum", k * q * weights, {-1}, true);
  const Val norms = Sqrt((squares(k) + epsilon) * (squares(q) + epsilon));
  const Val d = product / (norms * std::sqrt(size));
  const Val gate = Sigmoid(Sign(d) * Sqrt(Max(Abs(d), 1e-6)));  // [batch,tokens,branches,1]
  const Val shared = Unsqueeze(value, {2});                     // [batch,tokens,1,features]
  const Val y = CastLike(gate * shared, op.in(kKey));
  if (!op.wants(1)) return y;
  const Val factor = gate / Sqrt(gate * gate * squares(shared) + epsilon);
  return {y, CastLike(factor * shared * Widen(op.in(kValueScale)), op.in(kKey))};
}

}  // namespace sardonyx::ops::contrib
