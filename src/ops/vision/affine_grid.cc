#include "ops/lowering.h"

namespace sardonyx::ops {

// The points of a grid over [-1, 1], transformed: theta times their homogeneous coordinates, last
// axis first. What the last axis and the shift add is a row of [W, spatial], the same in every row
// of the grid; to it come the columns of theta times the coordinates of the other axes. So the grid
// is a product of these coordinates, beside 1, and [columns of theta, each repeated W times; row].

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

// The coordinates of all points of the axes but the last, and a 1: [points, axes + 1].
Tensor OuterPoints(const std::vector<int64_t>& sizes, bool corners) {
  const int64_t count = ElementCount(sizes), axes = static_cast<int64_t>(sizes.size());
  Tensor points = MakeFilled(DType::kFloat64, {count, axes + 1}, 1);
  int64_t stride = count;
  for (int64_t axis = 0; axis < axes; ++axis) {
    stride /= std::max<int64_t>(sizes[axis], 1);
    const Tensor along = AxisPoints(sizes[axis], corners);
    for (int64_t i = 0; i < count; ++i) {
      points.data<double>()[i * (axes + 1) + axis] = along.data<double>()[i / stride % sizes[axis]];
    }
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
  Builder& builder = op.builder();
  const DType type = theta.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const int64_t width = size.back();
  // Column `axis` of theta, in double, as [N, 1, spatial].
  const Val wide = Cast(theta, DType::kFloat64);
  const auto column = [&](int64_t axis) {
    return Reshape(Slice(wide, {axis}, {axis + 1}, {2}), builder.Ints({size[0], 1, spatial}), true);
  };
  const Val across = builder.Constant(AxisPoints(width, corners).Reshaped({width, 1}));
  const auto row = [&](Val points) {
    return Reshape(points, builder.Ints({size[0], 1, width * spatial}), true);
  };
  std::vector<Val> rows;
  for (int64_t axis = spatial - 1; axis > 0; --axis) {
    rows.push_back(row(Expand(column(axis), builder.Ints({1, width, 1}))));
  }
  rows.push_back(row(column(0) * across + column(spatial)));
  const Val points = builder.Constant(OuterPoints({size.begin() + 2, size.end() - 1}, corners));
  const Val y = MatMul(Cast(points, type), Cast(Concat(rows, 1), type));
  std::vector<int64_t> dims(size.begin() + 2, size.end());
  dims.insert(dims.begin(), size[0]);
  dims.push_back(spatial);
  return Cast(Reshape(y, builder.Ints(dims), true), theta.dtype());
}

}  // namespace sardonyx::ops
