// q = matmul(x, a: float[k,n], b: float[n]) {epilogue = add(0,1)}
// r = matmul(x, c: float[k,m], d: float[m]) {epilogue = add(0,1)}
// y = attention(q, r, ...)
//            ->   p = matmul(x, concat(a, c), concat(b, d)) {epilogue = add(0,1)}
//                 q, r = split(p); y = attention(q, r, ...)
//
// Reshapes and transposes may stand between. The parts are read in place (runtime/parts.cc), so
// nothing is moved; x is read, and where matrix tiles multiply it is split, once.

#include <algorithm>

#include "passes/passes.h"

namespace sardonyx::passes {
namespace {

constexpr size_t kOwnInputs = 2;
// Rows of parts that are shorter may be copied.
constexpr int64_t kLeastColumns = 32;

// The constant matrix of a product, as it is or behind a transpose that stays for the packing.
struct Weights {
  explicit Weights(const Node& product) : constant(product.inputs[1]) {
    is_transposed = IsFrom(constant, core::transpose) &&
                    constant->producer->attributes.Ints("perm") == std::vector<int64_t>{1, 0};
    if (is_transposed) constant = constant->producer->inputs[0];
    columns = is_transposed == (product.attributes.Int("trans_b") != 0) ? 1 : 0;
  }
  bool IsMatrix() const { return constant->is_constant() && constant->fact.constant.rank() == 2; }

  Value* constant;
  bool is_transposed;
  int64_t columns;  // the axis of the constant along which columns lie
};

int64_t ColumnsOf(const Node& product) { return product.output()->fact.shape->back().value(); }

bool IsMergeable(const Node& product) {
  if (product.op != &core::matmul || !product.output()->fact.ranked()) return false;
  if (!Weights(product).IsMatrix() || product.inputs[0]->is_constant()) return false;
  if (product.attributes.Find("perm_b") != nullptr ||
      product.attributes.Find("perm_y") != nullptr) {
    return false;
  }
  const Dim columns = product.output()->fact.shape->back();
  if (!columns.known() || columns.value() < kLeastColumns) return false;
  return std::all_of(product.inputs.begin() + kOwnInputs, product.inputs.end(),
                     [&](const Value* operand) { return IsVector(operand, columns.value()); });
}

// The product that an operand of an attention is a view of, if that alone uses it; else null.
const Node* ProductBehind(const Graph& graph, const Value* value) {
  while (value != nullptr && HasOneUser(graph, value)) {
    if (IsFrom(value, core::matmul)) {
      return IsMergeable(*value->producer) ? value->producer : nullptr;
    }
    if (!IsFrom(value, core::reshape) && !IsFrom(value, core::transpose)) return nullptr;
    value = value->producer->inputs[0];
  }
  return nullptr;
}

// Whether operands can stand side by side, and all else is the same.
bool AreAlike(const Node& a, const Node& b) {
  const Weights left(a), right(b);
  if (a.inputs[0] != b.inputs[0] || a.inputs.size() != b.inputs.size() ||
      left.is_transposed != right.is_transposed || a.attributes != b.attributes) {
    return false;
  }
  const auto are_alike = [](const Value* x, const Value* y) {
    return x->fact.type == y->fact.type && x->fact.rank() == y->fact.rank();
  };
  return a.output()->fact.type == b.output()->fact.type &&
         are_alike(left.constant, right.constant) &&
         std::equal(a.inputs.begin() + kOwnInputs, a.inputs.end(), b.inputs.begin() + kOwnInputs,
                    are_alike);
}

}  // namespace

Rewrite MergeProducts(Node& node, PassContext& context) {
  if (node.op != &core::attention) return NoMatch{};
  std::vector<const Node*> found;
  for (size_t i = 0; i < 3; ++i) {
    const Node* const product = ProductBehind(context.graph, node.inputs[i]);
    if (product == nullptr || std::ranges::count(found, product) > 0) continue;
    found.push_back(product);
  }
  // All, or keys and values of another row of tokens than queries, or what has a bias.
  std::vector<const Node*> products;
  for (size_t i = 0; i < found.size() && products.size() < 2; ++i) {
    products.clear();
    std::copy_if(found.begin() + static_cast<std::ptrdiff_t>(i), found.end(),
                 std::back_inserter(products),
                 [&](const Node* other) { return AreAlike(*found[i], *other); });
  }
  if (products.size() < 2) return NoMatch{};

  const Node& first = *products[0];
  PatchMaker maker(context, first);
  const auto joined = [&](auto&& operand_of, int64_t axis) {
    std::vector<Val> parts;
    for (const Node* product : products) parts.push_back(maker.Wrap(operand_of(*product)));
    return Concat(parts, axis);
  };
  const Weights own(first);
  Val weights = joined([](const Node& product) { return Weights(product).constant; }, own.columns);
  if (own.is_transposed) weights = Transpose(weights, {1, 0});
  std::vector<Val> inputs = {maker.Wrap(first.inputs[0]), weights};
  for (size_t i = kOwnInputs; i < first.inputs.size(); ++i) {
    inputs.push_back(joined([i](const Node& product) { return product.inputs[i]; },
                            static_cast<int64_t>(first.inputs[i]->fact.rank()) - 1));
  }
  const Val all = maker.builder().Make(core::matmul, inputs, first.attributes);
  std::vector<int64_t> sizes;
  for (const Node* product : products) sizes.push_back(ColumnsOf(*product));
  const std::vector<Val> parts = Split(all, sizes, all.rank() - 1);
  Patch patch = maker.Replace(first, {});
  for (size_t i = 0; i < products.size(); ++i) {
    patch.replacements.emplace_back(products[i]->output(), parts[i].value);
  }
  return patch;
}

}  // namespace sardonyx::passes
