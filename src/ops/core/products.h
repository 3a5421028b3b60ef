#pragma once
// Inner products of rows: what the reference computes of matmul and
// convolutions are made of.

#include "ir/core_op.h"

namespace sardonyx::core {

// The type that products of elements of a and b, which have one type, are
// computed in: int16 where all numbers are so small that sums of `length`
// products stay within int32, else int32 or int64, modulo their range; float32
// for floats of at most 32 bits, float64.
DType ProductType(const Tensor& a, const Tensor& b, int64_t length);
// The type of sums of products: int32, uint32, uint64; float64 for floats.
DType SumTypeOf(DType product_type);
// Whether weights of the type `stored` may stand in a product of `type`: halves for float32.
bool IsNarrowed(DType type, DType stored);
// x itself if it has the type.
Tensor ConvertedTo(const Tensor& x, DType type);

// b[c * rows + r] = a[r * columns + c], elements of `bytes` bytes.
void TransposeMatrix(const void* a, int64_t rows, int64_t columns, int64_t bytes, void* b);

// What an attribute like perm_a makes of an operand, as a transpose would; nothing without it.
Dims Permuted(InferContext& context, Dims dims, std::string_view attribute);
Tensor Permute(const Tensor& x, const std::vector<int64_t>& perm);

// y[i * y_stride + j] = sum over p < k of a[i * k + p] * b[j * k + p]: i < m, j
// < n. Elements of a and b have the product type, those of y the type of its
// sums.
void MultiplyRows(DType type, const void* a, const void* b, int64_t m, int64_t n, int64_t k,
                  void* y, int64_t y_stride);

// The integer products, integer_matmul and integer_conv: two operands of 8 bits and their zero
// points, which may be absent, stand before the inputs of the epilogue.
inline constexpr size_t kIntegerInputs = 4;
// Checks types and zero points.
void CheckIntegerOperands(InferContext& context);
// Operand 0 or 1 less its zero point, in int32.
Tensor CenteredInput(ComputeContext& context, size_t operand);

}  // namespace sardonyx::core
