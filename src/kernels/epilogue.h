#pragma once
// What is done to the elements of a matrix product or convolution before they are stored.

#include <cstdint>
#include <optional>

#include "base/dtype.h"
#include "base/expression.h"

namespace sardonyx {

// A further input of an epilogue over C[M,N]: its element for C(i,j) is
// data[i * row_stride + j * column_stride]. A scalar has strides (0, 0), a bias per column (0, 1),
// a vector per row (1, 0), a residual with leading dimension ld (ld, 1). For the item (p, q) of a
// batched product data moves by p * batch_stride[0] + q * batch_stride[1]. All in elements.
struct EpilogueOperand {
  const void* data = nullptr;
  DType type = DType::kFloat32;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
  int64_t batch_stride[2] = {0, 0};
};

struct SimpleEpilogue;  // kernels/elementwise.h

// C(i,j) = expression(accumulated value, operands[0](i,j), operands[1](i,j), ...): input 0 of the
// expression is the accumulated value, input 1 + k is operands[k]. Both that and the result are of
// C's type: float32, or float64 in kernels/gemm_typed.h.
// Without an expression the accumulated value is stored. Operands must not overlap C: partial sums
// are kept there.
struct Epilogue {
  const Expression* expression = nullptr;
  const EpilogueOperand* operands = nullptr;
  // What MatchSimpleEpilogue finds in the expression, if that is known.
  const std::optional<SimpleEpilogue>* simple = nullptr;
};

}  // namespace sardonyx
