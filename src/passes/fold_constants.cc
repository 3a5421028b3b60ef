// c = mul({1, 2}, {3, 4})   ->   c = {3, 8}
//
// Also what inference knows without the values: y = shape(x: float[2,3])   ->   y = {2, 3}

#include <algorithm>

#include "passes/passes.h"

namespace sardonyx::passes {
namespace {

// A constant that would be larger is left to be computed at each run.
constexpr int64_t kMaxBytes = int64_t{1} << 31;

// A matmul reads a transposed weight matrix through strides when it packs it (absorb_transposes).
bool IsForMatmulAlone(const Node& node) {
  if (node.op != &core::transpose || node.output()->fact.rank() < 2) return false;
  const auto& perm = node.attributes.Ints("perm");
  const int64_t last = static_cast<int64_t>(perm.size()) - 1;
  if (perm[last] != last && perm[last - 1] != last) return false;
  const auto& users = node.output()->users;
  return !users.empty() && std::all_of(users.begin(), users.end(), [&](const Node* user) {
    return user->op == &core::matmul && user->input(1) == node.output() &&
           user->input(0) != node.output() && user->attributes.Find("perm_b") == nullptr;
  });
}

bool IsFoldable(const Node& node) {
  if (!node.op->is_pure || node.op->reference == nullptr) return false;
  if (node.op == &core::if_ || node.op == &core::loop || node.op == &core::scan) return false;
  if (node.inputs.empty() || IsForMatmulAlone(node)) return false;
  return std::all_of(node.inputs.begin(), node.inputs.end(), [](const Value* input) {
    return input == nullptr || input->fact.constant.defined();
  });
}

}  // namespace

Rewrite FoldConstants(Node& node, PassContext& context) {
  std::vector<Tensor> results;
  const bool inferred =
      node.op->is_pure && std::all_of(node.outputs.begin(), node.outputs.end(), [](const Value* o) {
        const DType dtype = o->fact.type.dtype;
        return o->fact.type.is_tensor() && o->fact.known() &&
               (o->fact.constant.defined() || dtype == DType::kInt64 || dtype == DType::kInt32);
      });
  if (inferred) {
    for (const Value* output : node.outputs) results.push_back(output->fact.ToTensor());
  } else {
    if (!IsFoldable(node)) return NoMatch{};
    int64_t bytes = 0;
    for (const Value* output : node.outputs) {
      if (!output->fact.type.is_tensor()) return NoMatch{};
      if (!output->fact.static_shape()) continue;
      double size = 1;
      for (Dim dim : *output->fact.shape) size *= static_cast<double>(dim.value());
      if (size > static_cast<double>(kMaxBytes))
        return CheckFailed{"the result would be too large"};
      bytes += ByteSize(output->fact.type.dtype, static_cast<int64_t>(size));
    }
    if (bytes > kMaxBytes) return CheckFailed{"the result would be too large"};
    std::vector<Tensor> inputs;
    for (const Value* input : node.inputs) {
      inputs.push_back(input != nullptr ? input->fact.constant : Tensor());
    }
    results = context.fold(node, inputs);
    for (const Tensor& tensor : results) {
      if (!tensor.defined()) return NoMatch{};
    }
  }
  PatchMaker maker(context, node);
  std::vector<Val> values;
  for (Tensor& tensor : results) values.push_back(maker.builder().Constant(std::move(tensor)));
  return maker.Replace(node, values);
}

}  // namespace sardonyx::passes
