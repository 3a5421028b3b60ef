#include "ops/lowering.h"

namespace sardonyx::ops {

// The points of a grid over [-1, 1], transformed: theta times their homogeneous coordinates, last
// axis first. An axis adds its own product, so that they are computed for each axis by itself and
// one addition an element is left.

namespace {

// Coordinates of n pixels: steps between the centers of the outermost pixels or between their
// edges; a single pixel lies in the middle either way.
Tensor AxisPoints(int64_t n, bool corners) {
  Tensor points(DType::kFloat64, {n});
  for (int64_t i = 0; i < n; ++i) {
    const int64_t whole = corners ? n - 1 : n, from_middle = 2 * i - (n - 1);
    points.data<double>()[i] =
        whole == 0 ? 0 : static_cast<double>(from_middle) / static_cast<double>(whole);
  }
  return points;
}

}  // namespace

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
  Builder& builder = op.builder();
  const Val wide = Cast(theta, DType::kFloat64);
  // Column `axis` of theta as [N, 1..., spatial].
  std::vector<int64_t> dims(spatial + 2, 1);
  dims[0] = size[0];
  dims.back() = spatial;
  const auto column = [&](int64_t axis) {
    return Reshape(Slice(wide, {axis}, {axis + 1}, {2}), builder.Ints(dims), true);
  };
  Val y = column(spatial);
  for (int64_t axis = 0; axis < spatial; ++axis) {  // the widest sum comes last
    std::vector<int64_t> along(spatial + 2, 1);
    along[axis + 1] = image[axis];
    const Val points = builder.Constant(AxisPoints(image[axis], corners).Reshaped(along));
    const bool last = axis == spatial - 1;
    Val part = column(spatial - 1 - axis) * points;
    if (last && theta.dtype() != DType::kFloat64) {
      part = Cast(part, DType::kFloat32);
      y = Cast(y, DType::kFloat32);
    }
    y = y + part;
  }
  return Cast(y, theta.dtype());
}

}  // namespace sardonyx::ops
