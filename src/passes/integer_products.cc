// a = mul(cast(sub(cast(x), 3)), 0.5)         p = integer_matmul(x, w, 3, 0)
// b = mul(cast(cast(w)), s)              ->   y = mul(cast(p), 0.5 * s)
// y = matmul(a, b)
//
// and convolutions likewise, their input through the transpose that makes it channels-last. The
// sums are exact then, where those of float32 round.

#include <algorithm>

#include "passes/passes.h"
#include "passes/quantization.h"

namespace sardonyx::passes {
namespace {

// Whether a parameter of weights of that rank has one element, or one for each index of `axis`.
bool IsAlong(const Value* parameter, int rank, int axis) {
  if (IsOne(parameter)) return true;
  const Dims& dims = *parameter->fact.shape;
  const int missing = rank - static_cast<int>(dims.size());
  for (int i = 0; i < static_cast<int>(dims.size()); ++i) {
    if (i + missing != axis && !(dims[i] == 1)) return false;
  }
  return parameter->fact.static_shape();
}

Val Scalar(Val x) { return x.rank() == 0 ? x : Reshape(x, std::vector<int64_t>{}); }

}  // namespace

Rewrite IntegerProducts(Node& node, PassContext& context) {
  const bool is_conv = node.op == &core::conv;
  if (!is_conv && node.op != &core::matmul) return NoMatch{};
  if (node.attributes.Expr("epilogue") != nullptr || node.attributes.Find("perm_a") != nullptr ||
      node.attributes.Find("perm_b") != nullptr || node.attributes.Find("perm_y") != nullptr) {
    return NoMatch{};
  }
  const Value* source = node.input(0);
  const bool transposed = is_conv && IsFrom(source, core::transpose);
  const auto x = MatchDequantized(transposed ? source->producer->input(0) : source);
  const auto w = MatchDequantized(node.input(1));
  if (!x || !w) return NoMatch{};
  if (!IsOne(x->scale) || !IsOne(x->zero)) return CheckFailed{"the input has several scales"};
  const int rank = w->x->fact.rank();
  const bool by_row = !is_conv && node.attributes.Int("trans_b") != 0;
  const int axis = is_conv ? 0 : by_row ? rank - 2 : rank - 1;
  if (!IsAlong(w->scale, rank, axis) || !IsAlong(w->zero, rank, axis)) {
    return CheckFailed{"the weights' scales are not one for each output channel"};
  }
  PatchMaker maker(context, node);
  const auto zero = [&](const Dequantized& of) {
    return of.zero == nullptr || IsConstantOf(of.zero, 0)
               ? Val{}
               : Cast(maker.Wrap(of.zero), of.x->fact.type.dtype);
  };
  Val input = maker.Wrap(x->x);
  if (transposed) input = Transpose(input, source->producer->attributes.Ints("perm"));
  Val x_zero = zero(*x);
  if (x_zero) x_zero = Scalar(x_zero);
  const Val product =
      maker.builder().Make(is_conv ? core::integer_conv : core::integer_matmul,
                           {input, maker.Wrap(w->x), x_zero, zero(*w)}, node.attributes);
  // Output channels are the last axis of the result.
  Val scale = maker.Wrap(w->scale);
  scale = IsOne(w->scale) ? Scalar(scale) : Reshape(scale, std::vector<int64_t>{-1});
  return maker.Replace(node,
                       {Cast(product, DType::kFloat32) * (scale * Scalar(maker.Wrap(x->scale)))});
}

}  // namespace sardonyx::passes
