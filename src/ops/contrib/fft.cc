#include "ops/contrib/standard.h"

namespace sardonyx::ops::contrib {
namespace {

int64_t SignalAxes(const Lowering& op) {
  const int64_t count = op.Int("signal_ndim", 1);
  if (op.Int("onesided", 1) != 1) op.Fail("attribute onesided is {}, not 1", op.Int("onesided"));
  if (op.Int("normalized") != 0) op.Fail("attribute normalized is {}, not 0", op.Int("normalized"));
  if (count < 1 || count > 3) op.Fail("attribute signal_ndim is {}, not 1, 2 or 3", count);
  return count;
}

// Along an axis that counts from the end, where real and imaginary part are axis -1.
Val Dft(Lowering& op, Val x, int64_t axis, bool inverse, bool onesided) {
  const Val axis_input = op.builder().Scalar(DType::kInt64, static_cast<double>(axis));
  return Standard(op, "DFT", {x, Val{}, axis_input},
                  {{"inverse", int64_t{inverse}}, {"onesided", int64_t{onesided}}})
      .values[0];
}

}  // namespace

// Half of the spectrum of real signals in the last axes, with an axis of real and imaginary part.
Outputs LowerRfft(Lowering& op) {
  const int64_t axes = SignalAxes(op);
  Val y = Dft(op, Unsqueeze(op.in(0), {-1}), -2, false, true);
  for (int64_t axis = 1; axis < axes; ++axis) y = Dft(op, y, -2 - axis, false, false);
  return y;
}

// The real signals of which these are half of the spectrum; the last axis has an even length.
Outputs LowerIrfft(Lowering& op) {
  Val x = op.in(0);
  for (int64_t axis = SignalAxes(op) - 1; axis > 0; --axis) x = Dft(op, x, -2 - axis, true, false);
  return Squeeze(Dft(op, x, -2, true, true), {-1});
}

}  // namespace sardonyx::ops::contrib
