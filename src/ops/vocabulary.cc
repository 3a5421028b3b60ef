#include "ops/vocabulary.h"

#include <algorithm>
#include <numeric>

namespace sardonyx {

Val Apply(Fn fn, const std::vector<Val>& operands) {
  return operands[0].builder->Make(core::Elementwise(fn), operands);
}

Val Where(Val condition, Val a, Val b) { return Apply(Fn::kWhere, {condition, a, b}); }

Val Cast(Val x, DType to) {
  if (x.dtype() == to) return x;
  return x.builder->Make(core::Elementwise(Fn::kCast), {x}, {{"to", static_cast<int64_t>(to)}});
}

Val CastTo(Val x, DType to, bool saturate, std::string_view round_mode) {
  const bool exponent = to == DType::kFloat8E8M0;
  const bool small = exponent || to == DType::kFloat8E4M3FN || to == DType::kFloat8E4M3FNUZ ||
                     to == DType::kFloat8E5M2 || to == DType::kFloat8E5M2FNUZ;
  if (x.dtype() == to || !small) return Cast(x, to);
  Attributes attributes{{"to", static_cast<int64_t>(to)}, {"saturate", int64_t{saturate}}};
  if (exponent) attributes.Set("round_mode", std::string(round_mode));
  return x.builder->Make(core::Elementwise(Fn::kCast), {x}, attributes);
}

Val Widen(Val x) { return IsHalf(x.dtype()) ? Cast(x, DType::kFloat32) : x; }

Val CastLike(Val x, Val like) { return Cast(x, like.dtype()); }

Val Clip(Val x, double low, double high) { return Min(Max(x, low), high); }

// max(x, 0) + log1p(exp(-|x|)): the exponential never overflows.
Val Softplus(Val x) { return Relu(x) + Log1p(Exp(-Abs(x))); }

Val MatMul(Val a, Val b, bool transpose_a, bool transpose_b) {
  return a.builder->Make(core::matmul, {a, b},
                         {{"trans_a", int64_t{transpose_a}}, {"trans_b", int64_t{transpose_b}}});
}

Val Reduce(std::string_view kind, Val x, const std::vector<int64_t>& axes, bool keepdims) {
  return x.builder->Make(
      core::reduce, {x},
      {{"kind", std::string(kind)}, {"axes", axes}, {"keepdims", int64_t{keepdims}}});
}

Val ReduceAll(std::string_view kind, Val x, bool keepdims) {
  return x.builder->Make(core::reduce, {x},
                         {{"kind", std::string(kind)}, {"keepdims", int64_t{keepdims}}});
}

Val Softmax(Val x, int64_t axis, bool log) {
  return x.builder->Make(core::softmax, {x}, {{"axis", axis}, {"log", int64_t{log}}});
}

Val Transpose(Val x, const std::vector<int64_t>& perm) {
  if (std::is_sorted(perm.begin(), perm.end())) return x;
  return x.builder->Make(core::transpose, {x}, {{"perm", perm}});
}

Val Reshape(Val x, const std::vector<int64_t>& dims) { return Reshape(x, x.builder->Ints(dims)); }

Val Reshape(Val x, Val shape, bool allowzero) {
  return x.builder->Make(core::reshape, {x, shape}, {{"allowzero", int64_t{allowzero}}});
}

Val Squeeze(Val x, const std::vector<int64_t>& axes) {
  return axes.empty() ? x : x.builder->Make(core::squeeze, {x}, {{"axes", axes}});
}

Val Unsqueeze(Val x, const std::vector<int64_t>& axes) {
  return axes.empty() ? x : x.builder->Make(core::unsqueeze, {x}, {{"axes", axes}});
}

Val Flatten(Val x, int64_t axis) { return x.builder->Make(core::flatten, {x}, {{"axis", axis}}); }

Val Slice(Val x, const std::vector<int64_t>& starts, const std::vector<int64_t>& ends,
          const std::vector<int64_t>& axes, const std::vector<int64_t>& steps) {
  Builder& b = *x.builder;
  return b.Make(core::slice, {x, b.Ints(starts), b.Ints(ends), b.Ints(axes),
                              steps.empty() ? Val{} : b.Ints(steps)});
}

Val Expand(Val x, Val shape) { return x.builder->Make(core::expand, {x, shape}); }

Val Filled(Val shape, Tensor value) {
  return shape.builder->Make(core::constant_of_shape, {shape}, {{"value", std::move(value)}});
}

Val Concat(const std::vector<Val>& parts, int64_t axis) {
  if (parts.size() == 1) return parts[0];
  return parts[0].builder->Make(core::concat, parts, {{"axis", axis}});
}

std::vector<Val> Split(Val x, const std::vector<int64_t>& sizes, int64_t axis) {
  return x.builder->MakeMany(core::split, {x, x.builder->Ints(sizes)}, {{"axis", axis}},
                             static_cast<int>(sizes.size()));
}

Val Gather(Val x, Val indices, int64_t axis) {
  return x.builder->Make(core::gather, {x, indices}, {{"axis", axis}});
}

Val ShapeOf(Val x) { return x.builder->Make(core::shape, {x}); }

Val ShapeOf(Val x, int64_t start, int64_t end) {
  return x.builder->Make(core::shape, {x}, {{"start", start}, {"end", end}});
}

Val SizeOf(Val x, int64_t axis) {
  const int position = x.Axis(axis);
  return ShapeOf(x, position, position + 1);
}

Val Positions(Val count) {
  Builder& b = *count.builder;
  const Val limit = Reshape(count, std::vector<int64_t>{});
  return b.Make(core::range, {b.Scalar(DType::kInt64, 0), limit, b.Scalar(DType::kInt64, 1)});
}

Val GatherElements(Val x, Val indices, int64_t axis) {
  return x.builder->Make(core::gather_elements, {x, indices}, {{"axis", axis}});
}

Val ScatterElements(Val x, Val indices, Val updates, int64_t axis) {
  return x.builder->Make(core::scatter_elements, {x, indices, updates},
                         {{"axis", axis}, {"reduction", std::string("none")}});
}

Val WriteRows(Val x, Val rows, Val start, int64_t axis, Val size) {
  return x.builder->Make(core::write_rows, {x, rows, start, size},
                         {{"axis", axis}, {"circular", int64_t{0}}});
}

Val Repeat(Val x, int64_t axis, Val count) {
  const int64_t position = x.Axis(axis), rank = x.rank();
  const Val before = ShapeOf(x, 0, position), after = ShapeOf(x, position + 1, rank);
  const Val size = SizeOf(x, position);
  const Val copies = Expand(Unsqueeze(x, {position + 1}), Concat({before, size, count, after}, 0));
  return Reshape(copies, Concat({before, size * count, after}, 0), true);
}

Val ToChannelsLast(Val x) { return ToChannelsLast(x, x.rank()); }

Val ToChannelsLast(Val x, int rank) {
  std::vector<int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  std::rotate(perm.begin() + 1, perm.begin() + 2, perm.end());
  return Transpose(x, perm);
}

Val ToChannelsFirst(Val x) {
  std::vector<int64_t> perm(x.rank());
  std::iota(perm.begin(), perm.end(), 0);
  std::rotate(perm.begin() + 1, perm.end() - 1, perm.end());
  return Transpose(x, perm);
}

Val AlongChannels(Val vector, int rank) { return AlongAxis(vector, rank, 1); }

Val AlongAxis(Val vector, int rank, int axis) {
  std::vector<int64_t> axes(std::max(rank - axis - 1, 0));
  std::iota(axes.begin(), axes.end(), 1);
  return Unsqueeze(vector, axes);
}

}  // namespace sardonyx
