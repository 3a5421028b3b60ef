#include "ops/nn/quantized_product.h"

namespace sardonyx::ops::contrib {

namespace {

// float((a - a_zero) * (b - b_zero)) * a_scale * b_scale + bias
Val RealProduct(Val a, Val a_scale, Val a_zero, Val b, Val b_scale, Val b_zero, Val bias) {
  const Val product = MultiplyMatrices({a, OfRows(a_zero, a)}, {b, b_zero});
  const Val y = Scaled(product, Widen(a_scale) * Widen(b_scale));
  return Cast(bias ? y + Widen(bias) : y, b_scale.dtype());
}

}  // namespace

Outputs LowerMatMulIntegerToFloat(Lowering& op) {
  return RealProduct(op.in(0), op.in(2), op.in(4), op.in(1), op.in(3), op.in(5), op.in(6));
}

Outputs LowerDynamicQuantizeMatMul(Lowering& op) {
  const auto [a, a_scale, a_zero] = QuantizeDynamically(op.in(0));
  return RealProduct(a, a_scale, a_zero, op.in(1), op.in(2), op.in(3), op.in(4));
}

Outputs LowerMatMulInteger16(Lowering& op) {
  const Val a = op.in(0), b = op.in(1);
  const bool has_sign = IsSigned(a.dtype()) || IsSigned(b.dtype());
  return Cast(MultiplyMatrices({a, {}}, {b, {}}), has_sign ? DType::kInt32 : DType::kUInt32);
}

}  // namespace sardonyx::ops::contrib
