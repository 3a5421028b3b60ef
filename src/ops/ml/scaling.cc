// Operators that rescale or replace numbers, feature by feature or row by row.

#include <cmath>

#include "ops/ml/scores.h"

namespace sardonyx::ops::ml {

// An integer is greater than the threshold if it is greater than the integer below it.
Outputs LowerBinarizer(Lowering& op) {
  const Val x = op.in(0);
  const double threshold = op.Float("threshold");
  if (IsFloat(x.dtype())) return Cast(Greater(x, threshold), x.dtype());
  const double limit = std::ldexp(1.0, 63);
  const Val wide = Cast(x, DType::kInt64);
  if (threshold < -limit) return Cast(Equal(wide, wide), x.dtype());
  if (!(threshold < limit)) return Cast(Less(wide, wide), x.dtype());
  const auto below = static_cast<int64_t>(std::floor(threshold));
  return Cast(Greater(wide, op.builder().Constant(MakeScalar(below))), x.dtype());
}

Outputs LowerScaler(Lowering& op) {
  const Val x = Precise(op.in(0));
  const auto feature_list = [&](std::string_view name, double otherwise) {
    std::vector<double> list = op.attributes.Floats(name);
    if (list.empty()) list = {otherwise};
    return FeatureValues(op, x, MakeVector(list), name);
  };
  const Val offset = feature_list("offset", 0), scale = feature_list("scale", 1);
  return Cast((x - offset) * scale, DType::kFloat32);
}

// ONNX Runtime divides by the sum of magnitudes in mode L1, and so do we; the standard's text says
// the sum, but calls it a norm.
Outputs LowerNormalizer(Lowering& op) {
  const Val x = Precise(op.in(0));
  if (x.rank() < 1 || x.rank() > 2)
    op.Fail("the input must be [N,C] or [C], not of rank {}", x.rank());
  const std::string norm = op.String("norm", "MAX");
  Val divisor;
  if (norm == "MAX") {
    divisor = Reduce("max", x, {-1}, true);
  } else if (norm == "L1") {
    divisor = Reduce("l1", x, {-1}, true);
  } else if (norm == "L2") {
    divisor = Reduce("l2", x, {-1}, true);
  } else {
    op.Fail("norm must be MAX, L1 or L2, not '{}'", norm);
  }
  const Val one = op.builder().Scalar(x.dtype(), 1);
  return Cast(x / Where(Equal(divisor, 0.0), one, divisor), DType::kFloat32);
}

Outputs LowerImputer(Lowering& op) {
  const Val x = op.in(0);
  Builder& builder = op.builder();
  const bool floats = IsFloat(x.dtype());
  const std::string_view name = floats ? "imputed_value_floats" : "imputed_value_int64s";
  const Tensor list = floats ? MakeVector(op.attributes.Floats(name)) : MakeVector(op.Ints(name));
  if (list.size() == 0) op.Fail("an input of {} needs the attribute {}", Name(x.dtype()), name);
  const Val imputed = Cast(FeatureValues(op, x, list, name), x.dtype());
  if (floats) {
    const double replaced = op.Float("replaced_value_float");
    return Where(std::isnan(replaced) ? IsNaN(x) : Equal(x, replaced), imputed, x);
  }
  const Val replaced = builder.Constant(MakeScalar(op.Int("replaced_value_int64")));
  return Where(Equal(Cast(x, DType::kInt64), replaced), imputed, x);
}

// Columns are cut or filled with zeros to the sizes that the model states.
Outputs LowerFeatureVectorizer(Lowering& op) {
  const std::vector<int64_t>& sizes = op.Ints("inputdimensions");
  if (!sizes.empty() && sizes.size() != op.inputs.size()) {
    op.Fail("{} inputs have {} inputdimensions", op.inputs.size(), sizes.size());
  }
  std::vector<Val> parts;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    Val x = Cast(op.in(i), DType::kFloat32);
    x = x.rank() == 1 ? Unsqueeze(x, {0}) : Flatten(x, 1);
    if (!sizes.empty()) {
      if (sizes[i] < 0) op.Fail("inputdimensions[{}] is {}", i, sizes[i]);
      const int64_t have = x.size(1);
      if (have > sizes[i]) x = Slice(x, {0}, {sizes[i]}, {1});
      if (have < sizes[i]) {
        const Val pads = op.builder().Ints({0, 0, 0, sizes[i] - have});
        x = op.builder().Make(core::pad, {x, pads}, {{"mode", std::string("constant")}});
      }
    }
    parts.push_back(x);
  }
  return Concat(parts, 1);
}

}  // namespace sardonyx::ops::ml
