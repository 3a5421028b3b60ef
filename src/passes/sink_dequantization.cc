// r = mul(cast(sub(cast(q), 3)), 0.5)         s = max_pool(q)
// y = max_pool(r)                        ->   y = mul(cast(sub(cast(s), 3)), 0.5)
//
// What only moves or compares elements works on the bytes: a fourth of the memory, and what is
// quantised again with the same parameters behind it is the bytes themselves:
//
// y = cast(clip(round(div(r, 0.5)) + 3))   ->   y = q
//
// A global average is an exact sum of bytes:
//
// y = reduce(r) {kind=mean}                ->   y = mul(cast(sub(byte_sum(q), 3 * n)), 0.5 / n)

#include <algorithm>
#include <numeric>

#include "passes/passes.h"
#include "passes/quantization.h"

namespace sardonyx::passes {
namespace {

// Operations whose outputs are elements of input 0, in another place.
bool Moves(const Node& node) {
  static const CoreOp* const kMoving[] = {&core::reshape, &core::squeeze,   &core::unsqueeze,
                                          &core::flatten, &core::transpose, &core::slice,
                                          &core::expand,  &core::tile,      &core::gather};
  if (std::find(std::begin(kMoving), std::end(kMoving), node.op) != std::end(kMoving)) return true;
  // With a positive scale the largest byte is the largest number.
  return node.op == &core::max_pool && node.outputs.size() == 1;
}

// A parameter as the transposed tensor needs it.
Val Transposed(Val parameter, const std::vector<int64_t>& perm) {
  if (!parameter || parameter.rank() == 0) return parameter;
  std::vector<int64_t> axes(perm.size() - static_cast<size_t>(parameter.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  return Transpose(axes.empty() ? parameter : Unsqueeze(parameter, axes), perm);
}

// One scale and one zero point for the whole tensor.
bool IsPlain(const Dequantized& given) {
  const std::optional<double> scale = ScalarOf(given.scale);
  return scale && *scale > 0 && given.scale->fact.rank() == 0 &&
         (given.zero == nullptr || (ScalarOf(given.zero) && given.zero->fact.rank() == 0));
}

// Bytes in an average over all spatial axes; 0: another operation, or not known.
int64_t Averaged(const Node& node) {
  if (node.op != &core::reduce || node.attributes.String("kind") != "mean") return 0;
  const std::optional<Dims>& dims = node.input(0)->fact.shape;
  const std::vector<int64_t>& axes = node.attributes.Ints("axes");
  if (!dims || axes.empty() || axes.size() + 2 != dims->size()) return 0;
  const auto rank = static_cast<int64_t>(dims->size());
  const auto axis_of = [&](size_t i) { return axes[i] < 0 ? axes[i] + rank : axes[i]; };
  const int64_t first = axis_of(0);
  if (first != 1 && first != 2) return 0;  // channels last or first
  int64_t count = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = first + static_cast<int64_t>(i);
    const Dim dim = (*dims)[static_cast<size_t>(axis)];
    if (axis_of(i) != axis || !dim.known()) return 0;
    count *= dim.value();
    if (count > 1 << 20) return 0;  // sums stay in int32
  }
  return count;
}

}  // namespace

Rewrite SinkDequantization(Node& node, PassContext& context) {
  if (const auto again = MatchQuantized(node.outputs.empty() ? nullptr : node.output())) {
    const auto given = MatchDequantized(again->real);
    if (!given) return NoMatch{};
    if (!IsPlain(*given) || given->x->fact.type != node.output()->fact.type ||
        ScalarOf(again->scale) != ScalarOf(given->scale)) {
      return CheckFailed{"quantised again with other parameters"};
    }
    const double zero = given->zero == nullptr ? 0 : *ScalarOf(given->zero);
    const auto other = again->zero == nullptr ? std::optional<double>(0) : ScalarOf(again->zero);
    if (other != zero) return CheckFailed{"quantised again with another zero point"};
    PatchMaker maker(context, node);
    return maker.Replace(node, {maker.Wrap(given->x)});
  }
  const int64_t averaged = Averaged(node);
  if ((!Moves(node) && averaged == 0) || node.input(0) == nullptr) return NoMatch{};
  const auto given = MatchDequantized(node.input(0));
  if (!given) return NoMatch{};
  // Weights that a product reads transposed, and tables, stay bytes as well; what else is done to a
  // constant is computed once.
  const bool transposes = node.op == &core::transpose;
  if (given->x->is_constant() && !transposes && node.op != &core::gather) return NoMatch{};
  if (!transposes && !IsPlain(*given)) {
    return CheckFailed{"not one constant scale for the whole tensor"};
  }
  PatchMaker maker(context, node);
  std::vector<Val> inputs;
  for (Value* input : node.inputs) inputs.push_back(maker.Wrap(input));
  inputs[0] = maker.Wrap(given->x);
  Val zero = maker.Wrap(given->zero), scale = maker.Wrap(given->scale);
  if (transposes) {
    zero = Transposed(zero, node.attributes.Ints("perm"));
    scale = Transposed(scale, node.attributes.Ints("perm"));
  }
  Attributes attributes = node.attributes;
  if (averaged > 0) {
    attributes.Set("kind", std::string("byte_sum"));
    if (zero) zero = zero * static_cast<double>(averaged);
    scale = scale / static_cast<double>(averaged);
  }
  Val y = Cast(maker.builder().Make(*node.op, inputs, attributes), DType::kInt32);
  if (zero) y = y - zero;
  return maker.Replace(node, {Cast(y, DType::kFloat32) * scale});
}

}  // namespace sardonyx::passes
