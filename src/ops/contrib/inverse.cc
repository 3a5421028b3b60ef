// Inverses of square matrices, batched. com.microsoft Inverse.

#include <algorithm>
#include <cmath>

#include "ops/core/reference.h"
#include "ops/lowering.h"

namespace sardonyx {
namespace core {
namespace {

void InferInverse(InferContext& context) {
  const DType type = context.dtype(0);
  if (!IsFloat(type)) context.Fail("inverse takes floats, not {}", Name(type));
  if (!context.ranked(0)) return context.Set(0, type, {});
  const Dims& shape = context.shape(0);
  const size_t rank = shape.size();
  if (rank < 2 || (shape[rank - 1].known() && shape[rank - 2].known() &&
                   !(shape[rank - 1] == shape[rank - 2]))) {
    context.Fail("inverse takes square matrices, not {}", context.Print(shape));
  }
  context.Set(0, type, shape);
}

// Gauss and Jordan's elimination with partial pivoting, in place of `a` beside the identity `b`. A
// singular matrix divides by zero, which gives infinities or NaN.
void Invert(double* a, double* b, int64_t n) {
  std::fill(b, b + n * n, 0.0);
  for (int64_t i = 0; i < n; ++i) b[i * n + i] = 1;
  for (int64_t column = 0; column < n; ++column) {
    int64_t pivot = column;
    for (int64_t row = column + 1; row < n; ++row) {
      if (std::abs(a[row * n + column]) > std::abs(a[pivot * n + column])) pivot = row;
    }
    for (double* matrix : {a, b}) {
      double* top = matrix + column * n;
      if (pivot != column) std::swap_ranges(top, top + n, matrix + pivot * n);
    }
    const double head = a[column * n + column];
    for (int64_t k = 0; k < n; ++k) {
      a[column * n + k] /= head;
      b[column * n + k] /= head;
    }
    for (int64_t row = 0; row < n; ++row) {
      const double factor = a[row * n + column];
      if (row == column || factor == 0) continue;
      for (int64_t k = column; k < n; ++k) a[row * n + k] -= factor * a[column * n + k];
      for (int64_t k = 0; k < n; ++k) b[row * n + k] -= factor * b[column * n + k];
    }
  }
}

void ComputeInverse(ComputeContext& context) {
  const Tensor& x = context.input(0);
  Tensor& y = context.Allocate(0);
  const int64_t n = x.dims().back(), size = n * n;
  if (x.dims()[x.rank() - 2] != n) {
    Fail(ErrorCode::kInvalidArgument, "inverse takes square matrices, not {} by {}",
         x.dims()[x.rank() - 2], n);
  }
  std::vector<double> values = ToDoubles(x), result(values.size());
  for (int64_t i = 0; size > 0 && i < x.size(); i += size) {
    Invert(values.data() + i, result.data() + i, n);
  }
  ConvertElements(DType::kFloat64, result.data(), y.dtype(), y.raw(), y.size(), false);
}

}  // namespace

const CoreOp inverse = {
    .name = "inverse", .inputs = "t", .infer = InferInverse, .reference = ComputeInverse};

}  // namespace core

namespace ops::contrib {

Outputs LowerInverse(Lowering& op) { return op.builder().Make(core::inverse, {op.in(0)}); }

}  // namespace ops::contrib
}  // namespace sardonyx
