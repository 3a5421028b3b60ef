// c = mul({1, 2}, {3, 4})   ->   c = {3, 8}
//
// Also what inference knows without the values: y = shape(x: float[2,3])   ->   y = {2, 3}

#include <algorithm>
#include <cmath>

#include "ops/core/deferred.h"
#include "ops/lowering.h"
#include "passes/passes.h"

namespace sardonyx::passes {
namespace {

// A constant that would be larger, or take more multiplications than some tenths of a second allow,
// is left to be computed at each run.
constexpr int64_t kMaxBytes = int64_t{1} << 31;
constexpr double kMaxProducts = 2e10;

// A matmul reads a transposed weight matrix through strides when it packs it (absorb_transposes),
// unless it is folded itself.
bool IsForMatmulAlone(const Node& node) {
  if (node.op != &core::transpose || node.output()->fact.rank() < 2) return false;
  const auto& perm = node.attributes.Ints("perm");
  const int64_t last = static_cast<int64_t>(perm.size()) - 1;
  if (perm[last] != last && perm[last - 1] != last) return false;
  const auto& users = node.output()->users;
  return !users.empty() && std::all_of(users.begin(), users.end(), [&](const Node* user) {
    return user->op == &core::matmul && user->input(1) == node.output() &&
           user->input(0) != node.output() && !user->input(0)->is_constant() &&
           user->attributes.Find("perm_b") == nullptr;
  });
}

// About how many numbers are multiplied: exactly so in a product of matrices.
double Products(const Node& node) {
  static constexpr const CoreOp* kProducts[] = {
      &core::matmul, &core::conv, &core::conv_transpose, &core::lstm, &core::attention,
      &core::gru,    &core::rnn};
  if (std::find(std::begin(kProducts), std::end(kProducts), node.op) == std::end(kProducts))
    return 0;
  double product = 1;
  for (const Value* factor : {node.input(0), node.input(1)}) {
    product *= static_cast<double>(factor->fact.constant.size());
  }
  const Fact& result = node.output()->fact;
  if (!result.static_shape()) return 0;
  for (Dim dim : *result.shape) product *= static_cast<double>(dim.value());
  return std::sqrt(product);
}

bool IsFoldable(const Node& node) {
  if (!node.op->is_pure || node.op->reference == nullptr) return false;
  if (node.op == &core::if_ || node.op == &core::loop || node.op == &core::scan) return false;
  if (node.inputs.empty() || IsForMatmulAlone(node) || core::HasFailed(node)) return false;
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
    if (Products(node) > kMaxProducts) return CheckFailed{"computing it would take long"};
    double bytes = 0;
    for (const Value* output : node.outputs) {
      const Fact& fact = output->fact;
      if (!fact.type.is_tensor()) return NoMatch{};
      if (!fact.static_shape()) continue;
      double size = static_cast<double>(ByteSize(fact.type.dtype, 8)) / 8;
      for (Dim dim : *fact.shape) size *= static_cast<double>(dim.value());
      bytes += size;
    }
    std::vector<Tensor> inputs;
    int64_t given = 0;
    for (const Value* input : node.inputs) {
      inputs.push_back(input != nullptr ? input->fact.constant : Tensor());
      given += inputs.back().defined() ? inputs.back().bytes() : 0;
    }
    if (bytes > static_cast<double>(std::min(kMaxBytes, given + context.growth_left))) {
      return CheckFailed{"the result would be too large"};
    }
    try {
      results = context.fold(node, inputs);
    } catch (const Error& error) {
      // What need not run is none of the model's faults yet.
      if (!context.is_body || !ops::IsFaultOfInputs(error)) throw;
      return CheckFailed{"it fails"};
    }
    int64_t made = 0;
    for (const Tensor& tensor : results) {
      if (!tensor.defined()) return NoMatch{};
      made += tensor.bytes();
    }
    context.growth_left -= std::max<int64_t>(made - given, 0);
  }
  PatchMaker maker(context, node);
  std::vector<Val> values;
  for (Tensor& tensor : results) values.push_back(maker.builder().Constant(std::move(tensor)));
  return maker.Replace(node, values);
}

}  // namespace sardonyx::passes
