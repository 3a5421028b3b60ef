// c = conv(x, w)                       ->   c = conv(x, w) {winograd=0}
//
// Where each filter has at most one weight, as convolutions that gather patches have: the result is
// the input's numbers, each times a weight, and zeros stay zeros. Winograd's sums would make 1e-7
// of the largest around it of a zero, or of a small number, and a root behind it NaN.

#include <algorithm>
#include <cstring>

#include "passes/passes.h"

namespace sardonyx::passes {
namespace {

// Whether no row of w [rows, columns] has two numbers. Others end it within a few.
bool HasOneNumberARow(const Tensor& w) {
  const auto* at = static_cast<const char*>(w.raw());  // perhaps not aligned
  const int64_t rows = w.dims()[0], columns = w.size() / std::max<int64_t>(rows, 1);
  for (int64_t row = 0; row < rows; ++row) {
    int numbers = 0;
    for (int64_t i = 0; i < columns; ++i, at += sizeof(float)) {
      float weight;
      std::memcpy(&weight, at, sizeof(weight));
      numbers += weight != 0;
      if (numbers > 1) return false;
    }
  }
  return rows > 0;
}

}  // namespace

Rewrite KeepSelections(Node& node, PassContext& context) {
  if (node.op != &core::conv || !node.input(1)->is_constant() || IsPointwise(node)) {
    return NoMatch{};
  }
  if (node.attributes.Find("winograd") != nullptr) return NoMatch{};
  const Tensor& w = node.input(1)->fact.constant;
  if (w.dtype() != DType::kFloat32 || w.raw() == nullptr || !HasOneNumberARow(w)) {
    return NoMatch{};
  }
  PatchMaker maker(context, node);
  std::vector<Val> inputs;
  for (Value* input : node.inputs) inputs.push_back(maker.Wrap(input));
  Attributes attributes = node.attributes;
  attributes.Set("winograd", int64_t{0});
  return maker.Replace(node, {maker.builder().Make(*node.op, inputs, std::move(attributes))});
}

}  // namespace sardonyx::passes
