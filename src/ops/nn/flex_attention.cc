#include <cmath>

#include "ops/control/body.h"
#include "ops/nn/attention.h"

namespace sardonyx::ops {

DType FlexPrecision(const Attributes& attributes, DType type) {
  const DType otherwise = type == DType::kFloat64 ? type : DType::kFloat32;
  const auto given =
      static_cast<DType>(attributes.Int("softmax_precision", static_cast<int64_t>(otherwise)));
  if (!IsPlainFloat(given)) {
    Fail(ErrorCode::kInvalidModel, "attribute softmax_precision is {}, no type for it",
         static_cast<int64_t>(given));
  }
  return given;
}

namespace preview {

namespace {

// The body of a graph attribute on one value, which keeps its type; the value if there is none.
Val Modify(Lowering& op, std::string_view attribute, Val x) {
  const auto body = op.attributes.Body(attribute);
  if (body == nullptr) return x;
  std::vector<Val> arguments{x};
  const size_t captures = static_cast<size_t>(op.Int("captures"));
  arguments.insert(arguments.end(), op.inputs.end() - captures, op.inputs.end());
  const std::vector<Val> outputs = Inline(op.builder(), *body, arguments);
  if (outputs.size() != 1) op.Fail("{} must have one output, has {}", attribute, outputs.size());
  const Val y = outputs[0];
  const bool same_shape = !y.ranked() || !x.ranked() || y.rank() == x.rank();
  if (y.dtype() != x.dtype() || !same_shape) {
    op.Fail("{} must give what it takes, {} of rank 4", attribute, Name(x.dtype()));
  }
  return y;
}

}  // namespace

// prob_mod(softmax(score_mod(Q K' scale))) V for each head.
Outputs LowerFlexAttention(Lowering& op) {
  const Val q = op.in(0);
  Val k = op.in(1), v = op.in(2);
  for (const Val& x : {q, k, v}) {
    if (x.rank() != 4) op.Fail("Q, K and V must have rank 4, one has {}", x.rank());
  }
  const DType type = q.dtype();
  const double scale =
      op.HasAttribute("scale") ? op.Float("scale") : 1 / std::sqrt(static_cast<double>(q.size(3)));
  // The standard takes this root in float32 for all types.
  const double factor = std::sqrt(static_cast<float>(scale));
  ShareHeads(op, q, &k, &v);
  Val scores = MatMul(q * factor, k * factor, false, true);
  scores = Cast(scores, FlexPrecision(op.attributes, type));
  const Val weights = Modify(op, "prob_mod", Softmax(Modify(op, "score_mod", scores), -1));
  return Cast(MatMul(weights, CastLike(v, weights)), type);
}

}  // namespace preview

}  // namespace sardonyx::ops
