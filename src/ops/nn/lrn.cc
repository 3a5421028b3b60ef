#include "ops/lowering.h"

namespace sardonyx::ops {

namespace {

// x^power, by square roots where they are exact.
Val Power(Val x, double power) {
  if (power == 0.5) return Sqrt(x);
  if (power == 0.75) return Sqrt(x) * Sqrt(Sqrt(x));
  return Pow(x, power);
}

}  // namespace

// x / (bias + alpha / size * sum of squares over `size` channels around)^beta. The window slides
// over the channels: an average pool of one channel that sees [N,C,spatial] as [N,pixels,C,1].
Outputs LowerLRN(Lowering& op) {
  const Val x = op.in(0);
  const int64_t size = op.Int("size");
  if (size < 1) op.Fail("attribute size is {}", size);
  const Val pixels = Transpose(Reshape(x * x, {0, 0, -1}), {0, 2, 1});
  const Val mean =
      op.builder().Make(core::average_pool, {Reshape(pixels, {0, 0, 0, 1})},
                        {{"kernel", std::vector<int64_t>{1, size}},
                         {"strides", std::vector<int64_t>{1, 1}},
                         {"dilations", std::vector<int64_t>{1, 1}},
                         {"pads", std::vector<int64_t>{0, (size - 1) / 2, 0, size / 2}},
                         {"auto_pad", std::string("NOTSET")},
                         {"ceil_mode", int64_t{0}},
                         {"count_include_pad", int64_t{1}}});
  // In the shape of x, so that what follows is one sweep.
  const Val around = Reshape(Transpose(Reshape(mean, {0, 0, 0}), {0, 2, 1}), ShapeOf(x), true);
  const Val base = op.Float("bias", 1) + op.Float("alpha", 1e-4) * around;
  return x / Power(base, op.Float("beta", 0.75));
}

}  // namespace sardonyx::ops
