#include <algorithm>

#include "ops/lowering.h"

namespace sardonyx::ops {

// Takes a border (left, top, right, bottom) off images [N,C,H,W], or, with `scale` (height, width),
// a window of that size whose corner the border gives.
Outputs LowerCrop(Lowering& op) {
  const Val x = op.in(0);
  const std::vector<int64_t>&border = op.Ints("border"), &scale = op.Ints("scale");
  if (x.rank() != 4) op.Fail("takes images [N,C,H,W], not a tensor of rank {}", x.rank());
  if (border.size() != 4 || std::ranges::any_of(border, [](int64_t b) { return b < 0; })) {
    op.Fail("attribute border must have four elements, none negative");
  }
  if (!scale.empty() && scale.size() != 2) op.Fail("attribute scale must be (height, width)");
  std::vector<int64_t> ends;
  for (int axis = 0; axis < 2; ++axis) {
    const int64_t first = border[1 - axis], size = x.size(2 + axis);
    const int64_t end = scale.empty() ? size - border[3 - axis] : first + scale[axis];
    if (first > end || end > size) {
      op.Fail("border and scale reach beyond the {} pixels of axis {}", size, 2 + axis);
    }
    ends.push_back(end);
  }
  return Slice(x, {border[1], border[0]}, ends, {2, 3});
}

}  // namespace sardonyx::ops
