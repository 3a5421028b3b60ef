#include "ops/lowering.h"
#include "ops/nn/quantization.h"

namespace sardonyx::ops {

namespace {

// Weights stay the bytes they are until passes have seen them: products take them so. The builder
// would compute small constants at once.
Val LaterInInt32(Val x) {
  Builder& b = *x.builder;
  auto node = b.graph().MakeNode(core::Elementwise(Fn::kCast), {x.value},
                                 {{"to", static_cast<int64_t>(DType::kInt32)}}, 1, b.origin());
  return b.Wrap(b.graph().Append(std::move(node))->output());
}

}  // namespace

// Integer results are rounded to the nearest even, shifted and clipped; those of floating-point
// formats are cast.
Outputs LowerQuantizeLinear(Lowering& op) {
  const Val x = op.in(0), scale = op.in(1), zero_point = op.in(2);
  DType type = op.DTypeAttribute("output_dtype", DType::kUndefined);
  if (zero_point) {
    if (type != DType::kUndefined && type != zero_point.dtype()) {
      op.Fail("attribute output_dtype says {}, but the zero point is {}", Name(type),
              Name(zero_point.dtype()));
    }
    type = zero_point.dtype();
  }
  if (type == DType::kUndefined) type = DType::kUInt8;
  DType precision = op.DTypeAttribute("precision", DType::kUndefined);
  if (precision == DType::kUndefined) precision = scale.dtype();
  // Integers divide as real numbers, and no quotient is rounded to a power of two.
  if (IsInteger(precision)) precision = DType::kFloat64;
  if (precision == DType::kFloat8E8M0) precision = DType::kFloat32;
  const Granularity granularity(op, x);
  const Val scaled = Cast(x, precision) / granularity.Spread(Cast(scale, precision));
  return ToQuantized(scaled, zero_point ? granularity.Spread(zero_point) : Val{}, type,
                     op.Int("saturate", 1) != 0);
}

Outputs LowerDequantizeLinear(Lowering& op) {
  const Val x = op.in(0), scale = op.in(1);
  DType type = op.DTypeAttribute("output_dtype", DType::kUndefined);
  if (type == DType::kUndefined) type = scale.dtype();
  if (type == DType::kFloat8E8M0) op.Fail("scales of {} need output_dtype", Name(type));
  const Granularity granularity(op, x);
  const Val zero_point = op.has(2) ? granularity.Spread(op.in(2)) : Val{};
  const bool is_byte = IsByte(x.dtype());
  const bool is_weight = is_byte && x.is_constant() && x.ranked() && x.rank() > 1;
  return Cast(Dequantized(is_weight ? LaterInInt32(x) : x, granularity.Spread(scale), zero_point),
              type);
}

Outputs LowerDynamicQuantizeLinear(Lowering& op) {
  const auto [y, scale, zero_point] = QuantizeDynamically(op.in(0));
  return {y, scale, zero_point};
}

}  // namespace sardonyx::ops
