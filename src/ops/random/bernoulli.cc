#include "base/cast.h"
#include "ops/random/draw.h"

namespace sardonyx {
namespace ops {

Outputs LowerBernoulli(Lowering& op) {
  const DType type = op.DTypeAttribute("dtype", op.in(0).dtype());
  const bool allowed = type == DType::kBool || (IsInteger(type) && BitWidth(type) >= 8) ||
                       (IsFloat(type) && BitWidth(type) >= 16);
  if (!allowed) op.Fail("Bernoulli cannot draw {}", Name(type));
  Attributes attributes{{"dtype", static_cast<int64_t>(type)}};
  AddSeed(op, &attributes);
  return op.builder().Make(core::bernoulli, {op.in(0)}, std::move(attributes));
}

}  // namespace ops

namespace core {
namespace {

void InferBernoulli(InferContext& context) {
  const DType type = context.dtype(0);
  if (!IsFloat(type)) context.Fail("probabilities are {}, not floats", Name(type));
  const Fact& p = context.input(0);
  context.Set(0, static_cast<DType>(context.attributes().Int("dtype")), p.shape);
}

void ComputeBernoulli(ComputeContext& context) {
  const Tensor& p = context.input(0);
  Tensor& y = context.Allocate(0);
  RandomStream stream = ops::StreamOf(context.attributes());
  std::vector<uint8_t> drawn(p.size());
  const std::vector<double> probabilities = ToDoubles(p);
  for (size_t i = 0; i < drawn.size(); ++i) {
    const double probability = probabilities[i];
    if (!(probability >= 0 && probability <= 1)) {
      Fail(ErrorCode::kInvalidArgument, "element {} of the input is no probability: {}", i,
           probability);
    }
    drawn[i] = stream.Bernoulli(probability);
  }
  ConvertElements(DType::kUInt8, drawn.data(), y.dtype(), y.raw(), y.size(), true);
}

}  // namespace

const CoreOp bernoulli = {.name = "bernoulli",
                          .inputs = "t",
                          .infer = InferBernoulli,
                          .reference = ComputeBernoulli,
                          .is_pure = false};

}  // namespace core
}  // namespace sardonyx
