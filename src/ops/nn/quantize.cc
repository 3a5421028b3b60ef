#include "ops/lowering.h"
#include "ops/nn/quantization.h"

namespace sardonyx::ops {

// Integer results are rounded to the nearest even, shifted and clipped; those of floating-point
// formats are cast.
Outputs LowerQuantizeLinear(Lowering& op) {
  const Val x = op.in(0), zero_point = op.in(2);
  DType type = op.DTypeAttribute("output_dtype", DType::kUndefined);
  if (zero_point) type = zero_point.dtype();
  if (type == DType::kUndefined) type = DType::kUInt8;
  DType precision = op.DTypeAttribute("precision", DType::kUndefined);
  if (precision == DType::kUndefined) precision = op.in(1).dtype();
  const Granularity granularity(op, x);
  const Val scaled = Cast(x, precision) / granularity.Spread(Cast(op.in(1), precision));
  if (IsInteger(type)) {
    const Val shift = zero_point ? granularity.Spread(zero_point) : Val{};
    return ToQuantized(scaled, shift, type);
  }
  Val y = scaled;
  if (zero_point && BitWidth(type) < 8) {
    y = y + granularity.Spread(Cast(zero_point, precision));
  }
  return CastTo(y, type, op.Int("saturate", 1) != 0, "up");
}

Outputs LowerDequantizeLinear(Lowering& op) {
  const Val x = op.in(0), scale = op.in(1);
  DType type = op.DTypeAttribute("output_dtype", DType::kUndefined);
  if (type == DType::kUndefined) type = scale.dtype();
  const Granularity granularity(op, x);
  Val y;
  if (op.has(2) && IsInteger(x.dtype())) {
    const Val shift = granularity.Spread(Cast(op.in(2), DType::kInt32));
    y = Cast(Cast(x, DType::kInt32) - shift, DType::kFloat32);
  } else {
    y = Cast(x, DType::kFloat32);
  }
  return Cast(y * granularity.Spread(Cast(scale, DType::kFloat32)), type);
}

}  // namespace sardonyx::ops
