#include <array>

#include "ops/lowering.h"
#include "ops/nn/quantization.h"

namespace sardonyx::ops::contrib {
namespace {

// What the codes of bitsandbytes stand for: FP4, with its thirds, and NF4, quantiles of the normal
// distribution (QLoRA, https://arxiv.org/abs/2305.14314, appendix E).
constexpr std::array<float, 16> kFp4 = {
    0.0f,  0.005208333f,  2.0f / 3,  1.0f,  1.0f / 3,  0.5f,  1.0f / 6,  0.25f,
    -0.0f, -0.005208333f, -2.0f / 3, -1.0f, -1.0f / 3, -0.5f, -1.0f / 6, -0.25f};
constexpr std::array<float, 16> kNf4 = {-1.0f,        -0.69619280f, -0.52507305f, -0.39491749f,
                                        -0.28444138f, -0.18477343f, -0.09105004f, 0.0f,
                                        0.07958030f,  0.16093020f,  0.24611230f,  0.33791524f,
                                        0.44070983f,  0.56261700f,  0.72295684f,  1.0f};

// The first of two codes stands in the upper half of its byte.
Val Swapped(Val bytes) { return BitOr(ShiftLeft(bytes, 4), ShiftRight(bytes, 4)); }

// B in float32, [N,K].
Val Dequantize(Lowering& op, const std::array<float, 16>& table, int64_t n, int64_t k,
               int64_t block) {
  Builder& b = op.builder();
  Tensor values(DType::kFloat32, {16});
  std::copy(table.begin(), table.end(), values.data<float>());
  const Val codes = Slice(UnpackCodes(Swapped(op.in(1)), 4), {0}, {n * k}, {0});
  const Val weights = Gather(b.Constant(values), Cast(codes, DType::kInt32), 0);
  const Val scales = Slice(Repeat(Widen(op.in(2)), 0, b.Ints({block})), {0}, {n * k}, {0});
  return Reshape(weights * scales, {n, k});
}

void CheckLength(const Lowering& op, size_t input, std::string_view name, int64_t expected) {
  if (op.in(input).rank() != 1) {
    op.Fail("{} has {} axes, but must have 1", name, op.in(input).rank());
  }
  const Dim length = op.in(input).shape()[0];
  if (length.known() && length.value() != expected) {
    op.Fail("{} has {} elements, but must have {}", name, length.value(), expected);
  }
}

}  // namespace

Outputs LowerMatMulBnb4(Lowering& op) {
  const int64_t n = op.Int("N"), k = op.Int("K"), block = op.Int("block_size");
  constexpr int64_t kMost = int64_t{1} << 31;
  if (n < 1 || k < 1 || n >= kMost || k >= kMost)
    op.Fail("weights of {} rows and {} columns", n, k);
  if (block < 16 || block > kMost || (block & (block - 1)) != 0) {
    op.Fail("attribute block_size is {}, not a power of two from 16 on", block);
  }
  const int64_t type = op.Int("quant_type");
  if (type != 0 && type != 1) op.Fail("attribute quant_type is {}, but must be 0 or 1", type);
  const std::array<float, 16>& table = type == 0 ? kFp4 : kNf4;
  CheckLength(op, 1, "B", (n * k + 1) / 2);
  CheckLength(op, 2, "absmax", (n * k + block - 1) / block);
  const Val a = op.in(0);
  if (a.rank() < 1) op.Fail("A is a scalar");
  // Blocks that end with their rows stay codes.
  const bool by_columns = op.Int("transB", 1) != 0;
  if (by_columns && k % block == 0) {
    return op.builder().Make(core::matmul_nbits, {a, Swapped(op.in(1)), op.in(2)},
                             {{"K", k},
                              {"N", n},
                              {"bits", int64_t{4}},
                              {"block_size", block},
                              {"values", std::vector<double>(table.begin(), table.end())}});
  }
  const Val b = Dequantize(op, table, n, k, block);
  const bool is_vector = a.rank() == 1;
  const Val y = MatMul(is_vector ? Unsqueeze(Widen(a), {0}) : Widen(a), b, false, by_columns);
  return Cast(is_vector ? Squeeze(y, {0}) : y, a.dtype());
}

}  // namespace sardonyx::ops::contrib
