// p = matmul(x, a: float[k,n])
// s = add(p, b: float[n])                    p = matmul(x, a * c)
// y = matmul(s, c: float[n,m])         ->    y = add(p, b * c)
//
// Also of convolutions of single pixels, and where a reshape that keeps the last axis stands
// between. Only where the product of the weights is smaller than both. Weights of float16 become
// one of float, which is neither too large for a half nor rounded.

#include <algorithm>

#include "passes/passes.h"

namespace sardonyx::passes {
namespace {

// Multiplications at load, of some tenths of a second.
constexpr int64_t kMostProducts = int64_t{1} << 28;

// Two operands, the second a constant, and nothing else: y = x * weights over the last axis.
bool IsProduct(const Node& node) {
  if (node.inputs.size() != 2 || !node.input(1)->is_constant()) return false;
  const Tensor& weights = node.input(1)->fact.constant;
  const DType type = weights.dtype();
  if (type != node.input(0)->fact.type.dtype || node.attributes.Expr("epilogue") != nullptr ||
      (type != DType::kFloat32 && type != DType::kFloat16)) {
    return false;
  }
  if (node.op == &core::conv) return IsProductOfChannels(node);
  return IsPlainProduct(node) && weights.rank() == 2 && node.input(0)->fact.ranked();
}

bool HasColumnsFirst(const Node& product) {
  return product.op == &core::conv || product.attributes.Int("trans_b") != 0;
}

// Rows and columns of the weights.
std::pair<int64_t, int64_t> SizesOf(const Node& product) {
  const std::vector<int64_t>& dims = product.input(1)->fact.constant.dims();
  if (HasColumnsFirst(product)) return {dims[1], dims[0]};
  return {dims[0], dims[1]};
}

// The weights as [rows, columns], in double.
Val MatrixOf(PatchMaker& maker, const Node& product) {
  Val weights = Cast(maker.Wrap(product.input(1)), DType::kFloat64);
  if (product.op == &core::conv) weights = Flatten(weights, 1);
  return HasColumnsFirst(product) ? Transpose(weights, {1, 0}) : weights;
}

// The dimensions of `like` but for the last, for a reshape; empty if more than one is not known.
std::vector<int64_t> ViewOf(const Dims& like, int64_t last) {
  std::vector<int64_t> dims;
  for (const Dim dim : like) dims.push_back(dim.known() ? dim.value() : -1);
  dims.back() = last;
  if (std::count(dims.begin(), dims.end(), -1) > 1 || std::count(dims.begin(), dims.end(), 0) > 0) {
    return {};
  }
  return dims;
}

}  // namespace

Rewrite FoldProducts(Node& node, PassContext& context) {
  if (!IsProduct(node)) return NoMatch{};
  const auto [inner, columns] = SizesOf(node);
  // Back over views and one addition, to the product before.
  const auto is_alone = [&](const Value* value) { return HasOneUser(context.graph, value); };
  Value* value = node.input(0);
  Value* addend = nullptr;
  bool is_shared = false, is_viewed = false;
  for (;;) {
    if (value->producer == nullptr || !value->fact.ranked()) return NoMatch{};
    is_shared = is_shared || !is_alone(value);
    const Node& from = *value->producer;
    if (from.op == &core::reshape) {
      const Fact& x = from.input(0)->fact;
      const bool keeps_last = x.ranked() && x.rank() > 0 && x.shape->back() == Dim(inner);
      if (!keeps_last) return NoMatch{};
      is_viewed = true;
      value = from.input(0);
    } else if (from.op == &core::Elementwise(Fn::kAdd) && addend == nullptr) {
      const int constant = IsVector(from.input(0), inner) ? 0 : 1;
      addend = from.input(constant);
      if (!IsVector(addend, inner) || !SameShape(from.input(1 - constant), value)) return NoMatch{};
      value = from.input(1 - constant);
    } else {
      break;
    }
  }
  const Node& before = *value->producer;
  if (!IsProduct(before) || value->fact.shape->back() != Dim(inner)) return NoMatch{};
  if (is_shared) return CheckFailed{"the product before has other users"};
  const int64_t rows = SizesOf(before).first;
  if (rows * columns >= inner * (rows + columns)) return NoMatch{};  // it would be larger
  if (rows * columns > kMostProducts / inner) return CheckFailed{"it would take long to load"};
  const std::vector<int64_t> view = ViewOf(*node.input(0)->fact.shape, rows);
  if (is_viewed && view.empty()) return CheckFailed{"the sizes of a reshape are not known"};

  PatchMaker maker(context, node);
  const Val right = MatrixOf(maker, node);
  Val weights = Cast(MatMul(MatrixOf(maker, before), right), DType::kFloat32);
  if (HasColumnsFirst(node)) weights = Transpose(weights, {1, 0});
  if (node.op == &core::conv) {
    std::vector<int64_t> dims = node.input(1)->fact.constant.dims();
    dims[1] = rows;
    weights = Reshape(weights, dims);
  }
  Val x = maker.Wrap(before.input(0));
  if (is_viewed) x = Reshape(x, view);
  Val y = maker.builder().Make(*node.op, {Widen(x), weights}, node.attributes);
  if (addend != nullptr) {
    const Val vector = Reshape(Cast(maker.Wrap(addend), DType::kFloat64), {1, inner});
    y = y + Reshape(Cast(MatMul(vector, right), DType::kFloat32), {columns});
  }
  return maker.Replace(node, {Cast(y, node.output()->fact.type.dtype)});
}

}  // namespace sardonyx::passes
