#include <algorithm>
#include <array>
#include <numeric>

#include "ops/contrib/standard.h"

namespace sardonyx::ops::contrib {
namespace {

// The standard's activation of that name, with the attributes that it knows.
Val Activate(Lowering& op, Val x, const std::string& name, Attributes attributes) {
  // Those of ONNX's first operators.
  const double alpha = attributes.Float("alpha", 1), beta = attributes.Float("beta", 1);
  if (name == "ScaledTanh") return alpha * Tanh(beta * x);
  if (name == "ParametricSoftplus") return alpha * Softplus(beta * x);
  static constexpr std::array<std::string_view, 13> kActivations = {
      "Celu",    "Elu",      "HardSigmoid", "HardSwish",       "LeakyRelu", "Relu", "Selu",
      "Sigmoid", "Softplus", "Softsign",    "ThresholdedRelu", "Tanh",      "Mish"};
  if (name.empty()) return x;
  if (std::ranges::find(kActivations, name) == kActivations.end()) {
    op.Unsupported(
        "attribute activation is '{}', but must be one of Clip, ParametricSoftplus, ScaledTanh, {}",
        name, fmt::join(kActivations, ", "));
  }
  return Standard(op, name, {x}, std::move(attributes)).values[0];
}

// 0 is not the default of every activation, so what is not given is not set.
void Copy(const Lowering& op, std::string_view from, std::string_view to, Attributes* attributes) {
  if (op.HasAttribute(from)) attributes->Set(to, op.Float(from));
}

// Moves the first axis behind the batch axes: [M,batch...,K] -> [batch...,M,K].
Val BatchFirst(Val x) {
  std::vector<int64_t> perm(x.rank());
  std::iota(perm.begin(), perm.end(), 0);
  if (perm.size() > 2) std::rotate(perm.begin(), perm.begin() + 1, perm.end() - 1);
  return Transpose(x, perm);
}

Val SwapLast(Val x) {
  std::vector<int64_t> perm(x.rank());
  std::iota(perm.begin(), perm.end(), 0);
  if (perm.size() > 1) std::swap(perm.back(), perm[perm.size() - 2]);
  return Transpose(x, perm);
}

}  // namespace

// activation(X * W + B + Z)
Outputs LowerFusedConv(Lowering& op) {
  Val y = Standard(op, "Conv", op.inputs, op.attributes).values[0];
  if (op.has(3)) y = y + op.in(3);
  const std::string name = op.String("activation");
  const std::vector<double>& params = op.attributes.Floats("activation_params");
  const auto expect = [&](size_t count) {
    if (params.size() != count) {
      op.Fail("attribute activation_params has {} values, but {} takes {}", params.size(), name,
              count);
    }
  };
  if (name == "Clip") {
    expect(2);
    return Clip(y, params[0], params[1]);
  }
  Attributes attributes;
  if (name == "LeakyRelu") {
    expect(1);
    attributes.Set("alpha", params[0]);
  } else if (name == "HardSigmoid") {
    expect(2);
    attributes.Set("alpha", params[0]);
    attributes.Set("beta", params[1]);
  }
  return Activate(op, y, name, std::move(attributes));
}

// activation(alpha * A' * B' + beta * C)
Outputs LowerFusedGemm(Lowering& op) {
  const Val y = Standard(op, "Gemm", op.inputs, op.attributes).values[0];
  Attributes attributes;
  Copy(op, "activation_alpha", "alpha", &attributes);
  Copy(op, "activation_beta", "beta", &attributes);
  Copy(op, "activation_gamma", "gamma", &attributes);
  return Activate(op, y, op.String("activation"), std::move(attributes));
}

// alpha * A' * B', vectors as in MatMul. `transBatch` turns [M,batch...,K] into [batch...,M,K], and
// `trans` then swaps the two last axes.
Outputs LowerFusedMatMul(Lowering& op) {
  for (size_t i : {0, 1}) {
    if (op.Int(i == 0 ? "transBatchA" : "transBatchB") != 0) op.inputs[i] = BatchFirst(op.in(i));
    if (op.Int(i == 0 ? "transA" : "transB") != 0) op.inputs[i] = SwapLast(op.in(i));
  }
  const Val y = Standard(op, "MatMul", op.inputs).values[0];
  const double alpha = op.Float("alpha", 1);
  return alpha == 1 ? y : y * alpha;
}

// The older name of FusedMatMul, without `transBatch`.
Outputs LowerTransposeMatMul(Lowering& op) { return LowerFusedMatMul(op); }

}  // namespace sardonyx::ops::contrib
