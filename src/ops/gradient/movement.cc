// Operations that move elements. Where each element of the output is one of the input, the same
// operation on the elements' positions says where the gradient goes back to.

#include "ops/gradient/backward.h"

namespace sardonyx::ops {
namespace {

Val AddAt(Val x, Val indices, Val updates, int64_t axis) {
  return x.builder->Make(core::scatter_elements, {x, indices, updates},
                         {{"axis", axis}, {"reduction", std::string("add")}});
}

Val Flat(Val x) { return Reshape(x, std::vector<int64_t>{-1}); }

void MoveBack(Backward& node) {
  for (size_t i = 1; i < node.node.inputs.size(); ++i) {
    if (node.wants(i)) node.Refuse("to its further inputs");
  }
  const Val x = node.in(0), shape = ShapeOf(x);
  const Val count = Reshape(node.b.Make(core::size, {x}), std::vector<int64_t>{1});
  std::vector<Val> inputs{Reshape(Positions(count), shape, true)};
  for (size_t i = 1; i < node.node.inputs.size(); ++i) inputs.push_back(node.in(i));
  const std::vector<Val> positions = node.b.MakeMany(*node.node.op, inputs, node.attributes(),
                                                     static_cast<int>(node.node.outputs.size()));
  Val gathered = Filled(count, MakeFilled(x.dtype(), {1}, 0));
  for (size_t i = 0; i < positions.size(); ++i) {
    if (node.grad(i)) gathered = AddAt(gathered, Flat(positions[i]), Flat(node.grad(i)), 0);
  }
  node.Add(0, Reshape(gathered, shape, true));
}

void ReshapeBackward(Backward& node) {
  node.Add(0, Reshape(node.grad(), ShapeOf(node.in(0)), true));
}

void TransposeBackward(Backward& node) {
  const auto& perm = node.attributes().Ints("perm");
  std::vector<int64_t> inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) inverse[perm[i]] = static_cast<int64_t>(i);
  node.Add(0, Transpose(node.grad(), inverse));
}

void ExpandBackward(Backward& node) { node.Add(0, node.grad()); }

void ConcatBackward(Backward& node) {
  const int64_t axis = node.attributes().Int("axis");
  std::vector<Val> sizes;
  for (size_t i = 0; i < node.node.inputs.size(); ++i) sizes.push_back(SizeOf(node.in(i), axis));
  const std::vector<Val> parts = node.b.MakeMany(core::split, {node.grad(), Concat(sizes, 0)},
                                                 {{"axis", axis}}, static_cast<int>(sizes.size()));
  for (size_t i = 0; i < parts.size(); ++i) node.Add(i, parts[i]);
}

void SplitBackward(Backward& node) {
  std::vector<Val> parts;
  for (size_t i = 0; i < node.node.outputs.size(); ++i) {
    parts.push_back(node.grad(i) ? node.grad(i) : node.Zeros(node.out(i)));
  }
  node.Add(0, Concat(parts, node.attributes().Int("axis")));
}

// A pad by the negative takes off what was put on, and puts zeros where something was taken off.
void PadBackward(Backward& node) {
  if (node.attributes().String("mode", "constant") != "constant") return MoveBack(node);
  const Val g = node.grad();
  const Val back = node.b.Make(core::pad, {g, -node.in(1), Val{}, node.in(3)},
                               {{"mode", std::string("constant")}});
  node.Add(0, back);
  if (node.wants(2)) {
    const Val rest = ReduceAll("sum", g, false) - ReduceAll("sum", back, false);
    node.Add(2, Reshape(rest, ShapeOf(node.in(2)), true));
  }
}

void TriluBackward(Backward& node) {
  node.Add(0, node.b.Make(core::trilu, {node.grad(), node.in(1)}, node.attributes()));
}

void TopkBackward(Backward& node) {
  const std::vector<Val> found =
      node.b.MakeMany(core::topk, {node.in(0), node.in(1)}, node.attributes(), 2);
  node.Add(0,
           AddAt(node.Zeros(node.in(0)), found[1], node.grad(), node.attributes().Int("axis", -1)));
}

// Whether updates replace (false) or are added (true).
bool Adds(const Backward& node) {
  const std::string_view reduction = node.attributes().String("reduction", "none");
  if (reduction != "none" && reduction != "add") node.Refuse("with this reduction");
  return reduction == "add";
}

void ScatterElementsBackward(Backward& node) {
  const Val g = node.grad(), indices = node.in(1);
  const int64_t axis = node.attributes().Int("axis");
  const bool adds = Adds(node);
  if (node.wants(0)) {
    node.Add(0, adds ? g : ScatterElements(g, indices, node.Zeros(node.in(2)), axis));
  }
  if (node.wants(2)) node.Add(2, GatherElements(g, indices, axis));
}

void ScatterNdBackward(Backward& node) {
  const Val g = node.grad(), indices = node.in(1);
  const bool adds = Adds(node);
  if (node.wants(0)) {
    node.Add(0, adds ? g
                     : node.b.Make(core::scatter_nd, {g, indices, node.Zeros(node.in(2))},
                                   node.attributes()));
  }
  if (node.wants(2)) {
    node.Add(2, node.b.Make(core::gather_nd, {g, indices}, {{"batch_dims", int64_t{0}}}));
  }
}

void WriteRowsBackward(Backward& node) {
  const Val g = node.grad(), rows = node.in(1);
  const int64_t axis = node.attributes().Int("axis");
  if (node.wants(0)) {
    const Val kept =
        node.b.Make(core::write_rows, {g, node.Zeros(rows), node.in(2)}, node.attributes());
    node.Add(0, node.b.Make(core::slice, {kept, node.b.Ints({0}), SizeOf(node.in(0), axis),
                                          node.b.Ints({axis}), Val{}}));
  }
  if (!node.wants(1)) return;
  const int rank = rows.rank(), along = rows.Axis(axis);
  Val at = AlongAxis(Positions(SizeOf(rows, axis)), rank, along);
  if (node.in(2)) at = at + AlongAxis(Reshape(node.in(2), std::vector<int64_t>{-1}), rank, 0);
  if (node.attributes().Int("circular") != 0) at = Mod(at, SizeOf(g, axis));
  node.Add(1, GatherElements(g, Expand(at, ShapeOf(rows)), axis));
}

void OneHotBackward(Backward& node) {
  const Val g = node.grad();
  const Val zero = node.b.Scalar(g.dtype(), 0), one = node.b.Scalar(g.dtype(), 1);
  const Val marks =
      node.b.Make(core::one_hot,
                  {node.in(0), node.in(1), Concat({Unsqueeze(zero, {0}), Unsqueeze(one, {0})}, 0)},
                  node.attributes());
  const auto sum = [](Val x) {
    return Reshape(ReduceAll("sum", x, false), std::vector<int64_t>{1});
  };
  node.Add(2, Concat({sum(g * (1 - marks)), sum(g * marks)}, 0));
}

void ResizeBackward(Backward& node) {
  const bool moves =
      node.attributes().String("mode", "nearest") == "nearest" &&
      node.attributes().String("coordinate_transformation_mode") != "tf_crop_and_resize";
  if (!moves) node.Refuse("but for nearest neighbours");
  MoveBack(node);
}

void Nothing(Backward&) {}

}  // namespace

std::span<const GradientRule> MovementRules() {
  static constexpr GradientRule kRules[] = {
      {&core::reshape, ReshapeBackward},
      {&core::squeeze, ReshapeBackward},
      {&core::unsqueeze, ReshapeBackward},
      {&core::flatten, ReshapeBackward},
      {&core::transpose, TransposeBackward},
      {&core::expand, ExpandBackward},
      {&core::concat, ConcatBackward},
      {&core::split, SplitBackward},
      {&core::pad, PadBackward},
      {&core::slice, MoveBack},
      {&core::tile, MoveBack},
      {&core::gather, MoveBack},
      {&core::gather_elements, MoveBack},
      {&core::gather_nd, MoveBack},
      {&core::compress, MoveBack},
      {&core::resize, ResizeBackward},
      {&core::trilu, TriluBackward},
      {&core::topk, TopkBackward},
      {&core::one_hot, OneHotBackward},
      {&core::scatter_elements, ScatterElementsBackward},
      {&core::scatter_nd, ScatterNdBackward},
      {&core::write_rows, WriteRowsBackward},
      {&core::eye_like, Nothing},
      {&core::bernoulli, Nothing},
  };
  return kRules;
}

}  // namespace sardonyx::ops
