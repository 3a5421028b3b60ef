// Matrix product of the last two axes; the axes before them broadcast. As ONNX MatMul for ranks of
// two and more, with either operand transposed first. Attributes perm_a and perm_b permute the
// operands before all else, perm_y the product before the epilogue: transposes that a device does
// through strides.

#include <cstring>

#include "ops/core/core.h"
#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

Dims Permuted(InferContext& context, Dims dims, std::string_view attribute) {
  const auto& perm = context.attributes().Ints(attribute);
  if (perm.empty()) return dims;
  if (perm.size() != dims.size()) {
    context.Fail("{} has {} axes for a tensor of rank {}", attribute, perm.size(), dims.size());
  }
  Dims result;
  for (int64_t axis : perm)
    result.push_back(dims[context.Axis(axis, static_cast<int>(dims.size()))]);
  return result;
}

void InferMatmul(InferContext& context) {
  if (context.input_count() < 2) context.Fail("matmul takes two operands");
  const DType type = context.dtype(0);
  if (context.dtype(1) != type) {
    context.Fail("cannot multiply {} by {}: the element types must be the same", Name(type),
                 Name(context.dtype(1)));
  }
  if (!context.ranked(0) || !context.ranked(1)) return SetWithEpilogue(context, type, {}, 2);
  const Dims a = Permuted(context, context.shape(0), "perm_a");
  const Dims b = Permuted(context, context.shape(1), "perm_b");
  if (a.size() < 2 || b.size() < 2) {
    context.Fail("cannot multiply {} by {}: operands of matmul have at least two dimensions",
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
  SetWithEpilogue(context, type, std::move(shape), 2);
}

Tensor Permute(const Tensor& x, const std::vector<int64_t>& perm) {
  if (perm.empty()) return x;
  const std::vector<int64_t> own = RowMajorStrides(x.dims());
  std::vector<int64_t> dims, strides;
  for (int64_t axis : perm) {
    dims.push_back(x.dims()[axis]);
    strides.push_back(own[axis]);
  }
  Tensor y(x.dtype(), dims);
  const int64_t width = ByteSize(x.dtype(), 1);
  char* out = static_cast<char*>(y.raw());
  for (Walk walk(dims, {strides}); !walk.done(); walk.Next(), out += width) {
    std::memcpy(out, static_cast<const char*>(x.raw()) + walk[0] * width, width);
  }
  return y;
}

template <typename T>
void Multiply(const T* a, int64_t a_row, int64_t a_column, const T* b, int64_t b_row,
              int64_t b_column, int64_t m, int64_t n, int64_t k, T* y) {
  std::vector<SumType<T>> sums(n);
  for (int64_t i = 0; i < m; ++i) {
    std::fill(sums.begin(), sums.end(), SumType<T>{0});
    for (int64_t p = 0; p < k; ++p) {
      const SumType<T> factor = ToSum(a[i * a_row + p * a_column]);
      for (int64_t j = 0; j < n; ++j) sums[j] += factor * ToSum(b[p * b_row + j * b_column]);
    }
    for (int64_t j = 0; j < n; ++j) y[i * n + j] = FromSum<T>(sums[j]);
  }
}

void ComputeMatmul(ComputeContext& context) {
  const Tensor a = Permute(context.input(0), context.attributes().Ints("perm_a"));
  const Tensor b = Permute(context.input(1), context.attributes().Ints("perm_b"));
  const auto& perm_y = context.attributes().Ints("perm_y");
  const bool trans_a = context.attributes().Int("trans_a") != 0;
  const bool trans_b = context.attributes().Int("trans_b") != 0;
  std::vector<int64_t> dims;
  KnownSizes(*context.inferred(0).shape, &dims);
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
  DispatchReal(a.dtype(), "matmul", [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* out = y.data<T>();
    for (; !walk.done(); walk.Next(), out += m * n) {
      Multiply(a.data<T>() + walk[0] * m * k, trans_a ? 1 : k, trans_a ? m : 1,
               b.data<T>() + walk[1] * k * n, trans_b ? 1 : n, trans_b ? k : 1, m, n, k, out);
    }
  });
  FinishWithEpilogue(context, Permute(y, perm_y), 2);
}

}  // namespace

const CoreOp matmul = {.name = "matmul", .infer = InferMatmul, .reference = ComputeMatmul};

}  // namespace sardonyx::core
