#include "ops/ml/keys.h"

namespace sardonyx::ops::ml {

// An element that is no category has a position behind the last, which one_hot leaves all zero.
Outputs LowerOneHotEncoder(Lowering& op) {
  Builder& builder = op.builder();
  const Tensor keys = StringsOrInts(op, "cats_strings", "cats_int64s");
  const Val x = op.in(0).dtype() == DType::kString ? op.in(0) : Cast(op.in(0), DType::kInt64);
  const Val count = builder.Constant(MakeScalar(keys.size()));
  const Val position = Translate(op, x, keys, Val(), Repeated::kLast, op.Int("zeros", 1) == 0);
  const Val off_on = builder.Constant(MakeVector(std::vector<float>{0, 1}));
  return builder.Make(core::one_hot, {position, count, off_on}, {{"axis", int64_t{-1}}});
}

}  // namespace sardonyx::ops::ml
