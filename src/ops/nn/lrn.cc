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
// over the channels: an average pool that sees [N,C,spatial] as N rows of C positions.
Outputs LowerLRN(Lowering& op) {
  const Val x = op.in(0);
  const int64_t size = op.Int("size");
  const Val squares = Reshape(x * x, {0, 0, -1});
  const Val mean = op.builder().Make(core::average_pool, {squares},
                                     {{"kernel", std::vector<int64_t>{size}},
                                      {"strides", std::vector<int64_t>{1}},
                                      {"dilations", std::vector<int64_t>{1}},
                                      {"pads", std::vector<int64_t>{(size - 1) / 2, size / 2}},
                                      {"auto_pad", std::string("NOTSET")},
                                      {"ceil_mode", int64_t{0}},
                                      {"count_include_pad", int64_t{1}}});
  const Val base = op.Float("bias", 1) + op.Float("alpha", 1e-4) * mean;
  return x / Reshape(Power(base, op.Float("beta", 0.75)), ShapeOf(x), true);
}

}  // namespace sardonyx::ops
