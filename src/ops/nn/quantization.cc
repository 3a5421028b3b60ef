#include "ops/nn/quantization.h"

#include <utility>

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

Val Granularity::SpreadBlocks(Val parameter) const {
  const int axis = x_.Axis(axis_);
  if (parameter.rank() != x_.rank()) {
    op_.Fail("blocks of {}: scales of rank {} for an input of rank {}", block_, parameter.rank(),
             x_.rank());
  }
  for (int i = 0; i < x_.rank(); ++i) {
    const Dim given = parameter.shape()[i], size = x_.shape()[i];
    if (!given.known() || !size.known()) continue;
    const int64_t expected = i == axis ? (size.value() + block_ - 1) / block_ : size.value();
    if (given.value() != expected) {
      op_.Fail("blocks of {} along axis {}: {} scales along axis {}, not {}", block_, axis,
               given.value(), i, expected);
    }
  }
  Builder& b = *parameter.builder;
  const Val spread = Repeat(parameter, axis, b.Ints({block_}));
  return b.Make(core::slice, {spread, b.Ints({0}), SizeOf(x_, axis), b.Ints({axis})});
}

Val Granularity::Spread(Val parameter) const {
  if (block_ < 0) op_.Fail("attribute block_size is {}, less than 0", block_);
  if (block_ > 0) return SpreadBlocks(parameter);
  if (parameter.rank() == 0) return parameter;
  if (parameter.rank() != 1) {
    op_.Fail("scales and zero points of rank {} need a block_size", parameter.rank());
  }
  const Dim count = parameter.shape()[0];
  if (count == 1) return Reshape(parameter, std::vector<int64_t>{});
  const int axis = x_.rank() <= 1 ? 0 : x_.Axis(axis_);
  const Dim size = x_.rank() == 0 ? Dim(1) : x_.shape()[axis];
  if (count.known() && size.known() && !(count == size)) {
    op_.Fail("{} scales or zero points for the {} slices of axis {}", count.value(), size.value(),
             axis);
  }
  return AlongAxis(parameter, x_.rank(), axis);
}

Val ToQuantized(Val scaled, Val zero_point, DType type, bool saturate) {
  const Val real = Widen(scaled);
  if (!IsInteger(type)) {
    return CastTo(zero_point ? real + CastLike(zero_point, real) : real, type, saturate, "up");
  }
  const auto [low, high] = Range(type);
  Val y = Round(real);
  if (zero_point) y = y + CastLike(zero_point, y);
  return Cast(Clip(y, low, high), type);
}

Val Centered(Val x, Val zero_point) {
  const DType exact = IsInteger(x.dtype()) ? DType::kInt32 : DType::kFloat32;
  const Val wide = Cast(x, exact);
  return zero_point ? wide - Cast(zero_point, exact) : wide;
}

Val Dequantized(Val x, Val scale, Val zero_point) {
  return Cast(Centered(x, zero_point), DType::kFloat32) * Cast(scale, DType::kFloat32);
}

Val UnpackCodes(Val bytes, int64_t bits) {
  if (bits == 8) return bytes;
  std::vector<Val> parts;
  for (int64_t shift = 0; shift < 8; shift += bits) {
    parts.push_back(Unsqueeze(
        BitAnd(ShiftRight(bytes, static_cast<double>(shift)), static_cast<double>((1 << bits) - 1)),
        {-1}));
  }
  std::vector<int64_t> dims(bytes.rank(), 0);
  dims.back() = -1;
  return Reshape(Concat(parts, -1), dims);
}

DynamicallyQuantized QuantizeDynamically(Val x) {
  const std::vector<Val> ends =
      x.builder->MakeMany(core::reduce, {x}, {{"kind", "range"}, {"keepdims", int64_t{0}}}, 2);
  const Val low = Min(ends[0], 0), high = Max(ends[1], 0);
  const Val range = high - low;
  // Zeros alone: any scale will do.
  const Val scale = Where(Equal(range, 0), x.builder->Scalar(x.dtype(), 1), range) / 255;
  const Val zero_point = Cast(Round(Clip(-(low / scale), 0, 255)), DType::kUInt8);
  return {ToQuantized(x / scale, zero_point, DType::kUInt8), scale, zero_point};
}

}  // namespace sardonyx::ops
