// Determinants of square matrices, batched.

#include <algorithm>
#include <cmath>

#include "ops/core/reference.h"
#include "ops/lowering.h"

namespace sardonyx {
namespace core {
namespace {

void InferDet(InferContext& context) {
  if (!IsFloat(context.dtype(0))) context.Fail("det takes floats, not {}", Name(context.dtype(0)));
  if (!context.ranked(0)) return context.Set(0, context.dtype(0), {});
  const Dims& shape = context.shape(0);
  const size_t rank = shape.size();
  if (rank < 2 || (shape[rank - 1].known() && shape[rank - 2].known() &&
                   !(shape[rank - 1] == shape[rank - 2]))) {
    context.Fail("det takes square matrices, not {}", context.Print(shape));
  }
  context.Set(0, context.dtype(0), Dims(shape.begin(), shape.end() - 2));
}

// Gaussian elimination with partial pivoting; the product of the pivots. Of no rows: 1.
double Determinant(double* a, int64_t n) {
  double product = 1;
  for (int64_t column = 0; column < n; ++column) {
    int64_t pivot = column;
    for (int64_t row = column + 1; row < n; ++row) {
      if (std::abs(a[row * n + column]) > std::abs(a[pivot * n + column])) pivot = row;
    }
    if (pivot != column) {
      std::swap_ranges(a + pivot * n, a + pivot * n + n, a + column * n);
      product = -product;
    }
    const double head = a[column * n + column];
    product *= head;
    if (head == 0) return product;
    for (int64_t row = column + 1; row < n; ++row) {
      const double factor = a[row * n + column] / head;
      for (int64_t k = column + 1; k < n; ++k) a[row * n + k] -= factor * a[column * n + k];
    }
  }
  return product;
}

void ComputeDet(ComputeContext& context) {
  const Tensor& x = context.input(0);
  Tensor& y = context.Allocate(0);
  const int64_t n = x.dims().back();
  std::vector<double> matrices = ToDoubles(x), result(y.size());
  for (int64_t i = 0; i < y.size(); ++i) {
    result[i] = Determinant(matrices.data() + i * n * n, n);
  }
  ConvertElements(DType::kFloat64, result.data(), y.dtype(), y.raw(), y.size(), false);
}

}  // namespace

const CoreOp det = {.name = "det", .inputs = "t", .infer = InferDet, .reference = ComputeDet};

}  // namespace core

namespace ops {

Outputs LowerDet(Lowering& op) { return op.builder().Make(core::det, {op.in(0)}); }

}  // namespace ops
}  // namespace sardonyx
