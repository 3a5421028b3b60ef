#include <numeric>

#include "ops/lowering.h"

namespace sardonyx::ops {

// Where an axis is too long, half of what is too much goes at either end (the smaller half first);
// where it is too short, half of what is missing comes.
Outputs LowerCenterCropPad(Lowering& op) {
  const Val x = op.in(0);
  std::vector<int64_t> axes = op.Ints("axes");
  if (!op.HasAttribute("axes")) {
    axes.resize(x.rank());
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (int64_t& axis : axes) axis = x.Axis(axis);
  Builder& b = op.builder();
  const Val sizes = Gather(ShapeOf(x), b.Ints(axes), 0), target = Cast(op.in(1), DType::kInt64);
  const Val zero = b.Scalar(DType::kInt64, 0);
  const Val start = Max(sizes - target, zero) / 2.0, missing = Max(target - sizes, zero);
  const Val cropped = b.Make(core::slice, {x, start, start + Min(sizes, target), b.Ints(axes)});
  const Val before = missing / 2.0;
  return b.Make(core::pad, {cropped, Concat({before, missing - before}, 0), Val{}, b.Ints(axes)},
                {{"mode", std::string("constant")}});
}

}  // namespace sardonyx::ops
