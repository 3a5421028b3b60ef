// g = gather(w, e) {axis=0}       ->   p = expert_matmul(squeeze(v), w, unsqueeze(e))
// y = matmul(g, v)   v: [r,k,1]        y = unsqueeze(squeeze(p))
//
// The product of a row with the matrix chosen for it, as exporters write mixtures of experts: the
// gather would copy a matrix for each row, and each product read it again, while rows of one expert
// can be one product. Rows on the left (v: [r,1,k]) and several experts of a row (e: [r,s], v:
// [r,1,k,1]) too.

#include <algorithm>

#include "passes/passes.h"

namespace sardonyx::passes {
namespace {

// Chooses matrices of [E, a, b].
bool ChoosesMatrices(const Value* value) {
  if (!IsFrom(value, core::gather)) return false;
  const Node& gather = *value->producer;
  const Fact &w = gather.input(0)->fact, &chosen = gather.input(1)->fact;
  return gather.attributes.Int("axis") == 0 && w.ranked() && w.rank() == 3 && chosen.ranked() &&
         (chosen.rank() == 1 || chosen.rank() == 2);
}

// To put rows in the order of their matrices takes a while for each matrix there is: of a table of
// small ones (200,000 vectors of 64, of which 100 are chosen) eight times as long as the gather.
bool AreWorthIt(const Value* matrices) {
  const Dims& shape = *matrices->fact.shape;
  if (!shape[0].known() || !shape[1].known() || !shape[2].known()) return false;
  return shape[0].value() / 4 / std::max<int64_t>(shape[1].value(), 1) <= shape[2].value();
}

}  // namespace

Rewrite ExpertProducts(Node& node, PassContext& context) {
  if (!IsPlainProduct(node) || node.attributes.Int("trans_b") != 0) return NoMatch{};
  const bool on_left = ChoosesMatrices(node.input(0));  // [n, k] of each, else [k, n]
  if (!on_left && !ChoosesMatrices(node.input(1))) return NoMatch{};
  Value *const matrices = node.input(on_left ? 0 : 1), *const v = node.input(on_left ? 1 : 0);
  const Node& gather = *matrices->producer;
  Value *const w = gather.input(0), *const chosen = gather.input(1);
  // v: an axis for each of the choice, the vector, and an axis of one beside it.
  const int64_t axes = chosen->fact.rank(), rank = axes + 2;
  const int64_t one = on_left ? rank - 1 : rank - 2;
  if (!v->fact.ranked() || v->fact.rank() != rank || (*v->fact.shape)[one] != Dim(1)) {
    return CheckFailed{"more than a row for each matrix, or rows that are for several"};
  }
  if (axes == 2 && (*v->fact.shape)[1] != Dim(1)) {
    return CheckFailed{"each expert of a row has a row of its own"};
  }
  if (!AreWorthIt(w)) return CheckFailed{"its matrices are small and many, or may be"};
  if (!HasOneUser(context.graph, matrices)) return CheckFailed{"the matrices have other users"};
  if (!IsComputedAsFloat32(v) || v->fact.type != w->fact.type) {
    return CheckFailed{"it is not of float"};
  }
  // Halves are computed in float32; constant matrices are widened as they are packed, or stay so.
  const DType type = v->fact.type.dtype;
  if (IsHalf(type) && !w->is_constant()) return CheckFailed{"its halves are not constant"};
  PatchMaker maker(context, node);
  std::vector<int64_t> ones = {one};
  if (axes == 2) ones.insert(ones.begin(), 1);
  const Val rows = Cast(Squeeze(maker.Wrap(v), ones), DType::kFloat32);
  Val experts = Cast(maker.Wrap(chosen), DType::kInt64);
  if (axes == 1) experts = Unsqueeze(experts, {1});
  Attributes attributes;
  if (!on_left) attributes.Set("trans_w", int64_t{1});
  Val y = maker.builder().Make(core::expert_matmul, {rows, maker.Wrap(w), experts},
                               std::move(attributes));
  y = Cast(y, type);
  // [r, s, n], with s = 1 if the choice has one axis.
  if (axes == 1 && on_left) y = Squeeze(y, {1});
  if (axes == 2 || on_left) y = Unsqueeze(y, {one});
  return maker.Replace(node, {y});
}

}  // namespace sardonyx::passes
