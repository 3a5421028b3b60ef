// RandomNormal, RandomUniform and their forms that take the shape from an input.

#include "ops/random/draw.h"

namespace sardonyx {
namespace ops {
namespace {

Val Draw(Lowering& op, std::string_view kind, Val shape, DType type) {
  const bool allowed = type == DType::kFloat32 || type == DType::kFloat64 ||
                       type == DType::kFloat16 || (type == DType::kBFloat16 && op.version() >= 22);
  if (!allowed) op.Fail("{}-{} cannot draw {}", op.op_type(), op.version(), Name(type));
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

}  // namespace

Outputs LowerRandomNormal(Lowering& op) { return DrawShape(op, "normal"); }
Outputs LowerRandomUniform(Lowering& op) { return DrawShape(op, "uniform"); }
Outputs LowerRandomNormalLike(Lowering& op) { return DrawLike(op, "normal"); }
Outputs LowerRandomUniformLike(Lowering& op) { return DrawLike(op, "uniform"); }

}  // namespace ops

namespace core {
namespace {

void InferRandom(InferContext& context) {
  ops::SetDrawnShape(context, static_cast<DType>(context.attributes().Int("dtype")));
}

// Rounded at each step, as arithmetic on arrays of the result's type is.
void ComputeRandom(ComputeContext& context) {
  Tensor& y = context.Allocate(0);
  const Attributes& attributes = context.attributes();
  const bool normal = attributes.String("kind") == "normal";
  RandomStream stream = ops::StreamOf(attributes);
  const auto fill = [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const C scale = static_cast<C>(attributes.Float("scale"));
    const C offset = static_cast<C>(attributes.Float("offset"));
    T* out = y.data<T>();
    const auto draw = [&](auto&& next) {
      for (int64_t i = 0; i < y.size(); ++i) {
        const T drawn = static_cast<T>(next());
        const T scaled = static_cast<T>(static_cast<C>(drawn) * scale);
        out[i] = static_cast<T>(static_cast<C>(scaled) + offset);
      }
    };
    normal ? draw([&] { return stream.Normal(); }) : draw([&] { return stream.Uniform(); });
  };
  switch (y.dtype()) {
    case DType::kFloat64: return fill(TypeTag<double>{});
    case DType::kFloat16: return fill(TypeTag<Half>{});
    case DType::kBFloat16: return fill(TypeTag<BFloat16>{});
    default: return fill(TypeTag<float>{});
  }
}

}  // namespace

const CoreOp random = {
    .name = "random", .infer = InferRandom, .reference = ComputeRandom, .is_pure = false};

}  // namespace core
}  // namespace sardonyx
