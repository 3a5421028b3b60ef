#include "ops/lowering.h"

namespace sardonyx::ops {

// The points of a grid over [-1, 1], transformed: a product of their homogeneous coordinates with
// theta, last axis first.
Outputs LowerAffineGrid(Lowering& op) {
  const Val theta = op.in(0);
  const std::vector<int64_t> size = op.in(1).ints();
  const int64_t spatial = static_cast<int64_t>(size.size()) - 2;
  if (spatial != 2 && spatial != 3) {
    op.Fail("size is {}, neither [N,C,H,W] nor [N,C,D,H,W]", PrintDims(size));
  }
  if (theta.rank() != 3) op.Fail("theta has rank {}, not 3", theta.rank());
  const bool corners = op.Int("align_corners") != 0;
  const std::vector<int64_t> image(size.begin() + 2, size.end());
  const int64_t points = ElementCount(image);
  Tensor grid(DType::kFloat64, {1, points, spatial + 1});
  double* at = grid.data<double>();
  for (int64_t i = 0; i < points; ++i, at += spatial + 1) {
    int64_t rest = i;
    for (int64_t axis = 0; axis < spatial; ++axis) {
      const int64_t n = image[spatial - 1 - axis], k = 2 * (rest % n);
      rest /= n;
      // Steps between the centers of the outermost pixels or between their edges; a single pixel
      // lies in the middle either way.
      const int64_t whole = corners ? n - 1 : n, from_middle = k - (n - 1);
      at[axis] = whole == 0 ? 0 : static_cast<double>(from_middle) / static_cast<double>(whole);
    }
    at[spatial] = 1;
  }
  const Val wide = MatMul(op.builder().Constant(grid), Cast(theta, DType::kFloat64), false, true);
  std::vector<int64_t> dims{size[0]};
  dims.insert(dims.end(), image.begin(), image.end());
  dims.push_back(spatial);
  return Cast(Reshape(wide, op.builder().Ints(dims), true), theta.dtype());
}

}  // namespace sardonyx::ops
