// c = mul(sub(cast(codes) {to=float}, zeros repeated), scales repeated)
// y = matmul(x, c)                     ->   y = matmul_nbits(x, codes, scales, zeros)
//
// What a DequantizeLinear with constant weights in blocks along the inner dimension is made of.
// Were it folded, the matrix would be unpacked.

#include <algorithm>
#include <optional>

#include "ops/core/products.h"
#include "passes/passes.h"

namespace sardonyx::passes {
namespace {

const Node* From(const Value* value, const CoreOp& op) {
  return IsFrom(value, op) ? value->producer : nullptr;
}

// Behind casts.
const Value* Uncast(const Value* value) {
  while (const Node* node = From(value, core::Elementwise(Fn::kCast))) value = node->input(0);
  return value;
}

// A constant whose elements are repeated `block` times along an axis, cut to size.
struct Repeated {
  const Tensor* values;
  int64_t block;
};

std::optional<Repeated> UnrepeatAlong(const Value* value, int64_t axis,
                                      const std::vector<int64_t>& dims) {
  const Node* slice = From(Uncast(value), core::slice);
  const Node* reshape = slice != nullptr ? From(slice->input(0), core::reshape) : nullptr;
  const Node* expand = reshape != nullptr ? From(reshape->input(0), core::expand) : nullptr;
  const Node* unsqueeze = expand != nullptr ? From(expand->input(0), core::unsqueeze) : nullptr;
  if (unsqueeze == nullptr || !unsqueeze->input(0)->is_constant()) return {};
  const Fact& expanded = expand->output()->fact;
  const Fact& sliced = slice->output()->fact;
  if (!expanded.static_shape() || expanded.rank() != 3 || !sliced.static_shape() ||
      sliced.rank() != 2 || slice->input(4) != nullptr || !IsConstantOf(slice->input(1), 0) ||
      unsqueeze->attributes.Ints("axes") != std::vector<int64_t>{axis + 1}) {
    return {};
  }
  for (int i = 0; i < 2; ++i) {
    if (!((*sliced.shape)[i] == Dim(dims[i]))) return {};
  }
  const Tensor& values = unsqueeze->input(0)->fact.constant;
  const int64_t block = (*expanded.shape)[axis + 1].value();
  const int64_t blocks = (dims[axis] + block - 1) / block;
  const bool fits = values.rank() == 2 && values.dims()[axis] == blocks &&
                    values.dims()[1 - axis] == dims[1 - axis];
  if (!fits) return {};
  return Repeated{&values, block};
}

// The weights as numbers: [columns, blocks], whichever axis the blocks lie along.
Tensor ByColumn(const Tensor& values, int64_t axis) {
  const Tensor wide = core::ConvertedTo(Aligned(values), DType::kFloat32);
  if (axis == 1) return wide;
  Tensor turned(DType::kFloat32, {wide.dims()[1], wide.dims()[0]});
  core::TransposeMatrix(wide.raw(), wide.dims()[0], wide.dims()[1], 4, turned.raw());
  return turned;
}

// Codes as matmul_nbits has them, unsigned: those of signed types move up by half of their range.
Tensor PackCodes(const Tensor& given, int64_t axis, int64_t block) {
  const Tensor codes = Aligned(given);
  const int bits = BitWidth(codes.dtype()), per_byte = 8 / bits;
  const int64_t k = codes.dims()[axis], n = codes.dims()[1 - axis];
  const int64_t blocks = (k + block - 1) / block, bytes = block / per_byte;
  Tensor packed(DType::kUInt8, {n, blocks, bytes});
  std::fill_n(packed.data<uint8_t>(), packed.size(), uint8_t{0});
  const auto* from = static_cast<const uint8_t*>(codes.raw());
  const int64_t k_step = axis == 0 ? n : 1, n_step = axis == 0 ? 1 : k;
  const int mask = (1 << bits) - 1, flip = IsSigned(codes.dtype()) ? 1 << (bits - 1) : 0;
  for (int64_t j = 0; j < n; ++j) {
    uint8_t* to = packed.data<uint8_t>() + j * blocks * bytes;
    for (int64_t i = 0; i < k; ++i) {
      const int64_t at = i * k_step + j * n_step;
      const int code = ((from[at / per_byte] >> (at % per_byte * bits)) & mask) ^ flip;
      to[i / per_byte] = static_cast<uint8_t>(to[i / per_byte] | code << (i % per_byte * bits));
    }
  }
  return packed;
}

}  // namespace

Rewrite KeepBlocks(Node& node, PassContext& context) {
  if (node.op != &core::matmul || node.attributes.Int("trans_a") != 0) return NoMatch{};
  const Value* weights = node.input(1);
  bool transposed = node.attributes.Int("trans_b") != 0;
  if (const Node* transpose = From(weights, core::transpose)) {
    if (transpose->attributes.Ints("perm") != std::vector<int64_t>{1, 0}) return NoMatch{};
    weights = transpose->input(0);
    transposed = !transposed;
  }
  const Node* scaled = From(Uncast(weights), core::Elementwise(Fn::kMul));
  if (scaled == nullptr) return NoMatch{};
  const Value* centered = Uncast(scaled->input(0));
  const Node* difference = From(centered, core::Elementwise(Fn::kSub));
  const Value* codes = difference != nullptr ? Uncast(difference->input(0)) : centered;
  if (!codes->is_constant() || codes->fact.rank() != 2) return NoMatch{};
  const Tensor& matrix = codes->fact.constant;
  const int bits = BitWidth(matrix.dtype());
  if (!IsInteger(matrix.dtype()) || bits > 8) return NoMatch{};
  const int64_t axis = transposed ? 1 : 0;
  const std::optional<Repeated> scales = UnrepeatAlong(scaled->input(1), axis, matrix.dims());
  if (!scales) return CheckFailed{"the scales are not of blocks along the inner dimension"};
  const int64_t block = scales->block;
  if (block < 16 || (block & (block - 1)) != 0) {
    return CheckFailed{"the size of blocks is no power of two from 16 on"};
  }
  std::optional<Repeated> zeros;
  if (difference != nullptr) {
    zeros = UnrepeatAlong(difference->input(1), axis, matrix.dims());
    if (!zeros || zeros->block != block) return CheckFailed{"zero points are not of these blocks"};
  }
  const int64_t k = matrix.dims()[axis], n = matrix.dims()[1 - axis];
  const Tensor scale = ByColumn(*scales->values, axis);
  Tensor zero(DType::kFloat32, scale.dims());
  const float half = IsSigned(matrix.dtype()) ? static_cast<float>(1 << (bits - 1)) : 0.0f;
  const Tensor given = zeros ? ByColumn(*zeros->values, axis) : Tensor();
  for (int64_t i = 0; i < zero.size(); ++i) {
    zero.data<float>()[i] = half + (zeros ? given.data<float>()[i] : 0.0f);
  }
  PatchMaker maker(context, node);
  Builder& b = maker.builder();
  const Val x = maker.Wrap(node.input(0));
  const DType type = x.dtype();
  const Attributes attributes{{"K", k}, {"N", n}, {"bits", int64_t{bits}}, {"block_size", block}};
  return maker.Replace(node, {b.Make(core::matmul_nbits,
                                     {x, b.Constant(PackCodes(matrix, axis, block)),
                                      b.Constant(core::ConvertedTo(scale, type)),
                                      b.Constant(core::ConvertedTo(zero, type))},
                                     attributes)});
}

}  // namespace sardonyx::passes
