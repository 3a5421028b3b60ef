// RandomNormal, RandomUniform and their forms that take the shape from an input.

#include <algorithm>

#include "ops/random/draw.h"

namespace sardonyx {
namespace ops {
namespace {

Val Draw(Lowering& op, std::string_view kind, Val shape, DType type) {
  if (!IsPlainFloat(type) || (type == DType::kBFloat16 && op.version() < 22)) {
    op.Fail("{}-{} cannot draw {}", op.op_type(), op.version(), Name(type));
  }
  const bool normal = kind == "normal";
  const float low = static_cast<float>(op.Float("low"));
  const float range = static_cast<float>(op.Float("high", 1)) - low;
  Attributes attributes{{"kind", std::string(kind)},
                        {"dtype", static_cast<int64_t>(type)},
                        {"scale", normal ? op.Float("scale", 1) : range},
                        {"offset", normal ? op.Float("mean") : low}};
  AddSeed(op, &attributes);
  return op.builder().Make(core::random, {shape}, std::move(attributes));
}

Val DrawShape(Lowering& op, std::string_view kind) {
  return Draw(op, kind, op.builder().Ints(op.Ints("shape")),
              op.DTypeAttribute("dtype", DType::kFloat32));
}

Val DrawLike(Lowering& op, std::string_view kind) {
  return Draw(op, kind, ShapeOf(op.in(0)), op.DTypeAttribute("dtype", op.in(0).dtype()));
}

// Rounded at each step, as arithmetic on arrays of the result's type is.
template <typename T>
void DrawAs(const Attributes& attributes, int64_t count, T* out) {
  using C = ComputeType<T>;
  constexpr int64_t kBlock = 512;
  const C scale = static_cast<C>(attributes.Float("scale"));
  const C offset = static_cast<C>(attributes.Float("offset"));
  const bool normal = attributes.String("kind") == "normal";
  RandomStream stream = StreamOf(attributes);
  double drawn[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = std::min(kBlock, count - begin);
    if (normal) {
      stream.Normal(drawn, size);
    } else {
      for (int64_t i = 0; i < size; ++i) drawn[i] = stream.Uniform();
    }
    for (int64_t i = 0; i < size; ++i) {
      const T scaled = static_cast<T>(static_cast<C>(static_cast<T>(drawn[i])) * scale);
      out[begin + i] = static_cast<T>(static_cast<C>(scaled) + offset);
    }
  }
}

}  // namespace

void DrawElements(const Attributes& attributes, int64_t count, void* out) {
  switch (static_cast<DType>(attributes.Int("dtype"))) {
    case DType::kFloat64: return DrawAs(attributes, count, static_cast<double*>(out));
    case DType::kFloat16: return DrawAs(attributes, count, static_cast<Half*>(out));
    case DType::kBFloat16: return DrawAs(attributes, count, static_cast<BFloat16*>(out));
    default: return DrawAs(attributes, count, static_cast<float*>(out));
  }
}

Outputs LowerRandomNormal(Lowering& op) { return DrawShape(op, "normal"); }
Outputs LowerRandomUniform(Lowering& op) { return DrawShape(op, "uniform"); }
Outputs LowerRandomNormalLike(Lowering& op) { return DrawLike(op, "normal"); }
Outputs LowerRandomUniformLike(Lowering& op) { return DrawLike(op, "uniform"); }

}  // namespace ops

namespace core {
namespace {

void InferRandom(InferContext& context) {
  const DType type = static_cast<DType>(context.attributes().Int("dtype"));
  if (!IsPlainFloat(type)) {
    context.Fail("random numbers are float32, float64, float16 or bfloat16, not of type {}",
                 context.attributes().Int("dtype"));
  }
  ops::SetDrawnShape(context, type);
}

void ComputeRandom(ComputeContext& context) {
  Tensor& y = context.Allocate(0);
  ops::DrawElements(context.attributes(), y.size(), y.raw());
}

}  // namespace

const CoreOp random = {.name = "random",
                       .inputs = "t",
                       .infer = InferRandom,
                       .reference = ComputeRandom,
                       .is_pure = false};

}  // namespace core
}  // namespace sardonyx
