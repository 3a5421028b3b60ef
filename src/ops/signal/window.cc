#include <numbers>

#include "ops/lowering.h"

namespace sardonyx::ops {
namespace {

// a - b cos(t) + c cos(2t) with t from 0 to 2 pi over the window, whose end is its beginning if it
// is periodic.
Val CosineWindow(Lowering& op, double a, double b, double c) {
  const Val size = Cast(op.in(0), DType::kInt64);
  const Val length = Cast(size, DType::kFloat64);
  // A window of one symmetric point has no length.
  const Val period = op.Int("periodic", 1) != 0 ? length : Max(length - 1.0, 1);
  const Val t = Cast(Positions(size), DType::kFloat64) * (2 * std::numbers::pi) /
                Reshape(period, std::vector<int64_t>{});
  Val y = a - Cos(t) * b;
  if (c != 0) y = y + Cos(t * 2.0) * c;
  return Cast(y, op.DTypeAttribute("output_datatype", DType::kFloat32));
}

}  // namespace

Outputs LowerHannWindow(Lowering& op) { return CosineWindow(op, 0.5, 0.5, 0); }
Outputs LowerHammingWindow(Lowering& op) { return CosineWindow(op, 25.0 / 46, 21.0 / 46, 0); }
Outputs LowerBlackmanWindow(Lowering& op) { return CosineWindow(op, 0.42, 0.5, 0.08); }

}  // namespace sardonyx::ops
