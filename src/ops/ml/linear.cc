// Linear models: X [N,F] times coefficients [E,F], plus intercepts [E].

#include "ops/ml/scores.h"

namespace sardonyx::ops::ml {

namespace {

// Scores float32 [N,E].
Val LinearScores(Lowering& op, int64_t columns) {
  const Val x = Precise(Rows(op, op.in(0).dtype()));
  const int64_t length = static_cast<int64_t>(op.attributes.Floats("coefficients").size());
  if (columns < 1 || length == 0 || length % columns != 0) {
    op.Fail("{} coefficients cannot be those of {} scores", length, columns);
  }
  const Val coefficients = Cast(Matrix(op, "coefficients", {columns, length / columns}), x.dtype());
  Val y = MatMul(x, coefficients, false, true);
  if (!op.attributes.Floats("intercepts").empty()) {
    y = y + Cast(Matrix(op, "intercepts", {columns}), x.dtype());
  }
  return Cast(y, DType::kFloat32);
}

}  // namespace

Outputs LowerLinearRegressor(Lowering& op) {
  return PostTransform(op, LinearScores(op, op.Int("targets", 1)));
}

// One score decides between two classes by its sign; with more, the largest wins.
Outputs LowerLinearClassifier(Lowering& op) {
  Tensor labels = StringsOrInts(op, "classlabels_strings", "classlabels_ints");
  const size_t intercepts = op.attributes.Floats("intercepts").size();
  const int64_t columns = intercepts > 0 ? static_cast<int64_t>(intercepts) : labels.size();
  const Val scores = LinearScores(op, columns);
  if (columns == 1 && labels.size() <= 2) {
    // ONNX Runtime's labels for a model that names but one class.
    if (labels.size() == 1) {
      labels = labels.dtype() == DType::kString ? MakeVector(std::vector<std::string>{"0", "1"})
                                                : MakeVector(std::vector<int64_t>{0, 1});
    }
    const Val positive = Cast(Greater(Squeeze(scores, {1}), 0.0), DType::kInt64);
    return {LabelsAt(op, labels, positive), TwoClasses(op, scores, false)};
  }
  if (labels.size() != columns) op.Fail("{} scores have {} labels", columns, labels.size());
  return {LabelsAt(op, labels, Largest(scores)), PostTransform(op, scores)};
}

}  // namespace sardonyx::ops::ml
