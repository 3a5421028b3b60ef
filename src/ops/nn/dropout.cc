#include <algorithm>

#include "ops/random/draw.h"

namespace sardonyx {
namespace ops {
namespace {

Val Mask(Lowering& op, Val ratio, Val training) {
  Attributes attributes;
  AddSeed(op, &attributes);
  return op.builder().Make(core::dropout_mask, {ShapeOf(op.in(0)), ratio, training},
                           std::move(attributes));
}

// Which elements are kept: all, outside of training.
Val FullMask(Lowering& op) {
  const DType type = op.version() >= 10 ? DType::kBool : op.in(0).dtype();
  return Filled(ShapeOf(op.in(0)), MakeFilled(type, {1}, 1));
}

}  // namespace

// From opset 7 to 10 there is inference alone. Before, the attribute is_test asks for it; it is 0
// by default, but models of that age leave it out and mean inference all the same. One that trains
// asks for the mask, which inference does not fill.
void AdaptDropout(Lowering& op) {
  if (op.version() >= 12) return;
  const bool training = op.version() < 7 && op.Int("is_test") == 0 && op.wants(1);
  op.SetInput(1, op.builder().Scalar(DType::kFloat32, op.Float("ratio", 0.5)));
  op.SetInput(2, op.builder().Scalar(DType::kBool, training));
}

Outputs LowerDropout(Lowering& op) {
  Builder& b = op.builder();
  const Val x = op.in(0);
  const bool known = !op.has(2) || op.in(2).is_constant();
  if (known && (!op.has(2) || op.in(2).ints().at(0) == 0)) {
    return {x, op.wants(1) ? FullMask(op) : Val{}};
  }
  // Half and smaller types are computed in float, and rounded once.
  const DType wide = x.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const Val ratio = op.has(1) ? Reshape(Cast(op.in(1), DType::kFloat64), std::vector<int64_t>{})
                              : b.Scalar(DType::kFloat64, 0.5);
  const Val training = Reshape(op.in(2), std::vector<int64_t>{});
  const Val mask = Mask(op, ratio, training);
  const Val scale = Cast(1 / (1 - ratio), wide);
  const Val factor = known ? scale : Where(training, scale, b.Scalar(wide, 1));
  const Val y = Cast(Cast(x, wide) * Cast(mask, wide) * factor, x.dtype());
  return {y, op.version() < 10 && op.wants(1) ? Cast(mask, x.dtype()) : mask};
}

}  // namespace ops

namespace core {
namespace {

void InferDropoutMask(InferContext& context) {
  for (const size_t i : {size_t{1}, size_t{2}}) {
    if (!context.input(i).static_shape()) continue;
    for (Dim dim : context.shape(i)) {
      if (!(dim == 1)) {
        context.Fail("{} is not one value but {}", i == 1 ? "ratio" : "training_mode",
                     context.Print(context.shape(i)));
      }
    }
  }
  ops::SetDrawnShape(context, DType::kBool);
}

void ComputeDropoutMask(ComputeContext& context) {
  Tensor& mask = context.Allocate(0);
  bool* keeps = mask.data<bool>();
  const double ratio = ToDoubles(context.input(1)).at(0);
  if (!(ratio >= 0 && ratio < 1)) {
    Fail(ErrorCode::kInvalidArgument, "the ratio {} of a dropout is not in [0, 1)", ratio);
  }
  if (ToInts(context.input(2)).at(0) == 0) {
    std::fill_n(keeps, mask.size(), true);
    return;
  }
  RandomStream stream = ops::StreamOf(context.attributes());
  for (int64_t i = 0; i < mask.size(); ++i) keeps[i] = stream.Uniform() >= ratio;
}

}  // namespace

const CoreOp dropout_mask = {.name = "dropout_mask",
                             .inputs = "ttt",
                             .infer = InferDropoutMask,
                             .reference = ComputeDropoutMask,
                             .is_pure = false};

}  // namespace core
}  // namespace sardonyx
