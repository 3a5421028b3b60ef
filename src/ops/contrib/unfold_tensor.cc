// UnfoldTensor of com.microsoft: all windows along an axis, their elements on a new last one.

#include "ops/lowering.h"

namespace sardonyx::ops::contrib {

Outputs LowerUnfoldTensor(Lowering& op) {
  const Val x = op.in(0);
  const int64_t size = op.Int("size"), step = op.Int("step", 1);
  if (step < 1) op.Fail("step is {}, not positive", step);
  const int rank = x.rank(), axis = x.Axis(op.Int("dim", -1));
  const int64_t length = x.size(axis);
  if (size < 1 || size > length) op.Fail("windows of {} along an axis of {}", size, length);
  const int64_t count = (length - size) / step + 1;
  Builder& builder = op.builder();
  Val windows;
  if (size == step) {
    // The windows are all there is: [..., count, size, ...].
    const Val used = Slice(x, {0}, {count * size}, {axis});
    const Val shape = Concat({builder.Ints({count, size}), ShapeOf(x, axis + 1, rank)}, 0);
    windows = Reshape(used, axis > 0 ? Concat({ShapeOf(x, 0, axis), shape}, 0) : shape, true);
  } else {
    const Val first = Positions(builder.Ints({count})) * static_cast<double>(step);
    windows =
        Gather(x, Unsqueeze(first, {1}) + Unsqueeze(Positions(builder.Ints({size})), {0}), axis);
  }
  std::vector<int64_t> perm;
  for (int i = 0; i <= rank; ++i) {
    if (i != axis + 1) perm.push_back(i);
  }
  perm.push_back(axis + 1);
  return Transpose(windows, perm);
}

}  // namespace sardonyx::ops::contrib
