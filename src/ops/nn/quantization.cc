#include <utility>

#include "ops/lowering.h"
#include "ops/nn/quantization.h"

namespace sardonyx::ops {

namespace {

std::pair<double, double> Range(DType type) {
  const int bits = BitWidth(type);
  if (!IsInteger(type) || bits > 16) {
    Fail(ErrorCode::kUnsupported, "quantisation to {} is not supported", Name(type));
  }
  const double count = static_cast<double>(int64_t{1} << bits);
  return IsSigned(type) ? std::pair{-count / 2, count / 2 - 1} : std::pair{0.0, count - 1};
}

}  // namespace

Granularity::Granularity(const Lowering& op, Val x)
    : x_(x), axis_(op.Int("axis", 1)), block_(op.Int("block_size")) {}

Val Granularity::Spread(Val parameter) const {
  if (block_ > 0) {
    Val spread = Repeat(parameter, axis_, parameter.builder->Ints({block_}));
    const Val size = SizeOf(x_, axis_);
    Builder& b = *parameter.builder;
    return b.Make(core::slice, {spread, b.Ints({0}), size, b.Ints({x_.Axis(axis_)})});
  }
  if (parameter.rank() == 0) return parameter;
  if (parameter.rank() == 1 && parameter.shape()[0] == 1) {
    return Reshape(parameter, std::vector<int64_t>{});
  }
  return x_.rank() <= 1 ? parameter : AlongAxis(parameter, x_.rank(), x_.Axis(axis_));
}

Val ToQuantized(Val scaled, Val zero_point, DType type) {
  const auto [low, high] = Range(type);
  Val y = Round(Widen(scaled));
  if (zero_point) y = y + CastLike(zero_point, y);
  return Cast(Clip(y, low, high), type);
}

}  // namespace sardonyx::ops
