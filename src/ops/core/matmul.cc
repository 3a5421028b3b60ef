// Matrix product of the last two axes; the axes before them broadcast. As ONNX
// MatMul for ranks of two and more, with either operand transposed first.
// Attributes perm_a and perm_b permute the operands before all else, perm_y the
// product before the epilogue: transposes that a device does through strides. Of a float32 product
// the right operand may be stored as float16 or bfloat16.

#include <algorithm>
#include <cstring>

#include "ops/core/core.h"
#include "ops/core/products.h"
#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

// Rows of the product whose sums are held at a time.
constexpr int64_t kChunk = 64;

// Of the product before the epilogue, whose inputs begin at `first`.
void InferProduct(InferContext& context, DType type, size_t first) {
  if (!context.ranked(0) || !context.ranked(1)) return SetWithEpilogue(context, type, {}, first);
  const Dims a = Permuted(context, context.shape(0), "perm_a");
  const Dims b = Permuted(context, context.shape(1), "perm_b");
  if (a.size() < 2 || b.size() < 2) {
    context.Fail(
        "cannot multiply {} by {}: operands of matmul have at least "
        "two dimensions",
        context.Print(a), context.Print(b));
  }
  const bool trans_a = context.attributes().Int("trans_a") != 0;
  const bool trans_b = context.attributes().Int("trans_b") != 0;
  const Dim inner_a = a[a.size() - (trans_a ? 2 : 1)], inner_b = b[b.size() - (trans_b ? 1 : 2)];
  if (inner_a.known() && inner_b.known() && !(inner_a == inner_b)) {
    context.Fail("cannot multiply {}{} by {}{}: inner dimensions {} and {} differ",
                 context.Print(a), trans_a ? " transposed" : "", context.Print(b),
                 trans_b ? " transposed" : "", inner_a.value(), inner_b.value());
  }
  Dims shape = context.Broadcast(Dims(a.begin(), a.end() - 2), Dims(b.begin(), b.end() - 2));
  shape.push_back(a[a.size() - (trans_a ? 1 : 2)]);
  shape.push_back(b[b.size() - (trans_b ? 2 : 1)]);
  shape = Permuted(context, std::move(shape), "perm_y");
  SetWithEpilogue(context, type, std::move(shape), first);
}

void InferMatmul(InferContext& context) {
  if (context.input_count() < 2) context.Fail("matmul takes two operands");
  const DType type = context.dtype(0);
  if (context.dtype(1) != type && !IsNarrowed(type, context.dtype(1))) {
    context.Fail("cannot multiply {} by {}: the element types must be the same", Name(type),
                 Name(context.dtype(1)));
  }
  InferProduct(context, type, 2);
}

void InferIntegerMatmul(InferContext& context) {
  CheckIntegerOperands(context);
  InferProduct(context, DType::kInt32, kIntegerInputs);
}

// A matrix [rows, columns], or its transpose, as rows.
const char* RowsOf(const char* matrix, bool transposed, int64_t rows, int64_t columns,
                   int64_t bytes, std::vector<char>& storage) {
  if (!transposed) return matrix;
  storage.resize(rows * columns * bytes);
  TransposeMatrix(matrix, columns, rows, bytes, storage.data());
  return storage.data();
}

// The product of a and b, whose dimensions are `dims`, before the epilogue.
Tensor Multiply(const Attributes& attributes, const Tensor& left, const Tensor& right,
                std::vector<int64_t> dims) {
  Tensor a = Permute(left, attributes.Ints("perm_a")),
         b = Permute(right, attributes.Ints("perm_b"));
  const auto& perm_y = attributes.Ints("perm_y");
  const bool trans_a = attributes.Int("trans_a") != 0, trans_b = attributes.Int("trans_b") != 0;
  if (!perm_y.empty()) {
    const std::vector<int64_t> after = dims;
    for (size_t i = 0; i < perm_y.size(); ++i) dims[perm_y[i]] = after[i];
  }
  const int64_t m = dims[dims.size() - 2], n = dims.back();
  const int64_t k = a.dims()[a.rank() - (trans_a ? 2 : 1)];
  const std::vector<int64_t> batch(dims.begin(), dims.end() - 2);
  // Strides in matrices.
  Walk walk(batch, {BroadcastStrides(std::span(a.dims()).first(a.rank() - 2), batch),
                    BroadcastStrides(std::span(b.dims()).first(b.rank() - 2), batch)});
  Tensor y(a.dtype(), dims);
  const DType type = ProductType(a, b, k), sum_type = SumTypeOf(type);
  a = ConvertedTo(a, type);
  b = ConvertedTo(b, type);
  const int64_t bytes = ByteSize(type, 1), chunk = std::min(m, kChunk);
  std::vector<char> rows_a, rows_b;
  Tensor sums(sum_type, {chunk, n});
  char* out = static_cast<char*>(y.raw());
  for (; !walk.done(); walk.Next()) {
    const char* a_rows = RowsOf(static_cast<const char*>(a.raw()) + walk[0] * m * k * bytes,
                                trans_a, m, k, bytes, rows_a);
    const char* b_rows = RowsOf(static_cast<const char*>(b.raw()) + walk[1] * k * n * bytes,
                                !trans_b, n, k, bytes, rows_b);
    for (int64_t i = 0; i < m; i += chunk) {
      const int64_t count = std::min(chunk, m - i);
      MultiplyRows(type, a_rows + i * k * bytes, b_rows, count, n, k, sums.raw(), n);
      ConvertElements(sum_type, sums.raw(), y.dtype(), out, count * n, true);
      out += ByteSize(y.dtype(), count * n);
    }
  }
  return Permute(y, perm_y);
}

std::vector<int64_t> ResultDims(const ComputeContext& context) {
  std::vector<int64_t> dims;
  KnownSizes(*context.inferred(0).shape, &dims);
  return dims;
}

void ComputeMatmul(ComputeContext& context) {
  FinishWithEpilogue(
      context,
      Multiply(context.attributes(), context.input(0), context.input(1), ResultDims(context)), 2);
}

void ComputeIntegerMatmul(ComputeContext& context) {
  FinishWithEpilogue(context,
                     Multiply(context.attributes(), CenteredInput(context, 0),
                              CenteredInput(context, 1), ResultDims(context)),
                     kIntegerInputs);
}

}  // namespace

const CoreOp matmul = {
    .name = "matmul", .inputs = "ttt*", .infer = InferMatmul, .reference = ComputeMatmul};
const CoreOp integer_matmul = {.name = "integer_matmul",
                               .inputs = "ttt?t?t*",
                               .infer = InferIntegerMatmul,
                               .reference = ComputeIntegerMatmul};

}  // namespace sardonyx::core
