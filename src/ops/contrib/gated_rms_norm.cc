#include "ops/contrib/shapes.h"

namespace sardonyx::ops::contrib {

// RMS normalisation of each `scale.size()` features, times a function of the gate, in float32.
Outputs LowerGatedRMSNorm(Lowering& op) {
  const Val x = op.in(0), gate = Widen(op.in(2));
  const Val scale = Reshape(Widen(op.in(1)), std::vector<int64_t>{-1});
  const std::string activation = op.String("activation", "silu");
  const bool silu = activation == "silu" || activation == "swish";
  if (!silu && activation != "sigmoid") {
    op.Fail("attribute activation is '{}', not silu, swish or sigmoid", activation);
  }
  const int rank = x.rank();
  if (rank < 1) op.Fail("X is a scalar");
  ExpectShape(op, op.in(2), "gate", x.shape());
  const int64_t features = x.size(-1), group = scale.size(0);
  if (group < 1 || features % group != 0) {
    op.Fail("the {} features of X are no multiple of the {} of scale", features, group);
  }

  Val rows = x;
  std::vector<int64_t> dims(rank - 1, 0);
  if (features != group) {
    dims.insert(dims.end(), {features / group, group});
    rows = Reshape(x, dims);
    dims.resize(rank - 1);
  }
  Val y = op.builder().Make(
      core::layer_norm, {Widen(rows), scale},
      {{"axis", int64_t{-1}}, {"epsilon", op.Float("epsilon", 1e-5)}, {"rms", int64_t{1}}});
  if (features != group) {
    dims.push_back(features);
    y = Reshape(y, dims);
  }
  return CastLike(silu ? y * (gate * Sigmoid(gate)) : y * Sigmoid(gate), x);
}

}  // namespace sardonyx::ops::contrib
